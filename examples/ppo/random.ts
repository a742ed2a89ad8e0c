/**
 * The demo's only source of chance: a small seeded generator with named, independent streams.
 *
 * Nothing here is global and nothing calls `Math.random`, so two runs with one seed draw the same numbers, and adding
 * a draw in one part of the trainer (a validation, say) does not shift the draws of another.
 */

/** A seeded stream of random numbers (sfc32: 128 bits of state, passes PractRand). */
export class Random {
  private a: number;
  private b: number;
  private c: number;
  private counter = 1;

  /** @param seed Any number; its integer part modulo 2³² and its name pick the stream. */
  constructor(
    private readonly seed: number,
    private readonly name = '',
  ) {
    let hash = seed >>> 0;
    for (const char of name) hash = mix(hash ^ char.codePointAt(0)!);
    this.a = mix(hash + 0x9e3779b9);
    this.b = mix(this.a + 0x9e3779b9);
    this.c = mix(this.b + 0x9e3779b9);
    // The first outputs still show the seed; a dozen rounds hide it.
    for (let round = 0; round < 12; round += 1) this.bits();
  }

  /** An independent stream: the same seed and name give the same stream, however much this one was used. */
  stream(name: string): Random {
    return new Random(this.seed, `${this.name}/${name}`);
  }

  /** A uniform number in [0, 1), with 32 random bits. */
  uniform(): number {
    return this.bits() / 0x1_0000_0000;
  }

  /** A uniform integer in [low, high], both ends included. */
  integer(low: number, high: number): number {
    return low + Math.floor(this.uniform() * (high - low + 1));
  }

  /** A standard normal number (Box & Muller; one of the pair is used). */
  normal(): number {
    const radius = Math.sqrt(-2 * Math.log(1 - this.uniform()));
    return radius * Math.cos(2 * Math.PI * this.uniform());
  }

  private bits(): number {
    const sum = (this.a + this.b + this.counter) | 0;
    this.counter = (this.counter + 1) | 0;
    this.a = this.b ^ (this.b >>> 9);
    this.b = (this.c + (this.c << 3)) | 0;
    this.c = (((this.c << 21) | (this.c >>> 11)) + sum) | 0;
    return sum >>> 0;
  }
}

/** One round of murmur3's finaliser: every input bit changes about half of the output bits. */
function mix(value: number): number {
  let hash = value | 0;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
