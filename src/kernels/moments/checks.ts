/** What the moments operations refuse, and in which words. */
import { assertOptions, kindOf } from '../../arguments.js';
import { MissingInputError, ShapeError, ValueError } from '../../errors.js';
import { type NonFinitePolicy, assertNonFinitePolicy } from '../../rows/index.js';
import { type MaskTensor, assertMask } from '../masks/compact-mask.js';
import { type NamedTensor, assertNumericTensor } from '../residency.js';

/** Options of the moments operations. */
export interface MomentsOptions {
  /** −1 gives one result per row, a row being the last axis; left out, all elements are reduced to one. */
  readonly axis?: -1 | undefined;
  /** What selected NaN and ±Infinity do to the result; default `'propagate'`. */
  readonly nonFinite?: NonFinitePolicy | undefined;
}

/** A mask as the caller calls it. */
export interface NamedMask {
  readonly name: string;
  readonly tensor: MaskTensor;
}

/**
 * Checks that tensors and mask can share a pass.
 *
 * @param where the public function, for the message
 * @param named the values, in the order of the caller
 * @throws MissingInputError, DtypeError, DisposedTensorError or ShapeError, naming the input
 */
export function assertTensors(
  where: string,
  named: readonly NamedTensor[],
  mask: NamedMask | undefined,
): void {
  const [first] = named;
  if (first === undefined) {
    throw new MissingInputError({
      where,
      input: 'values',
      expected: 'at least one tensor',
      received: 'an empty record',
      remedy: 'pass a tensor or a record of named tensors',
    });
  }
  for (const { name, tensor } of named) assertNumericTensor(where, name, tensor);
  if (mask !== undefined) assertMask(where, mask.name, mask.tensor);
  assertRank(where, first);
  for (const other of named.slice(1)) assertSameShape(where, other, first);
  if (mask !== undefined) assertSameShape(where, mask, first);
}

/**
 * @returns the options, with the default policy
 * @throws ValueError for anything but an object, for an unknown policy and for an axis other than the last
 */
export function checkedOptions(
  where: string,
  options: MomentsOptions | undefined,
): { axis: -1 | undefined; nonFinite: NonFinitePolicy } {
  if (options !== undefined) assertOptions(where, options, { axis: 'any', nonFinite: 'any' });
  const { axis, nonFinite = 'propagate' } = options ?? {};
  assertAxis(where, axis);
  assertNonFinitePolicy(where, nonFinite);
  return { axis, nonFinite };
}

function assertAxis(where: string, axis: number | undefined): void {
  if (axis === undefined || axis === -1) return;
  throw new ValueError({
    where,
    input: 'options.axis',
    expected: '-1 (one result per row) or nothing (one result for all elements)',
    received: kindOf(axis),
    remedy: 'transpose the tensor so that the axis to reduce is the last one',
  });
}

/** @throws ShapeError for a tensor of rank 0 or above 4 */
export function assertRank(where: string, { name, tensor }: NamedMask): void {
  if (tensor.rank >= 1 && tensor.rank <= 4) return;
  throw new ShapeError({
    where,
    input: name,
    expected: 'a tensor of rank 1 to 4',
    received: `rank ${tensor.rank}, shape [${tensor.shape.join(', ')}]`,
    remedy: tensor.rank === 0 ? 'reshape the scalar to [1]' : 'merge leading axes with tf.reshape',
  });
}

function assertSameShape(where: string, { name, tensor }: NamedMask, reference: NamedTensor): void {
  const { shape } = reference.tensor;
  if (tensor.rank === shape.length && tensor.shape.every((n, axis) => n === shape[axis])) return;
  throw new ShapeError({
    where,
    input: name,
    expected: `the shape of ${reference.name}, [${shape.join(', ')}]`,
    received: `[${tensor.shape.join(', ')}]`,
    remedy:
      name === 'mask'
        ? 'slice the mask or pad it with false'
        : 'reduce tensors of other shapes in another call',
  });
}

/** Number of elements of a tensor of this shape. */
export function sizeOf(shape: readonly number[]): number {
  return shape.reduce((product, n) => product * n, 1);
}

/** A plain object; anything else is taken for a tensor and refused if it is none. */
export function isRecord(values: unknown): values is Readonly<Record<string, unknown>> {
  if (typeof values !== 'object' || values === null) return false;
  const prototype: unknown = Object.getPrototypeOf(values);
  return prototype === Object.prototype || prototype === null;
}
