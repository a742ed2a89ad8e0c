/** `moments`: count, mean, spread and extremes of several tensors under one mask. */
import * as tf from '@tensorflow/tfjs-core';
import { maskedMoments } from '../../src/index.js';
import type { Numbers } from '../agreement.js';
import { COMPOSED_STATISTICS, composedMoments } from '../composed/moments.js';
import { type Statistics, statisticsOf } from '../float64.js';
import { bell, deviceBytes, onDevice, seeded } from '../inputs.js';
import { FLOAT32_PEER, OURS, type Scenario, type Size, type Work } from '../scenario.js';

function size(rows: number, cols: number, tensors: number): Size {
  return { label: `${tensors} × [${rows}, ${cols}]`, prepare: () => prepare([rows, cols], tensors) };
}

export const moments: Scenario = {
  name: 'moments',
  describe: 'Masked moments of several tensors that share a mask',
  sizes: {
    tiny: size(8, 64, 2),
    small: size(64, 512, 3),
    medium: size(256, 1024, 5),
    large: size(1024, 4096, 5),
  },
};

function prepare(shape: readonly [rows: number, cols: number], tensors: number): Work {
  const random = seeded(1);
  const length = shape[0] * shape[1];
  // Seven of ten elements, scattered: the mask that a kernel with branches likes least.
  const selected = Uint8Array.from({ length }, () => (random() < 0.7 ? 1 : 0));
  const arrays = Array.from({ length: tensors }, (_, k) => bell(random, length, k, 1 + k));
  const mask = onDevice(selected, shape);
  const values = arrays.map((array) => onDevice(array, shape));
  const record = Object.fromEntries(values.map((x, k) => [`x${k}`, x]));
  const expected = merged(arrays.map((array, k) => named(`x${k}`, statisticsOf(array, selected))));
  return {
    inputBytes: deviceBytes([mask, ...values]),
    ways: {
      ours: {
        run: async () => maskedMoments(record, mask),
        numbers: async () => {
          const found = Object.entries(await maskedMoments(record, mask));
          return merged(
            found.map(([key, { count, mean, m2, min, max, nan, posInf, negInf }]) =>
              named(key, { count, mean, m2, min, max, nan, infinite: posInf + negInf }),
            ),
          );
        },
        expected,
        closeness: OURS,
      },
      composed: {
        run: () => composedMoments(values, mask),
        numbers: async () => unpacked(await composedMoments(values, mask)),
        expected,
        closeness: FLOAT32_PEER,
      },
    },
    dispose: () => {
      tf.dispose([mask, ...values]);
    },
  };
}

function named(key: string, found: Omit<Statistics, 'sum'>): Numbers {
  return Object.fromEntries(COMPOSED_STATISTICS.map((name) => [`${key}/${name}`, found[name]]));
}

function unpacked(packed: Float32Array): Numbers {
  const width = COMPOSED_STATISTICS.length;
  return Object.fromEntries(
    Array.from(packed, (value, i) => [`x${Math.floor(i / width)}/${COMPOSED_STATISTICS[i % width]!}`, value]),
  );
}

function merged(parts: readonly Numbers[]): Numbers {
  return Object.assign({}, ...parts) as Numbers;
}
