/** What a tracker can be told when it is made: the options, their checks and their defaults. */
import { assertOptions, kindOf } from '../arguments.js';
import { ValueError } from '../errors.js';
import { type Derivation, assertDerivations } from './export/derived.js';
import { assertNonFiniteRule } from './records/inputs.js';
import type { NonFiniteRule } from './records/reduce-type.js';
import { type Clock, monotonicClock } from './timing.js';

/** How a tracker takes what does not add up; docs/decisions/0011-tracker-modes.md lists every case. */
export type TrackerMode = 'strict' | 'parity';

export interface TrackerOptions {
  /** Monotonic seconds, for timings; default `performance.now() / 1000`. */
  readonly clock?: Clock;
  /**
   * `strict` (default) refuses records that contradict each other. `parity` takes them as AReaL does, with a warning
   * per key: values and masks that do not pair up are left out, and the last reduce type or owner of a name wins.
   */
  readonly mode?: TrackerMode;
  /** Names of the windows that every record belongs to, each exported by itself; default one, called `default`. */
  readonly windows?: readonly string[];
  /**
   * What is exported where selected elements are NaN or infinite: `propagate` (they show), `ignore` (they are left
   * out), `error` (the export refuses). Once chosen, here or on a key, their number is exported as `key/nonfinite` when
   * there are any. Left out: they propagate and nothing is counted, as in AReaL.
   */
  readonly nonFinite?: NonFiniteRule;
  /** Numbers computed from exported ones, by exported name; see `ratio`, `perplexity` and `derive`. */
  readonly derived?: Readonly<Record<string, Derivation>>;
  /** Most keys at a time; default 100 000. More are a mistake, e.g. a step number in a key. */
  readonly maxKeys?: number;
  /** Record calls without an export after which the process is warned, once; default 100 000. */
  readonly exportReminder?: number;
}

/** The options with their defaults. */
export interface Settings {
  readonly clock: Clock;
  readonly mode: TrackerMode;
  /** The first is the one that an export is about if it names none. */
  readonly windows: readonly [string, ...string[]];
  readonly nonFinite: NonFiniteRule | undefined;
  readonly derived: ReadonlyMap<string, Derivation>;
  readonly maxKeys: number;
  readonly exportReminder: number;
}

/** @throws ValueError naming the invalid option */
export function settingsOf(where: string, options: TrackerOptions): Settings {
  assertOptions(where, options, {
    clock: 'function',
    mode: 'any',
    windows: 'any',
    nonFinite: 'any',
    derived: 'object',
    maxKeys: 'number',
    exportReminder: 'number',
  });
  const { clock = monotonicClock, mode = 'strict', windows = ['default'] } = options;
  const { nonFinite, derived = {}, maxKeys = 100_000, exportReminder = 100_000 } = options;
  assertMode(where, mode);
  assertWindows(where, windows);
  if (nonFinite !== undefined) assertNonFiniteRule(where, 'options.nonFinite', nonFinite);
  assertDerivations(where, derived);
  assertLimit(where, 'options.maxKeys', maxKeys);
  assertLimit(where, 'options.exportReminder', exportReminder);
  return {
    clock,
    mode,
    windows,
    nonFinite,
    derived: new Map(Object.entries(derived)),
    maxKeys,
    exportReminder,
  };
}

function assertMode(where: string, mode: unknown): void {
  if (mode === 'strict' || mode === 'parity') return;
  throw new ValueError({
    where,
    input: 'options.mode',
    expected: "'strict' or 'parity'",
    received: kindOf(mode),
    remedy: 'leave it out for strict',
  });
}

function assertWindows(where: string, windows: unknown): asserts windows is readonly [string, ...string[]] {
  const isList = Array.isArray(windows) && windows.length > 0;
  if (isList && windows.every((name) => typeof name === 'string' && name !== '')) {
    if (new Set(windows).size === windows.length) return;
  }
  throw new ValueError({
    where,
    input: 'options.windows',
    expected: 'a list of distinct names',
    received: isList ? `[${windows.map(kindOf).join(', ')}]` : kindOf(windows),
    remedy: "name them, e.g. ['step', 'epoch'], or leave it out for one window",
  });
}

function assertLimit(where: string, input: string, value: number): void {
  if (value >= 1) return;
  throw new ValueError({
    where,
    input,
    expected: 'a number of at least 1',
    received: kindOf(value),
    remedy: 'leave it out for the default, or pass Infinity for no limit',
  });
}
