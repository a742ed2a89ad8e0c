/** A batch that outlives what its caller does with it. */
import type { Tensor } from '@tensorflow/tfjs-core';
import { type RetainedTensor, retainTensor } from '../../kernels/index.js';
import { type RolloutBatch, isTensorColumn } from './batch.js';

/** The batch with handles of its own on all tensors, and lists of its own. */
export function retainBatch(batch: RolloutBatch): { readonly batch: RolloutBatch; release: () => void } {
  const retained: RetainedTensor[] = [];
  const fields = Object.entries(batch).map(([field, value]: [string, unknown]) => {
    if (typeof value !== 'object' || value === null) return [field, value];
    if (!isTensorColumn(value as Tensor)) return [field, Float64Array.from(value as ArrayLike<number>)];
    const own = retainTensor(value as Tensor);
    retained.push(own);
    return [field, own.tensor];
  });
  return {
    batch: Object.fromEntries(fields) as RolloutBatch,
    release: () => {
      for (const tensor of retained) tensor.release();
    },
  };
}
