/**
 * `npm run bench`: `maskedMoments` against the same statistics composed from TensorFlow.js operations, on one backend.
 *
 * Every result is checked against the composed one before anything is timed.
 */
import * as tf from '@tensorflow/tfjs';
import yargs from 'yargs';
import { hideBin } from 'yargs/helpers';
import { backendNames, initBackend, maskedMoments } from '../src/kernels/index.js';
import { composedMoments } from './composed-moments.js';
import { comparePaired } from './paired.js';

/** Shapes and numbers of tensors under one mask. A software GPU gets small ones: it proves correctness, not speed. */
const SIZES = {
  large: [
    { shape: [16, 64], tensors: 1 },
    { shape: [64, 512], tensors: 3 },
    { shape: [256, 1024], tensors: 1 },
    { shape: [256, 1024], tensors: 5 },
    { shape: [20_000, 4], tensors: 3 },
    { shape: [1, 1_000_000], tensors: 3 },
    { shape: [1024, 4096], tensors: 1 },
    { shape: [1024, 4096], tensors: 5 },
  ],
  small: [
    { shape: [8, 64], tensors: 1 },
    { shape: [128, 512], tensors: 1 },
    { shape: [128, 512], tensors: 3 },
    { shape: [1000, 16], tensors: 3 },
  ],
} as const;

const { backend, pairs } = await yargs(hideBin(process.argv))
  .scriptName('bench')
  .option('backend', { choices: ['auto', ...backendNames] as const, default: 'auto' as const })
  .option('pairs', { type: 'number', default: 9, describe: 'Paired runs of each size' })
  .strict()
  .parse();

const report = await initBackend(backend);
console.log(`maskedMoments against composed operations on ${report.backend} (${report.device})`);
console.log('shape            tensors   composed       ours      ratio   95 %');
for (const { shape, tensors } of report.isSoftware ? SIZES.small : SIZES.large) {
  const { values, mask } = inputs([...shape], tensors);
  const record = Object.fromEntries(values.map((x, i) => [String(i), x]));
  await assertSame(values, record, mask);
  const result = await comparePaired(
    () => composedMoments(values, mask),
    async () => maskedMoments(record, mask),
    pairs,
  );
  const { baseline, candidate, ratio, interval } = result;
  console.log(
    [
      `[${shape.join(', ')}]`.padEnd(16),
      String(tensors).padStart(7),
      `${baseline.toFixed(2)} ms`.padStart(12),
      `${candidate.toFixed(2)} ms`.padStart(11),
      ratio.toFixed(2).padStart(8),
      `  ${interval.map((x) => x.toFixed(2)).join(' to ')}`,
    ].join(' '),
  );
  tf.dispose([values, mask]);
}

/** Smooth values, and a mask that selects seven of ten elements. */
function inputs(shape: number[], tensors: number): { values: tf.Tensor[]; mask: tf.Tensor } {
  const size = tf.util.sizeFromShape(shape);
  const wave = (k: number) => Float32Array.from({ length: size }, (_, i) => Math.sin(i * (0.37 + k)));
  return {
    values: Array.from({ length: tensors }, (_, k) => tf.tensor(wave(k), shape)),
    mask: tf.tensor(
      Uint8Array.from({ length: size }, (_, i) => ((i * 7919) % 10 < 7 ? 1 : 0)),
      shape,
      'bool',
    ),
  };
}

/** Stops the run if the two ways disagree by more than the composed one's float32 may lose. */
async function assertSame(
  values: readonly tf.Tensor[],
  record: Readonly<Record<string, tf.Tensor>>,
  mask: tf.Tensor,
): Promise<void> {
  const composed = await composedMoments(values, mask);
  const ours = Object.values(await maskedMoments(record, mask));
  ours.forEach(({ count, mean, m2, min, max, nan, posInf, negInf }, k) => {
    const expected = [count, mean, m2, min, max, nan, posInf + negInf];
    const tolerance = [0, 1e-3, 1e-3 * m2, 0, 0, 0, 0];
    expected.forEach((value, i) => {
      const got = composed[k * expected.length + i]!;
      if (Math.abs(value - got) <= tolerance[i]!) return;
      throw new Error(`tensor ${k}, statistic ${i}: ours ${value}, composed ${got}; nothing is timed`);
    });
  });
}
