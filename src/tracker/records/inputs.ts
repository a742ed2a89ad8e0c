/**
 * What the record calls accept: each check refuses one kind of bad input by name. Nothing is recorded here.
 */
import { Tensor } from '@tensorflow/tfjs-core';
import { assertNamed, kindOf } from '../../arguments.js';
import { DtypeError, ShapeError, ValueError } from '../../errors.js';
import { assertNumericTensor } from '../../kernels/residency.js';
import {
  type NonFiniteRule,
  type ScalarReduceType,
  type TensorReduceType,
  scalarReduceTypes,
  tensorReduceTypes,
} from './reduce-type.js';

/** The named things that a record call was given as its parameter `input`. */
export function namedInputs(
  where: string,
  input: 'masks' | 'values',
  inputs: unknown,
): [name: string, value: unknown][] {
  const expected = `an object of named ${input}`;
  assertNamed(where, input, inputs, { expected, remedy: `call it as ${where}({ name: … })` });
  const named = Object.entries(inputs);
  if (named.some(([name]) => name === '')) {
    throw new ValueError({
      where,
      input,
      expected: 'names that are not empty',
      received: "''",
      remedy: 'give every value a name',
    });
  }
  return named;
}

/** @throws DtypeError, DisposedTensorError or ShapeError for anything but a live bool tensor with elements */
export function assertMask(name: string, value: unknown): asserts value is Tensor {
  assertTensor('denominator', name, value, 'bool', `compare it: tf.notEqual(${name}, 0)`);
}

/** @throws DtypeError, DisposedTensorError or ShapeError for anything but a live float32 tensor with elements */
export function assertStatValue(name: string, value: unknown): asserts value is Tensor {
  assertTensor('stat', name, value, 'float32', `cast it: tf.cast(${name}, 'float32')`);
}

function assertTensor(
  where: string,
  name: string,
  value: unknown,
  dtype: 'bool' | 'float32',
  cast: string,
): asserts value is Tensor {
  const expected = `a ${dtype} tensor`;
  if (!(value instanceof Tensor)) {
    const remedy =
      where === 'stat' && typeof value === 'number'
        ? 'pass a tf.Tensor, or record the number with scalar()'
        : 'pass a tf.Tensor, or leave the name out';
    throw new DtypeError({ where, input: name, expected, received: kindOf(value), remedy });
  }
  assertNumericTensor(where, name, value);
  if (value.dtype !== dtype) {
    throw new DtypeError({
      where,
      input: name,
      expected,
      received: `dtype ${value.dtype}`,
      remedy: cast,
    });
  }
  if (value.rank < 1 || value.rank > 4) {
    throw new ShapeError({
      where,
      input: name,
      expected: 'a tensor of rank 1 to 4',
      received: `rank ${String(value.rank)}, shape [${value.shape.join(', ')}]`,
      remedy: value.rank === 0 ? 'reshape it to [1]' : 'merge leading axes with tf.reshape',
    });
  }
  if (value.size === 0) {
    throw new ShapeError({
      where,
      input: name,
      expected: 'at least one element',
      received: `shape [${value.shape.join(', ')}]`,
      remedy: 'leave the call out when there is nothing to record',
    });
  }
}

/** @throws ShapeError unless value and mask have one shape */
export function assertSameShape(
  name: string,
  value: Tensor,
  denominator: string,
  mask: { readonly shape: readonly number[] },
): void {
  if (value.shape.length === mask.shape.length && value.shape.every((size, i) => size === mask.shape[i]))
    return;
  throw new ShapeError({
    where: 'stat',
    input: name,
    expected: `the shape [${mask.shape.join(', ')}] of its mask '${denominator}'`,
    received: `[${value.shape.join(', ')}]`,
    remedy: 'record values and mask of the same micro-batch, reshaped alike',
  });
}

/** @throws ValueError for a name that an option has and the call does not: a misspelling */
export function assertNamesKnown(
  where: string,
  input: string,
  given: unknown,
  known: ReadonlySet<string> | ReadonlyMap<string, unknown>,
): void {
  if (typeof given !== 'object' || given === null) return;
  const unknown = Object.keys(given).find((name) => !known.has(name));
  if (unknown === undefined) return;
  throw new ValueError({
    where,
    input,
    expected: `names of values of the call: ${[...known.keys()].map((name) => `'${name}'`).join(', ')}`,
    received: `'${unknown}'`,
    remedy: 'spell it like the value, or leave it out',
  });
}

