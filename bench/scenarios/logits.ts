/** `logits`: log-probability of the label, entropy, Σπ² and the largest probability of every row of logits. */
import * as tf from '@tensorflow/tfjs-core';
import { type LogitsStatistics, logitsStatistics } from '../../src/index.js';
import type { Numbers } from '../agreement.js';
import { composedLogits } from '../composed/logits.js';
import { bell, deviceBytes, onDevice, seeded } from '../inputs.js';
import { type Scenario, type Size, type Work } from '../scenario.js';

function size(rows: number, vocabulary: number): Size {
  return { label: `[${rows}, ${vocabulary}]`, prepare: () => prepare(rows, vocabulary) };
}

export const logits: Scenario = {
  name: 'logits',
  describe: 'Statistics of logits [rows, vocabulary]',
  sizes: {
    tiny: size(4, 100),
    small: size(32, 4000),
    medium: size(64, 32_000),
    large: size(256, 32_000),
  },
};

/** The numerical contract of logits; a float32 softmax of a wide row loses some digits more. */
const OURS = { relative: 1e-5, absolute: 1e-5 };
const COMPOSED = { relative: 1e-3, absolute: 1e-3 };

function prepare(rows: number, vocabulary: number): Work {
  const random = seeded(6);
  const values = bell(random, rows * vocabulary, 0, 3);
  const labels = Int32Array.from({ length: rows }, () => Math.floor(random() * vocabulary));
  const x = onDevice(values, [rows, vocabulary]) as tf.Tensor2D;
  const y = onDevice(labels, [rows]) as tf.Tensor1D;
  const expected = expectedNumbers(values, labels, vocabulary);
  const ours = () => read(logitsStatistics(x, y));
  const composed = () => read(composedLogits(x, y));
  const { logProbs, entropy, sumPiSquared } = expected; // verl has no function for the largest probability
  return {
    inputBytes: deviceBytes([x]) + 4 * rows,
    ways: {
      ours: {
        run: ours,
        numbers: async () => numbered(await ours()),
        expected: numbered(expected),
        closeness: OURS,
      },
      composed: {
        run: composed,
        numbers: async () => numbered(await composed()),
        expected: numbered(expected),
        closeness: COMPOSED,
      },
    },
    torch: {
      task: 'logits',
      tensors: {
        logits: { values, shape: [rows, vocabulary] },
        labels: { values: labels, shape: [rows] },
      },
      parameters: {},
      closeness: COMPOSED,
      expected: numbered({ logProbs, entropy, sumPiSquared }),
    },
    dispose: () => {
      tf.dispose([x, y]);
    },
  };
}

/** Brings all results to the host in one read-back. */
async function read(results: LogitsStatistics): Promise<Record<string, ArrayLike<number>>> {
  const named = Object.entries<tf.Tensor>({ ...results });
  const tensors = named.map(([, tensor]) => tensor);
  const packed = tf.concat(tensors);
  tf.dispose(tensors);
  const numbers = await packed.data<'float32'>();
  packed.dispose();
  const rows = numbers.length / named.length;
  return Object.fromEntries(named.map(([name], i) => [name, numbers.subarray(i * rows, (i + 1) * rows)]));
}

function numbered(results: Readonly<Record<string, ArrayLike<number>>>): Numbers {
  return Object.fromEntries(
    Object.entries(results).flatMap(([name, values]) =>
      Array.from(values, (value, row) => [`${name}/${row}`, value]),
    ),
  );
}

/** In float64, row by row. */
function expectedNumbers(
  values: Float32Array,
  labels: Int32Array,
  vocabulary: number,
): Record<'logProbs' | 'entropy' | 'sumPiSquared' | 'maxProb', Float64Array> {
  const rows = labels.length;
  const column = () => new Float64Array(rows);
  const found = { logProbs: column(), entropy: column(), sumPiSquared: column(), maxProb: column() };
  for (let row = 0; row < rows; row++) {
    const logitsOfRow = values.subarray(row * vocabulary, (row + 1) * vocabulary);
    const max = logitsOfRow.reduce((a, b) => Math.max(a, b));
    let total = 0;
    for (const z of logitsOfRow) total += Math.exp(z - max);
    const logTotal = max + Math.log(total);
    for (const z of logitsOfRow) {
      const p = Math.exp(z - logTotal);
      found.entropy[row]! -= p * (z - logTotal);
      found.sumPiSquared[row]! += p * p;
    }
    found.logProbs[row] = logitsOfRow[labels[row]!]! - logTotal;
    found.maxProb[row] = Math.exp(max - logTotal);
  }
  return found;
}
