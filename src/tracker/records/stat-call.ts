/**
 * What a stat call was given: tensors, and what their keys are to be. Checked here, recorded by the ledger.
 */
import { Tensor } from '@tensorflow/tfjs-core';
import { kindOf } from '../../arguments.js';
import { MissingInputError, ValueError } from '../../errors.js';
import type { HeldMask } from '../masks/mask-queue.js';
import type { Binding } from './entry.js';
import {
  assertNamesKnown,
  assertNonFiniteRule,
  assertStatValue,
  assertTensorReduceType,
  namedInputs,
  reduceTypesByName,
} from './inputs.js';
import type { Claim } from './key-book.js';
import { Launch } from './launch.js';
import type { NonFiniteRule, TensorReduceType } from './reduce-type.js';

/** How values are reduced. */
export interface StatReduction {
  /** One for all values of the call, or by name; default `avg_min_max`. */
  readonly reduceType?: TensorReduceType | Readonly<Record<string, TensorReduceType>>;
  /** See `TrackerOptions.nonFinite`; left out, what the key has, else what the tracker has. */
  readonly nonFinite?: NonFiniteRule;
}

/** What a stat is reduced over, and how. */
export interface StatOptions extends StatReduction {
  /** Name of a denominator recorded in the same scope. */
  readonly denominator: string;
}

/** A value of a record call, and what its key is to be. */
export interface Stat extends Claim {
  readonly name: string;
  readonly tensor: Tensor;
}

/**
 * Refuses calls in the order and the form of other trackers: the denominator first, or among the values.
 *
 * @throws ValueError for these; MissingInputError without options
 */
export function assertStatCall(
  values: unknown,
  options: StatOptions | undefined,
): asserts options is StatOptions {
  if (typeof values === 'string') {
    const names = isRecord(options) ? Object.keys(options).slice(0, 10).join(', ') : 'name';
    throw new ValueError({
      where: 'stat',
      input: 'values',
      expected: 'an object of named values',
      received: kindOf(values),
      remedy: `values come first: call it as stat({ ${names} }, { denominator: '${values.slice(0, 100)}' })`,
    });
  }
  if (options !== undefined) return;
  const among = isRecord(values) ? values.denominator : undefined;
  const names = isRecord(values) ? Object.keys(values).filter((name) => name !== 'denominator') : [];
  const denominator = typeof among === 'string' ? among.slice(0, 100) : 'n_valid_tokens';
  throw new MissingInputError({
    where: 'stat',
    input: 'options',
    expected: 'a second argument { denominator } with the name of the mask that values are reduced over',
    received: typeof among === 'string' ? 'a denominator among the values' : 'nothing',
    remedy: `call it as stat({ ${names.slice(0, 10).join(', ') || 'name'} }, { denominator: '${denominator}' })`,
  });
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Tensor);
}

export function launchOf(stats: readonly Stat[], { compact }: HeldMask): Launch {
  const values = Object.fromEntries(stats.map(({ name, tensor }) => [name, tensor]));
  const histograms = stats.filter(({ binding }) => binding.reduction === 'histogram');
  return Launch.of(
    values,
    compact,
    histograms.map(({ name }) => name),
  );
}

/** The values of a call, each with the key that `claimOf` gives it. */
export function namedStats(
  values: unknown,
  claimOf: (name: string) => Claim,
  reduceType: StatReduction['reduceType'],
): Stat[] {
  const stats = namedInputs('stat', 'values', values).map(([name, tensor]): Stat => {
    assertStatValue(name, tensor);
    const { key, binding } = claimOf(name);
    return { name, key, tensor, binding };
  });
  if (typeof reduceType === 'object') {
    const names = new Set(stats.map(({ name }) => name));
    assertNamesKnown('stat', 'reduceType', reduceType, names);
  }
  return stats;
}

/** What the keys of a call are to be, once its options are known to be fine. */
export function bindings({ reduceType, nonFinite }: StatReduction = {}): (
  name: string,
  denominator: string,
) => Binding {
  if (nonFinite !== undefined) assertNonFiniteRule('stat', 'nonFinite', nonFinite);
  const types = reduceTypesByName(reduceType, 'avg_min_max', assertTensorReduceType);
  return (name, denominator) => ({ reduction: types(name), denominator, nonFinite });
}
