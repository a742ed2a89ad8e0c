/**
 * The floor on a CPU: one thread that reads bytes once, with 128-bit loads, in WebAssembly memory.
 *
 * The module is assembled here, some forty instructions, so that the floor depends on nothing that it is a floor for.
 * Eight accumulators keep the additions from waiting for each other: what is left to wait for is memory.
 */

/** What is used of the global that Node's type declarations leave out. */
declare const WebAssembly: {
  readonly Memory: new (size: { initial: number }) => { readonly buffer: ArrayBuffer };
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Instance: new (module: object, imports: object) => { readonly exports: Record<string, unknown> };
};

/** Additions in flight; each turn of the loop reads this many vectors. */
const LANES = 8;
const VECTOR_BYTES = 16;
const TURN_BYTES = LANES * VECTOR_BYTES;
const PAGE_BYTES = 65_536;

const I32 = 0x7f;
const V128 = 0x7b;

/** Unsigned LEB128. */
function leb(value: number): number[] {
  const bytes = [];
  do {
    const rest = value >>> 7;
    bytes.push((value & 0x7f) | (rest === 0 ? 0 : 0x80));
    value = rest;
  } while (value !== 0);
  return bytes;
}

/** A vector of the binary format: its length, then its items. */
function vector(items: readonly (readonly number[])[]): number[] {
  return [...leb(items.length), ...items.flat()];
}

function section(id: number, content: readonly number[]): number[] {
  return [id, ...leb(content.length), ...content];
}

function name(text: string): number[] {
  return vector(Array.from(Buffer.from(text), (letter) => [letter]));
}

/** `sum(end: i32) → i32`: the wrapped sum of all 32-bit words in [0, end), end a multiple of `TURN_BYTES`. */
function assemble(): Uint8Array<ArrayBuffer> {
  const [end, at, first] = [0, 1, 2];
  const get = (local: number): number[] => [0x20, local];
  const set = (local: number): number[] => [0x21, local];
  const constant = (value: number): number[] => [0x41, ...leb(value)]; // i32.const; values below 64 are unsigned
  const add = [0xfd, 0xae, 0x01]; // i32x4.add
  const load = (offset: number): number[] => [0xfd, 0x00, 0x04, ...leb(offset)]; // v128.load
  const extract = (lane: number): number[] => [0xfd, 0x1b, lane]; // i32x4.extract_lane
  const lanes = Array.from({ length: LANES }, (_, lane) => lane);
  const body = [
    ...[0x02, 0x40, 0x03, 0x40], // block, loop
    ...[...get(at), ...get(end), 0x4f, 0x0d, 1], // br_if 1 (at ≥ end)
    ...lanes.flatMap((lane) => [
      ...[...get(first + lane), ...get(at), ...load(lane * VECTOR_BYTES)],
      ...[...add, ...set(first + lane)],
    ]),
    // i32.const is signed: 128 takes two bytes.
    ...[...get(at), 0x41, 0x80, 0x01, 0x6a, ...set(at)],
    ...[0x0c, 0, 0x0b, 0x0b], // br 0, end, end
    ...lanes.slice(1).flatMap((lane) => [...get(first), ...get(first + lane), ...add, ...set(first)]),
    ...constant(0),
    ...[0, 1, 2, 3].flatMap((lane) => [...get(first), ...extract(lane), 0x6a]),
    0x0b,
  ];
  const locals = vector([
    [1, I32],
    [LANES, V128],
  ]);
  const code = [...locals, ...body];
  return Uint8Array.from([
    ...[0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00],
    ...section(1, vector([[0x60, ...vector([[I32]]), ...vector([[I32]])]])),
    ...section(2, vector([[...name('env'), ...name('memory'), 0x02, 0x00, 0x01]])),
    ...section(3, vector([[0]])),
    ...section(7, vector([[...name('sum'), 0x00, 0]])),
    ...section(10, vector([[...leb(code.length), ...code]])),
  ]);
}

/** Bytes that can be read as fast as one thread can. */
export class SimdRead {
  /** The words to read, rounded up to whole turns of the loop with zeros. */
  readonly words: Uint32Array;
  readonly #sum: (end: number) => number;
  readonly #end: number;

  constructor(bytes: number) {
    this.#end = Math.ceil(bytes / TURN_BYTES) * TURN_BYTES;
    const memory = new WebAssembly.Memory({ initial: Math.max(1, Math.ceil(this.#end / PAGE_BYTES)) });
    const module = new WebAssembly.Module(assemble());
    const { sum } = new WebAssembly.Instance(module, { env: { memory } }).exports;
    this.#sum = sum as (end: number) => number;
    this.words = new Uint32Array(memory.buffer, 0, this.#end / 4);
  }

  /** Reads everything once; the sum of all words modulo 2^32, as a signed number. */
  read(): number {
    return this.#sum(this.#end);
  }
}
