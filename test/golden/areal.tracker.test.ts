/**
 * Every single-process tracker case of the golden file: calls in order, exports and refusals as expected.
 */
import * as tf from '@tensorflow/tfjs-core';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  DtypeError,
  KeyConflictError,
  MissingInputError,
  PairingError,
  ShapeError,
  type TensortallyError,
  ValueError,
} from '../../src/errors.js';
import { initBackend } from '../../src/kernels/index.js';
import { type StatsTracker, TrackerRegistry } from '../../src/tracker/index.js';
import {
  type GoldenCase,
  type TensorSpec,
  type Tolerance,
  decodeTensor,
  loadGolden,
} from '../support/golden.js';

type Values = Readonly<Record<string, TensorSpec | number | null>>;

interface Checks {
  readonly tracker?: string;
  readonly expected?: Readonly<Record<string, number>>;
  readonly expectedError?: { readonly kind: string };
}

type Call = Checks &
  (
    | { readonly op: 'enterScope'; readonly name: string }
    | { readonly op: 'exitScope' }
    | { readonly op: 'denominator'; readonly values: Values }
    | {
        readonly op: 'stat';
        readonly values: Values;
        readonly denominator: string;
        readonly reduceType?: string;
      }
    | { readonly op: 'scalar'; readonly values: Values }
    | { readonly op: 'timing'; readonly key: string; readonly seconds: number }
    | { readonly op: 'export'; readonly reset: boolean; readonly key?: string }
    | { readonly op: 'exportAll'; readonly reset: boolean }
    | { readonly op: 'repeat'; readonly times: number; readonly calls: readonly Call[] }
    | {
        readonly op: 'interleave';
        readonly tasks: readonly (readonly Call[])[];
        readonly order: readonly number[];
      }
  );

/** Our class for each kind of refusal that the golden files name. */
const ERRORS: Readonly<Record<string, new (...args: never[]) => TensortallyError>> = {
  invalid_dtype: DtypeError,
  empty_tensor: ShapeError,
  shape_mismatch: ShapeError,
  unknown_denominator: MissingInputError,
  invalid_reduce_type: ValueError,
  invalid_value: ValueError,
  unbalanced_record: PairingError,
  key_conflict: KeyConflictError,
  key_collision: KeyConflictError,
};

/** Lets tasks take turns in a given order, one call at a time. */
class Baton {
  readonly #order: number[];
  #waiting = new Map<number, () => void>();

  constructor(order: readonly number[]) {
    this.#order = [...order];
  }

