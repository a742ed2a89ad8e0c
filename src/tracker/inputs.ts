/**
 * What the record calls accept: each check refuses one kind of bad input by name. Nothing is recorded here.
 */
import { Tensor } from '@tensorflow/tfjs-core';
import { DtypeError, ShapeError, ValueError } from '../errors.js';
import { assertNamed, kindOf } from '../kernels/arguments.js';
import { assertNumericTensor } from '../kernels/residency.js';
import { type TensorReduceType, tensorReduceTypes } from './reduce-type.js';

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
    const remedy = 'pass a tf.Tensor, or leave the name out';
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
export function assertSameShape(name: string, value: Tensor, denominator: string, mask: Tensor): void {
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

/** @throws ValueError for anything but a reduce type of tensors */
export function assertTensorReduceType(value: unknown): asserts value is TensorReduceType {
  if ((tensorReduceTypes as readonly unknown[]).includes(value)) return;
  throw new ValueError({
    where: 'stat',
    input: 'reduceType',
    expected: `one of ${tensorReduceTypes.map((type) => `'${type}'`).join(', ')}`,
    received: kindOf(value),
    remedy: value === 'scalar' ? 'record plain numbers with scalar()' : 'leave it out for avg_min_max',
  });
}

/** The number behind a scalar; NaN and infinities are numbers, true is 1. */
export function scalarNumber(name: string, value: unknown): number {
  if (typeof value === 'number') return value;
  if (typeof value === 'boolean') return Number(value);
  throw new ValueError({
    where: 'scalar',
    input: name,
    expected: 'a number',
    received: kindOf(value),
    remedy:
      value instanceof Tensor
        ? 'read it first: (await t.data())[0]'
        : 'leave the name out when there is no value',
  });
}
