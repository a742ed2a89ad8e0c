/** What `klPenalty` takes, and where it sends those who have tensors. */
import * as tf from '@tensorflow/tfjs-core';
import { expect, test } from 'vitest';

import { ValueError } from '../../../src/errors.js';
import { initBackend } from '../../../src/kernels/index.js';
import { klPenalty } from '../../../src/metrics/index.js';

await initBackend('cpu');

test('tensors are refused with the functions that take them', () => {
  const x = tf.ones([2, 3]);
  const attempts = [
    ['logProbs', () => klPenalty(x as never, 'ref')],
    ['refLogProbs', () => klPenalty('new', x as never, 'k3')],
  ] as const;
  for (const [name, attempt] of attempts) {
    expect(attempt).toThrow(ValueError);
    expect(attempt).toThrow(`klPenalty: ${name}: `);
    expect(attempt).toThrow(/got a tensor.*computeKlMetrics\(batch\).*channelMoments/);
  }
  x.dispose();
});