  async turn(task: number): Promise<void> {
    if (this.#order[0] === task) return;
    await new Promise<void>((resolve) => this.#waiting.set(task, resolve));
  }

  pass(): void {
    this.#order.shift();
    const next = this.#order[0];
    if (next === undefined) return;
    this.#waiting.get(next)?.();
    this.#waiting.delete(next);
  }
}

class Player {
  #now = 0;
  readonly #registry = new TrackerRegistry({ clock: () => this.#now });
  readonly #trackerName: string;
  readonly #tolerance: Tolerance;
  /** Exports compared, so that a case that compares nothing cannot pass. */
  compared = 0;

  constructor({ options, tolerance }: GoldenCase) {
    this.#trackerName = (options.trackerName as string | undefined) ?? '';
    this.#tolerance = tolerance;
  }

  /** Plays `calls[from…]` up to the exitScope that ends the current scope; returns where it stopped. */
  async play(calls: readonly Call[], from = 0, baton?: Baton, task = 0): Promise<number> {
    let i = from;
    while (i < calls.length) {
      const call = calls[i]!;
      await baton?.turn(task);
      if (call.op === 'exitScope') return i;
      if (call.op === 'enterScope') {
        const start = i + 1;
        i = await this.#tracker(call).scope(call.name, () => {
          baton?.pass();
          return this.play(calls, start, baton, task);
        });
        expect(calls[i]?.op).toBe('exitScope');
      } else if (call.expectedError !== undefined) {
        const refusal = ERRORS[call.expectedError.kind]!;
        await expect((async () => this.#perform(call))(), call.expectedError.kind).rejects.toThrow(refusal);
      } else {
        await this.#perform(call);
      }
      baton?.pass();
      i++;
    }
    return i;
  }

  #tracker(call: Call): StatsTracker {
    return this.#registry.get(call.tracker ?? this.#trackerName);
  }

  async #perform(call: Call): Promise<void> {
    const tracker = this.#tracker(call);
    switch (call.op) {
      case 'denominator':
        withTensors(call.values, (masks) => {
          tracker.denominator(masks);
        });
        return;
      case 'stat': {
        const reduceType = call.reduceType?.toLowerCase() as 'avg' | undefined;
        withTensors(call.values, (values) => {
          tracker.stat(values, { denominator: call.denominator, ...(reduceType && { reduceType }) });
        });
        return;
      }
      case 'scalar':
        tracker.scalar(call.values as Record<string, number>);
        return;
      case 'timing':
        tracker.recordTiming(call.key, () => {
          this.#now += call.seconds;
        });
        return;
      case 'export': {
        const { key, reset } = call;
        this.#compare(await tracker.export({ key, reset }), call);
        return;
      }
      case 'exportAll':
        this.#compare(await this.#registry.exportAll({ reset: call.reset }), call);
        return;
      case 'repeat':
        for (let n = 0; n < call.times; n++) await this.play(call.calls);
        return;
      case 'interleave': {
        const baton = new Baton(call.order);
        await Promise.all(call.tasks.map((calls, task) => this.play(calls, 0, baton, task)));
        return;
      }
      case 'enterScope':
      case 'exitScope':
      default:
        throw new Error(`the golden file has an operation that this test does not know: ${call.op}`);
    }
  }

  #compare(actual: Record<string, number>, { expected }: Checks): void {
    this.compared++;
    expect(Object.keys(actual)).toEqual(Object.keys(expected!).sort());
    for (const [key, wanted] of Object.entries(expected!)) {
      const got = actual[key]!;
      if (Number.isFinite(wanted) && !isExact(key, wanted)) {
        const bound = this.#tolerance.abs + this.#tolerance.rel * Math.max(Math.abs(wanted), Math.abs(got));
        expect(Math.abs(got - wanted), `${key}: ${got} for ${wanted}`).toBeLessThanOrEqual(bound);
      } else {
        expect(got, key).toBe(wanted);
      }
    }
  }
}

/** Counts and mask sums are exact, and so is every other number that happens to be a small integer. */
function isExact(key: string, wanted: number): boolean {
  return key.endsWith('__count') || Number.isSafeInteger(wanted);
}

/** Calls `record` with tensors made from `values` and disposes them at once, as a trainer does. */
function withTensors(values: Values, record: (tensors: Record<string, tf.Tensor>) => void): void {
  tf.tidy(() => {
    const tensors = Object.entries(values).map(([name, spec]) => {
      if (spec === null || typeof spec === 'number') return [name, spec] as unknown as [string, tf.Tensor];
      const { values: data, shape, dtype } = decodeTensor(spec);
      return [name, tf.tensor(data, shape, dtype)] as const;
    });
    record(Object.fromEntries(tensors));
  });
}

const { cases } = loadGolden('areal.tracker');

describe('areal.tracker', () => {
  beforeAll(async () => {
    await initBackend('cpu');
  });

  it.each(cases.map((golden) => [golden.id, golden] as const))('%s', async (_id, golden) => {
    const before = tf.memory().numTensors;
    const { ranks } = golden.inputs as unknown as { ranks: { calls: Call[] }[] };
    expect(ranks).toHaveLength(1);
    const player = new Player(golden);
    const { calls } = ranks[0]!;
    expect(await player.play(calls)).toBe(calls.length);
    expect(player.compared + calls.filter((call) => call.expectedError !== undefined).length).toBeGreaterThan(
      0,
    );
    if (golden.id !== 'err-too-few-values') expect(tf.memory().numTensors).toBe(before);
  });
});
