/**
 * What a scenario is: some work of a training step, in sizes, and the ways to do it that are compared.
 *
 * One file per scenario in scenarios/, one line in their table. Everything else (processes, timing, counting, floors,
 * tables) is the same for all.
 */
import type { Closeness, Numbers } from './agreement.js';

/** Sizes that every scenario has a notion of; what they mean is in the size's label. */
export const sizeNames = ['tiny', 'small', 'medium', 'large'] as const;
export type SizeName = (typeof sizeNames)[number];

/** The way that only reads; where every way has its own, a name that begins with it. */
export const FLOOR = 'floor';

/** One way to do the work, in this process. */
export interface Way {
  /** Does the work to its end: results are on the host when it resolves. */
  readonly run: () => Promise<unknown>;
  /** The results of one run, for the check before timing. */
  readonly numbers: () => Promise<Numbers>;
  /** What they must be: computed in float64, independently of every way. */
  readonly expected: Numbers;
  readonly closeness: Closeness;
  /** Where ways do different amounts of work: how much, see `TimedWay.units`, and in how many bytes. */
  readonly share?: { readonly units: number; readonly inputBytes: number };
}

/** Tensors on the host by name; a Uint8Array is a mask. */
export type HostTensors = Readonly<Record<string, HostTensor>>;

export interface HostTensor {
  readonly values: Float32Array | Int32Array | Uint8Array;
  readonly shape: readonly number[];
}

/** The same work for torch in a Python process, see peers/. */
export interface TorchWork {
  /** Name in the table of peers/torch_peer.py. */
  readonly task: string;
  readonly tensors: HostTensors;
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly closeness: Closeness;
  /** As in `Way`. */
  readonly expected: Numbers;
}

/** What stays in memory between the work and its result, as between the records of a step and their export. */
export interface Retention {
  /** Does the work but for the result, and measures. Bytes on the device, and of the host's heap. */
  readonly ours: () => Promise<number>;
  /** Bytes of all that went in: what a peer keeps that reduces at the end. */
  readonly everything: number;
}

/** What a run does, where that says more than its bytes. */
export interface Amount {
  readonly count: number;
  /** In the plural. */
  readonly what: string;
}

/** A scenario that is ready to run on the active backend. */
export interface Work {
  /** Bytes of all distinct inputs in the memory of the active backend: what reading them once means. */
  readonly inputBytes: number;
  /** `ours` is the one that all others are compared with. */
  readonly ways: Readonly<Record<string, Way>> & { readonly ours: Way };
  readonly torch?: TorchWork;
  readonly retention?: Retention;
  readonly amount?: Amount;
  readonly dispose: () => void;
}

export interface Size {
  /** For people: shapes, and how many of them. */
  readonly label: string;
  /** Makes inputs and ways on the active backend. The same numbers every time. */
  readonly prepare: () => Work;
}

export interface Scenario {
  readonly name: string;
  readonly describe: string;
  readonly sizes: Readonly<Record<SizeName, Size>>;
}

/** Float32 kernels held to the numerical contract, float64 finish. */
export const OURS: Closeness = { relative: 2e-5, absolute: 2e-6 };
/**
 * Plain float32 sums in whatever order a peer adds them: tfjs' wasm backend adds one after the other, and was seen to
 * lose 0.3 % of an m2 of four million elements.
 */
export const FLOAT32_PEER: Closeness = { relative: 1e-2, absolute: 1e-3 };
