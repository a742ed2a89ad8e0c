/**
 * What a stat call was given: tensors, and what their keys are to be. Checked here, recorded by the ledger.
 */
import type { Tensor } from '@tensorflow/tfjs-core';
import type { Binding } from './entry.js';
import {
  assertNamesKnown,
  assertNonFiniteRule,
  assertStatValue,
  assertTensorReduceType,
  namedInputs,
  reduceTypesByName,
} from './inputs.js';
import { Launch } from './launch.js';
import type { HeldMask } from './mask-queue.js';
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
export interface Stat {
  readonly tensor: Tensor;
  readonly binding: Binding;
}

export function launchOf(stats: ReadonlyMap<string, Stat>, { compact }: HeldMask): Launch {
  const histograms = [...stats].flatMap(([name, { binding }]) =>
    binding.reduction === 'histogram' ? [name] : [],
  );
  return Launch.of(new Map([...stats].map(([name, { tensor }]) => [name, tensor])), compact, histograms);
}

export function namedStats(
  values: unknown,
  bindingOf: (name: string) => Binding,
  reduceType: StatReduction['reduceType'],
): Map<string, Stat> {
  const stats = new Map<string, Stat>();
  for (const [name, tensor] of namedInputs('stat', 'values', values)) {
    assertStatValue(name, tensor);
    stats.set(name, { tensor, binding: bindingOf(name) });
  }
  assertNamesKnown('stat', 'reduceType', reduceType, stats);
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
