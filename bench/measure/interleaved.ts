/**
 * Interleaved timing: several ways to do one thing take turns in one process, and are compared round by round.
 *
 * Machines drift, so a time alone says little; what two ways take next to each other can be compared. Every way must
 * finish its work before it resolves: device work ends with a read-back.
 */
import { median, medianInterval } from './order-statistics.js';

/** One way to do the work. */
export interface TimedWay {
  /** Does the work `repeats` times; resolves to the milliseconds that all of them took together. */
  time(repeats: number): Promise<number>;
  /** Size of the work, where ways do different amounts of it: times are divided by it. Default 1. */
  readonly units?: number | undefined;
}

/** How long to go on. */
export interface Effort {
  /** Rounds that are always run. */
  readonly minRounds: number;
  /** Milliseconds after which no further round starts, warm-up not counted. */
  readonly budgetMs: number;
  /** Monotonic milliseconds. */
  readonly clock: () => number;
  /** Hears of every finished round. */
  readonly onRound?: ((round: number) => void) | undefined;
}

/** What one way took. */
export interface Timing {
  /** Median milliseconds of one run. */
  readonly medianMs: number;
  readonly intervalMs: readonly [low: number, high: number];
  /** Time per unit over that of the subject, median over rounds: above 1, the subject is faster. */
  readonly ratio: number;
  /** At least 95 % confidence, see `medianInterval`. */
  readonly ratioInterval: readonly [low: number, high: number];
}

/** What an interleaved measurement found. */
export interface Timings<K extends string = string> {
  readonly rounds: number;
  readonly ways: Readonly<Record<K, Timing>>;
}

/** A sample shorter than this says more about the clock than about the work, so short runs are repeated in it. */
const MIN_SAMPLE_MS = 2;
/** A measurement whose ratio intervals are all this narrow is done, whatever its budget. */
const TIGHT = 0.04;
const MAX_ROUNDS = 101;
const MAX_WARM_UPS = 6;
/** Two samples in a row that differ by less than this end the warm-up of a way. */
const STEADY = 0.1;
/**
 * No way is warm before it has run this long: an engine compiles what it has seen often, so a call of a tenth of a
 * millisecond costs twice as much in its first thousand runs as in its next, and the hundred small calls of a step in
 * its first hundred.
 */
const WARM_UP_MS = 1000;

/**
 * Measures `ways` in turns; each round begins with another one, so that nobody always runs after the same neighbour.
 *
 * @param subject the way that the ratios are relative to
 */
export async function measureInterleaved<K extends string>(
  ways: Readonly<Record<K, TimedWay>>,
  subject: NoInfer<K>,
  { minRounds, budgetMs, clock, onRound }: Effort,
): Promise<Timings<K>> {
  const names = Object.keys(ways) as K[];
  const repeats = {} as Record<K, number>;
  for (const name of names) repeats[name] = await warmUp(ways[name]);
  const samples = Object.fromEntries(names.map((name) => [name, [] as number[]])) as Record<K, number[]>;
  const start = clock();
  let round = 0;
  for (;;) {
    for (let turn = 0; turn < names.length; turn++) {
      const name = names[(round + turn) % names.length]!;
      samples[name].push((await ways[name].time(repeats[name])) / repeats[name]);
    }
    round++;
    onRound?.(round);
    if (round < minRounds) continue;
    if (round >= MAX_ROUNDS || clock() - start >= budgetMs) break;
    if (names.every((name) => isTight(ratios(ways, samples, name, subject)))) break;
  }
  const timing = (name: K): Timing => {
    const relative = ratios(ways, samples, name, subject);
    return {
      medianMs: median(samples[name]),
      intervalMs: medianInterval(samples[name]),
      ratio: median(relative),
      ratioInterval: medianInterval(relative),
    };
  };
  const timings = Object.fromEntries(names.map((name) => [name, timing(name)])) as Record<K, Timing>;
  return { rounds: round, ways: timings };
}

/** Runs a way until it is warm; resolves to the repeats that make a sample long enough. */
async function warmUp(way: TimedWay): Promise<number> {
  let repeats = 1;
  let previous = Infinity;
  let spent = 0;
  for (let run = 0; run < MAX_WARM_UPS || spent < WARM_UP_MS; run++) {
    const each = Math.max((await way.time(repeats)) / repeats, 1e-6);
    spent += each * repeats;
    repeats = Math.max(1, Math.ceil(MIN_SAMPLE_MS / each));
    if (Math.abs(each - previous) <= STEADY * each && spent >= WARM_UP_MS) break;
    previous = each;
  }
  return repeats;
}

function ratios<K extends string>(
  ways: Readonly<Record<K, TimedWay>>,
  samples: Readonly<Record<K, readonly number[]>>,
  name: K,
  subject: K,
): number[] {
  const perUnit = (ways[subject].units ?? 1) / (ways[name].units ?? 1);
  return samples[name].map((ms, round) => (ms / samples[subject][round]!) * perUnit);
}

function isTight(values: readonly number[]): boolean {
  const [low, high] = medianInterval(values);
  return high - low <= 2 * TIGHT * median(values);
}

/** A way that is a function of this process. */
export function timedBy(clock: () => number, run: () => Promise<unknown>): TimedWay {
  return {
    time: async (repeats) => {
      const start = clock();
      for (let i = 0; i < repeats; i++) await run();
      return clock() - start;
    },
  };
}
