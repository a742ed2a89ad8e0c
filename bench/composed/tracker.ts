/** The peer of `StatsTracker`: records reduced with TensorFlow.js operations as they come, one read-back at the end. */
import * as tf from '@tensorflow/tfjs-core';
import type { Numbers } from '../agreement.js';
import { Tally } from '../tally.js';
import type { RecordCall } from '../workload.js';

/** Plays the calls and exports what they recorded under AReaL's names. */
export async function composedRecording(
  calls: readonly RecordCall[],
  tensors: ReadonlyMap<string, tf.Tensor>,
): Promise<Numbers> {
  const tally = new Tally();
  const counts: { key: string; mask: tf.Tensor; count: tf.Tensor }[] = [];
  const sums: { key: string; count: number; parts: tf.Tensor[] }[] = [];
  /** Where the masks of a key begin in `counts`; the i-th value of a key pairs with the i-th of them. */
  const masksOf = new Map<string, number[]>();
  const seen = new Map<string, number>();
  for (const call of calls) {
    if (call.kind === 'scalars') {
      for (const [key, value] of Object.entries(call.values)) tally.scalar(`${call.scope}/${key}`, value);
    } else if (call.kind === 'denominators') {
      for (const [name, tensor] of Object.entries(call.masks)) {
        const key = `${call.scope}/${name}`;
        const mask = tensors.get(tensor)!;
        masksOf.set(key, [...(masksOf.get(key) ?? []), counts.length]);
        counts.push({ key, mask, count: tf.tidy(() => tf.sum(tf.cast(mask, 'float32'))) });
      }
    } else {
      for (const [name, tensor] of Object.entries(call.values)) {
        const key = `${call.scope}/${name}`;
        const turn = seen.get(key) ?? 0;
        seen.set(key, turn + 1);
        const count = masksOf.get(`${call.scope}/${call.denominator}`)![turn]!;
        sums.push({ key, count, parts: sumMinMax(tensors.get(tensor)!, counts[count]!.mask) });
      }
    }
  }
  const scalars = [...counts.map(({ count }) => count), ...sums.flatMap(({ parts }) => parts)];
  const packed = tf.stack(scalars);
  tf.dispose(scalars);
  const numbers = await packed.data<'float32'>();
  packed.dispose();
  counts.forEach(({ key }, i) => {
    tally.denominator(key, numbers[i]!);
  });
  sums.forEach(({ key, count }, i) => {
    const at = counts.length + 3 * i;
    tally.stat(key, {
      count: numbers[count]!,
      sum: numbers[at]!,
      min: numbers[at + 1]!,
      max: numbers[at + 2]!,
    });
  });
  return tally.export();
}

function sumMinMax(x: tf.Tensor, mask: tf.Tensor): tf.Tensor[] {
  return tf.tidy(() => [
    tf.sum(tf.where(mask, x, tf.zerosLike(x))),
    tf.min(tf.where(mask, x, tf.fill(x.shape, Infinity))),
    tf.max(tf.where(mask, x, tf.fill(x.shape, -Infinity))),
  ]);
}