/**
 * The reduce type of each name of a call.
 *
 * @param given one for all, or some by name
 * @param otherwise for names that have none
 */
export function reduceTypesByName<T extends string>(
  given: unknown,
  otherwise: T,
  assertType: (value: unknown) => asserts value is T,
): (name: string) => T {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    const type = given === undefined ? otherwise : given;
    assertType(type);
    return () => type;
  }
  const types = new Map<string, T>();
  for (const [name, type] of Object.entries(given)) {
    assertType(type);
    types.set(name, type);
  }
  return (name) => types.get(name) ?? otherwise;
}

/** @throws ValueError for anything but a reduce type of tensors */
export function assertTensorReduceType(value: unknown): asserts value is TensorReduceType {
  if (isOneOf(tensorReduceTypes, value)) return;
  const isForNumbers = isOneOf(scalarReduceTypes, value);
  const remedy = isForNumbers ? 'record plain numbers with scalar()' : 'leave it out for avg_min_max';
  throw unknownType('stat', tensorReduceTypes, value, remedy);
}

/** @throws ValueError for anything but a reduce type of numbers */
export function assertScalarReduceType(value: unknown): asserts value is ScalarReduceType {
  if (isOneOf(scalarReduceTypes, value)) return;
  const remedy = value === 'counter' ? 'count with counter()' : 'leave it out for the mean';
  throw unknownType('scalar', scalarReduceTypes, value, remedy);
}

function isOneOf(list: readonly string[], value: unknown): boolean {
  return (list as readonly unknown[]).includes(value);
}

function unknownType(where: string, types: readonly string[], value: unknown, remedy: string): ValueError {
  return new ValueError({
    where,
    input: 'reduceType',
    expected: `one of ${types.map((type) => `'${type}'`).join(', ')}`,
    received: kindOf(value),
    remedy,
  });
}

/** @throws ValueError for anything but a rule for non-finite elements */
export function assertNonFiniteRule(
  where: string,
  input: string,
  value: unknown,
): asserts value is NonFiniteRule {
  if (value === 'propagate' || value === 'ignore' || value === 'error') return;
  throw new ValueError({
    where,
    input,
    expected: "'propagate', 'ignore' or 'error'",
    received: kindOf(value),
    remedy: 'leave it out to let them show',
  });
}

/** The largest weight of a scalar: 2^60 records of it, and those of all workers, still have a finite sum of weights. */
export const LARGEST_WEIGHT = 2 ** 900;

/** @throws ValueError for a weight that is no number from 0 to `LARGEST_WEIGHT`, or that the reduce type has no use for */
export function assertWeight(value: unknown, reduceType: ScalarReduceType): asserts value is number {
  if (reduceType !== 'scalar') {
    throw new ValueError({
      where: 'scalar',
      input: 'weight',
      expected: "no weight with reduce type '" + reduceType + "'",
      received: kindOf(value),
      remedy: 'leave it out; only a mean has weights',
    });
  }
  if (typeof value === 'number' && value >= 0 && value <= LARGEST_WEIGHT) return;
  throw new ValueError({
    where: 'scalar',
    input: 'weight',
    expected: 'a number from 0 to 2^900',
    received: kindOf(value),
    remedy: 'pass how many samples the numbers stand for, e.g. tokens of the micro-batch',
  });
}

/** The number behind a scalar; NaN and infinities are numbers, true is 1. */
export function scalarNumber(where: string, name: string, value: unknown): number {
  if (typeof value === 'number') return value;
  if (typeof value === 'boolean') return Number(value);
  throw new ValueError({
    where,
    input: name,
    expected: 'a number',
    received: kindOf(value),
    remedy:
      value instanceof Tensor
        ? 'read it first: (await t.data())[0]'
        : 'leave the name out when there is no value',
  });
}

/** The number behind a count: true is 1, and nothing counts down. */
export function countedNumber(name: string, value: unknown): number {
  const number = scalarNumber('counter', name, value);
  if (canBeCounted(number)) return number;
  throw new ValueError({
    where: 'counter',
    input: name,
    expected: 'a finite number of at least 0',
    received: kindOf(number),
    remedy: "count what happened; record what can shrink with scalar() and reduceType 'sum'",
  });
}

/** Whether a counter takes `number`, which need not be an integer. */
export function canBeCounted(number: number): boolean {
  return number >= 0 && number < Infinity;
}
