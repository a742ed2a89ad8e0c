/** One measurement and what it found, as they travel between the program and the process that measures. */
import type { BackendName } from '../src/index.js';
import type { Counts } from './counters/index.js';
import type { Timing } from './measure/interleaved.js';
import type { TorchOptions } from './peers/torch.js';
import type { Amount, SizeName } from './scenario.js';

export interface Job {
  readonly scenario: string;
  readonly size: SizeName;
  readonly backend: 'auto' | BackendName;
  /** Whether to time it; counts and the check of the results are always made. */
  readonly isTimed: boolean;
  /** Rounds that are timed at least. */
  readonly minRounds: number;
  readonly budgetSeconds: number;
  /** Threads of torch and TensorFlow. */
  readonly threads: number;
  readonly torch?: Pick<TorchOptions, 'python'> | undefined;
}

export interface JobResult {
  readonly scenario: string;
  readonly size: SizeName;
  readonly label: string;
  readonly backend: BackendName;
  readonly device: string;
  readonly driver?: string | undefined;
  readonly isSoftware: boolean;
  readonly versions: Readonly<Record<string, string>>;
  /** Bytes of all inputs on the device. */
  readonly inputBytes: number;
  /** What `floor` among the ways is. */
  readonly floor: string;
  /** Whose results were found right before anything was timed. */
  readonly checked: readonly string[];
  /** 0 if nothing was timed. */
  readonly rounds: number;
  /** By way; ratios are times over that of `ours`. */
  readonly ways: Readonly<Record<string, Timing>>;
  /** Of one run, by way. */
  readonly counts: Readonly<Record<string, Counts>>;
  /** Where the scenario has a notion of it: bytes that `ours` keeps until its result, and of everything that went in. */
  readonly retained?: { readonly ours: number; readonly everything: number } | undefined;
  /** Of one run. */
  readonly amount?: Amount | undefined;
}

/** What the measuring process says. */
export type JobMessage =
  | { readonly kind: 'progress'; readonly text: string }
  | { readonly kind: 'result'; readonly result: JobResult }
  | { readonly kind: 'unavailable'; readonly reason: string }
  | { readonly kind: 'failed'; readonly reason: string };
