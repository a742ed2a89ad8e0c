/** What `maskedMoments` refuses, and in which words. */
import { MissingInputError, ShapeError, ValueError } from '../../errors.js';
import { type NamedTensor, assertNumericTensor } from '../residency.js';

/** The public function that all of these speak for. */
export const WHERE = 'maskedMoments';

/**
 * Checks that tensors and mask can share a pass.
 *
 * @param named the values, in the order of the caller
 * @throws MissingInputError, DtypeError, DisposedTensorError or ShapeError, naming the input
 */
export function assertTensors(named: readonly NamedTensor[], mask: NamedTensor | undefined): void {
  const [first, ...others] = named;
  if (first === undefined) {
    throw new MissingInputError({
      where: WHERE,
      input: 'values',
      expected: 'at least one tensor',
      received: 'an empty record',
      remedy: 'pass a tensor or a record of named tensors',
    });
  }
  if (mask !== undefined) others.push(mask);
  for (const { name, tensor } of [first, ...others]) assertNumericTensor(WHERE, name, tensor);
  assertRank(first);
  for (const other of others) assertSameShape(other, first);
}

/** @throws ValueError for an unknown policy */
export function assertPolicy(nonFinite: string): void {
  if (nonFinite === 'propagate' || nonFinite === 'ignore') return;
  throw new ValueError({
    where: WHERE,
    input: 'options.nonFinite',
    expected: "'propagate' or 'ignore'",
    received: JSON.stringify(nonFinite),
    remedy: "leave it out for 'propagate'",
  });
}

/** @throws ValueError for an axis other than the last */
export function assertAxis(axis: number | undefined): void {
  if (axis === undefined || axis === -1) return;
  throw new ValueError({
    where: WHERE,
    input: 'options.axis',
    expected: '-1 (one result per row) or nothing (one result for all elements)',
    received: String(axis),
    remedy: 'transpose the tensor so that the axis to reduce is the last one',
  });
}

function assertRank({ name, tensor }: NamedTensor): void {
  if (tensor.rank >= 1 && tensor.rank <= 4) return;
  throw new ShapeError({
    where: WHERE,
    input: name,
    expected: 'a tensor of rank 1 to 4',
    received: `rank ${tensor.rank}, shape [${tensor.shape.join(', ')}]`,
    remedy: tensor.rank === 0 ? 'reshape the scalar to [1]' : 'merge leading axes with tf.reshape',
  });
}

function assertSameShape({ name, tensor }: NamedTensor, reference: NamedTensor): void {
  const { shape } = reference.tensor;
  if (tensor.rank === shape.length && tensor.shape.every((n, axis) => n === shape[axis])) return;
  throw new ShapeError({
    where: WHERE,
    input: name,
    expected: `the shape of ${reference.name}, [${shape.join(', ')}]`,
    received: `[${tensor.shape.join(', ')}]`,
    remedy:
      name === 'mask'
        ? 'slice the mask or pad it with false'
        : 'reduce tensors of other shapes in another call',
  });
}
