/**
 * Logits on the `tensorflow` backend: a fixed sequence of TensorFlow ops per band of rows.
 *
 * Exponents and exponentials are float32; their sums are float64, since TensorFlow adds up thousands of terms in one
 * float32: next to a large one, a flat rest of the distribution is then rounded away, always in the same direction.
 */
import type { KernelBackend, TensorInfo } from '@tensorflow/tfjs-core';
import { readArray } from '../../host/arrays.js';
import { WHERE, assertLabels } from '../../logits/checks.js';
import {
  type LogitsKernel,
  type LogitsRequest,
  perStatistic,
  type StatisticName,
} from '../../logits/request.js';
import { type OpScope, RawDtype, type RawTensor, usesGpu, withOps } from './ops.js';

/** The node backend, as far as it is used here; unchanged in 4.x. */
interface NodeBackend {
  readonly tensorMap: {
    get(dataId: object): { readonly values: unknown };
    set(dataId: object, data: object): void;
  };
}

/**
 * Bytes of the largest temporary. On a CPU, from 32 MiB on, the C library maps fresh pages for every temporary, which
 * costs several times the arithmetic; a GPU wants large ones, but not as large as the logits.
 */
const TEMPORARY_BYTES = { cpu: 16 * 2 ** 20, gpu: 256 * 2 ** 20 } as const;

export const composedLogits: LogitsKernel = (request) => {
  const { backend, labels, cols } = request;
  const node = backend as unknown as NodeBackend;
  // Without a GPU all memory is the host's, and reading waits for nothing; with one, only what no op has used yet is.
  const isKnown = !usesGpu(backend) || node.tensorMap.get(labels.dataId).values !== null;
  if (isKnown) assertLabels(readArray(backend, labels), labels.shape, cols);
  const results = withOps(backend, WHERE, (ops) => {
    const made = statistics(ops, request, isKnown);
    return perStatistic((name) => ops.keep(made[name]));
  });
  return perStatistic((name) => tensorOf(backend, results[name], labels.shape));
};

/** A tfjs tensor of a raw one, which it owns from now on. */
function tensorOf(backend: KernelBackend, { id, dtype }: RawTensor, shape: number[]): TensorInfo {
  const dataId = {};
  (backend as unknown as NodeBackend).tensorMap.set(dataId, { shape, dtype, id, values: null, refCount: 1 });
  return { dataId, shape, dtype: 'float32' };
}

function statistics(
  ops: OpScope,
  request: LogitsRequest,
  isKnown: boolean,
): Record<StatisticName, RawTensor> {
  const { rows, cols, temperature, labels } = request;
  const names = ops.reshape(ops.input(labels), rows, 1);
  const isColumn = isKnown ? undefined : validity(ops, names, cols);
  const columns = ops.cast(
    isColumn ? ops.select(isColumn, ops.cast(names, RawDtype.float64), ops.scalar64(0)) : names,
    RawDtype.int64,
  );

  const matrix = ops.reshape(ops.input(request.logits), rows, cols);
  const max = ops.max(matrix, -1);
  const label = ops.cast(ops.gatherColumns(matrix, columns), RawDtype.float64);
  const { s1, norm, s3 } = sums(ops, request, matrix, max);
  const logSum = ops.map('Log', s1);
  const exponent = ops.zip(
    'RealDiv',
    ops.sub(label, ops.cast(max, RawDtype.float64)),
    ops.scalar64(temperature),
  );
  const logProbs = ops.sub(exponent, logSum);
  const made: Record<StatisticName, RawTensor> = {
    logProbs: isColumn ? ops.select(isColumn, logProbs, ops.scalar64(NaN)) : logProbs,
    entropy: ops.sub(logSum, ops.zip('RealDiv', s3, s1)),
    sumPiSquared: ops.map('Square', ops.zip('RealDiv', norm, s1)),
    maxProb: ops.zip('RealDiv', ops.scalar64(1), s1),
  };
  return perStatistic((name) => ops.reshape(ops.cast(made[name], RawDtype.float32), ...labels.shape));
}

/** `[R, 1]` bool: which labels are columns. */
function validity(ops: OpScope, labels: RawTensor, cols: number): RawTensor {
  const label = ops.cast(labels, RawDtype.float64);
  const whole = ops.cast(ops.cast(label, RawDtype.int64), RawDtype.float64);
  const inside = ops.logicalAnd(
    ops.compare('GreaterEqual', label, ops.scalar64(0)),
    ops.compare('Less', label, ops.scalar64(cols)),
  );
  return ops.logicalAnd(inside, ops.equal(label, whole));
}

/** Σ eˣ, √(Σ e²ˣ) and Σ x eˣ of every row, `[R, 1]` float64, where x = (z − max) / temperature. */
function sums(
  ops: OpScope,
  { backend, rows, cols, temperature }: LogitsRequest,
  matrix: RawTensor,
  max: RawTensor,
): Record<'s1' | 'norm' | 's3', RawTensor> {
  const bytes = TEMPORARY_BYTES[usesGpu(backend) ? 'gpu' : 'cpu'];
  const height = Math.max(1, Math.floor(bytes / (cols * Float64Array.BYTES_PER_ELEMENT)));

  /** The sums of `count` rows as the columns of a matrix. */
  const band = (firstRow: number, count: number): RawTensor =>
    ops.nest((inner) => {
      const isWhole = count === rows;
      const z = isWhole ? matrix : inner.slice(matrix, [firstRow, 0], [count, cols]);
      const top = isWhole ? max : inner.slice(max, [firstRow, 0], [count, 1]);
      // −Infinity stays −Infinity. Of nothing else, or with +Infinity, the difference is NaN, and so is all that follows.
      const difference = inner.sub(z, top);
      if (!isWhole) inner.release(z);
      const x = temperature === 1 ? difference : inner.zip('Mul', difference, inner.scalar(1 / temperature));
      if (x !== difference) inner.release(difference);
      const e = inner.map('Exp', x);
      const s3 = inner.nest((scope) => {
        const product = scope.mulNoNan(x, e);
        return scope.sum(scope.cast(product, RawDtype.float64), -1);
      });
      inner.release(x);
      const wide = inner.cast(e, RawDtype.float64);
      return inner.concat([inner.sum(wide, -1), inner.euclideanNorm(wide, -1), s3], 1);
    });

  const bands: RawTensor[] = [];
  for (let firstRow = 0; firstRow < rows; firstRow += height) {
    bands.push(band(firstRow, Math.min(height, rows - firstRow)));
  }
  const all = ops.concat(bands);
  const column = (index: number): RawTensor => ops.slice(all, [0, index], [rows, 1]);
  return { s1: column(0), norm: column(1), s3: column(2) };
}
