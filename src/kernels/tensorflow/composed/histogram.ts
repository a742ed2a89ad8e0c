/**
 * Histograms on a GPU of the `tensorflow` backend: a fixed sequence of ops per band of elements, however many tensors.
 *
 * The bits of the floats become float64 numbers, which hold them exactly, and the slot is computed in float64: TensorFlow
 * keeps most arithmetic on int32 in host memory, and may take subnormal float32 numbers for zeros. Only the finished slots
 * are int32 again, for the one op that counts integers on a GPU.
 */
import type { TensorInfo } from '@tensorflow/tfjs-core';
import { buckets, histogramOfSlots } from '../../../rows/index.js';
import { DeviceBlock, Pending } from '../../collect.js';
import type { HistogramKernel, HistogramRequest } from '../../histogram/request.js';
import { type OpScope, RawDtype, type RawTensor, withOps } from './ops.js';
import { tensorflowReader } from './reader.js';

const {
  IGNORED_SLOT,
  INFINITY_BITS,
  INFINITY_SLOT,
  NAN_SLOT,
  NEGATIVE,
  NORMAL_BITS,
  SLOTS,
  SUBNORMAL,
  base,
  shift,
} = buckets;

/** Elements of all tensors that are worked on at once: a temporary of them takes 32 MiB, and a handful are alive. */
const BAND = 2 ** 22;

export const deviceHistograms: HistogramKernel = (request) => {
  const { backend, values } = request;
  const tensor = withOps(backend, 'maskedHistograms', (ops) => ops.keep(countAll(ops, request)));
  const block = new DeviceBlock(tensorflowReader(backend), { tensor, length: values.length * SLOTS });
  return new Pending([block], ([bytes]) => {
    const slots = new Float64Array(bytes!);
    return values.map((_, k) => histogramOfSlots(slots, k * SLOTS));
  });
};

/** The slots of all tensors, one tensor behind the other, float64. */
function countAll(ops: OpScope, request: HistogramRequest): RawTensor {
  const { size, values } = request;
  const width = Math.max(1, Math.floor(BAND / values.length));
  let total: RawTensor | undefined;
  for (let start = 0; start < size; start += width) {
    const counts = countBand(ops, request, start, Math.min(width, size - start));
    const before = total;
    total = before === undefined ? counts : ops.zip('AddV2', before, counts);
    if (before === undefined) continue;
    ops.release(before);
    ops.release(counts);
  }
  return total!;
}

/** The slots of `width` elements of each tensor, from element `start` on. */
function countBand(ops: OpScope, request: HistogramRequest, start: number, width: number): RawTensor {
  const { size, values, mask } = request;
  return ops.nest((inner) => {
    const part = (tensor: TensorInfo): RawTensor => {
      const flat = inner.reshape(inner.input(tensor), 1, size);
      return width === size ? flat : inner.slice(flat, [0, start], [1, width]);
    };
    const floats = inner.concat(values.map((x) => inner.cast(part(x), RawDtype.float32)));
    const all = inner.nest((scope) => slotsOf(scope, floats));
    // As a number becomes bool, NaN is true and both zeros are false.
    const selected =
      mask === undefined
        ? all
        : inner.select(inner.cast(part(mask.tensor), RawDtype.bool), all, inner.scalar64(IGNORED_SLOT));
    const places = values.map((_, k) => k * SLOTS);
    const placed =
      values.length === 1
        ? selected
        : inner.zip(
            'AddV2',
            selected,
            inner.reshape(inner.cast(inner.ints(...places), RawDtype.float64), values.length, 1),
          );
    const integers = inner.reshape(inner.cast(placed, RawDtype.int32), -1);
    return inner.cast(inner.countIntegers(integers, values.length * SLOTS), RawDtype.float64);
  });
}

/** The slots of float32 numbers, as float64 numbers that a cast to integers truncates. */
function slotsOf(ops: OpScope, floats: RawTensor): RawTensor {
  const bits = ops.cast(ops.bitcast(floats, RawDtype.int32), RawDtype.float64);
  const isNegative = ops.compare('Less', bits, ops.scalar64(0));
  const magnitude = ops.nest((inner) =>
    inner.select(isNegative, inner.zip('AddV2', bits, inner.scalar64(2 ** 31)), bits),
  );
  ops.release(bits);
  const bucket = ops.nest((inner) => {
    // An integer below 2²³ is a float of its own, with the bits that are wanted and a larger exponent.
    const ofInteger = inner.cast(
      inner.bitcast(inner.cast(magnitude, RawDtype.float32), RawDtype.int32),
      RawDtype.float64,
    );
    const isSubnormal = inner.compare('Less', magnitude, inner.scalar64(NORMAL_BITS));
    const aligned = inner.select(isSubnormal, inner.sub(ofInteger, inner.scalar64(SUBNORMAL)), magnitude);
    const scaled = inner.zip('Mul', aligned, inner.scalar64(2 ** -shift));
    return inner.sub(scaled, inner.scalar64(base - 0.5));
  });
  const slot = (
    [
      ['Equal', 0, 0],
      ['Equal', INFINITY_BITS, INFINITY_SLOT],
      ['Greater', INFINITY_BITS, NAN_SLOT],
    ] as const
  ).reduce((before, [comparison, bound, special]) => {
    const after = ops.nest((inner) => {
      const isSpecial = inner.compare(comparison, magnitude, inner.scalar64(bound));
      return inner.select(isSpecial, inner.scalar64(special), before);
    });
    ops.release(before);
    return after;
  }, bucket);
  return ops.select(isNegative, ops.zip('AddV2', slot, ops.scalar64(NEGATIVE)), slot);
}
