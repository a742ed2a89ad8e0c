/** docs/columns.md says which columns a batch can have, and which functions need or read them. */
import { readFileSync } from 'node:fs';
import * as tf from '@tensorflow/tfjs';
import { beforeAll, describe, expect, test } from 'vitest';
import { MissingInputError } from '../../../src/errors.js';
import { initBackend } from '../../../src/kernels/index.js';
import { LISTS, RESPONSE_TENSORS, ROW_COLUMNS } from '../../../src/metrics/batch/batch.js';
import * as metrics from '../../../src/metrics/index.js';
import { documents } from '../../support/documents.js';

const [B, P, T] = [4, 3, 5];
const TENSORS = { attentionMask: 'attention_mask', ...RESPONSE_TENSORS };
const FIELDS: Readonly<Record<string, string>> = { ...TENSORS, ...ROW_COLUMNS, ...LISTS };

interface Row {
  readonly verl: string;
  readonly field: string;
  readonly areal: string;
  readonly shape: string;
  readonly neededBy: readonly string[];
  readonly readBy: readonly string[];
}

const words = (cell: string): string[] => [...cell.matchAll(/`([^`]+)`/g)].map(([, word]) => word!);

/** The rows of the table, by verl's name. */
function documented(): Map<string, Row> {
  const { text } = documents().find(({ path }) => path === 'docs/columns.md')!;
  const lines = text.split('\n').filter((line) => line.startsWith('| `'));
  return new Map(
    lines.map((line) => {
      const [verl = '', field = '', areal = '', shape = '', , neededBy = '', readBy = ''] = line
        .slice(1)
        .split('|')
        .map((cell) => cell.trim());
      const row = { verl: words(verl)[0]!, field: words(field)[0]!, areal: words(areal)[0] ?? '' };
      return [row.verl, { ...row, shape, neededBy: words(neededBy), readBy: words(readBy) }];
    }),
  );
}

type Columns = Record<string, tf.Tensor | number[]>;

/** A batch of everything, in which no column says the same as another. */
function everything(): Columns {
  const matrix = (from: number, by: number): tf.Tensor =>
    tf.tensor2d(
      Float32Array.from({ length: B * T }, (_, i) => from + by * ((i * 7) % 11)),
      [B, T],
    );
  const tokens = Object.values(RESPONSE_TENSORS).map((name, i): [string, tf.Tensor] => [
    name,
    name.endsWith('weights') || name.startsWith('sum_pi')
      ? matrix(0.3 + 0.01 * i, 0.05)
      : matrix(-0.5 - 0.1 * i, 0.07 + 0.01 * i),
  ]);
  const lengths = [5, 4, 3, 5];
  const mask = tf.tensor2d(
    lengths.flatMap((length) => Array.from({ length: T }, (_, t) => Number(t < length))),
    [B, T],
    'bool',
  );
  return {
    ...Object.fromEntries(tokens),
    response_mask: mask,
    attention_mask: tf.concat([tf.ones([B, P], 'bool'), mask], 1),
    prompt_length: [1, 2, 3, 2],
    response_length: [4, 4, 2, 5],
    __num_turns__: [1, 2, 3, 4],
    tool_call_counts: [0, 1, 0, 3],
    global_token_num: [9, 8, 7, 6],
  };
}

function batchOf(columns: Columns): metrics.RolloutBatch {
  const isTensor = (column: unknown): boolean => column instanceof tf.Tensor;
  const pick = (tensors: boolean): object =>
    Object.fromEntries(Object.entries(columns).filter(([, column]) => isTensor(column) === tensors));
  return metrics.batchFromVerl(pick(true), pick(false), { responseWidth: T });
}

const CALLS: Readonly<Record<string, (batch: metrics.RolloutBatch) => Promise<unknown>>> = {
  computeDataMetrics: (batch) => metrics.computeDataMetrics(batch, { maxResponseLength: 4 }),
  computeTimingMetrics: (batch) => metrics.computeTimingMetrics(batch, { gen: 3, step: 7, update_actor: 2 }),
  computeThroughputMetrics: (batch) => metrics.computeThroughputMetrics(batch, { step: 7 }, 2),
  computeVarianceProxyMetrics: (batch) => metrics.computeVarianceProxyMetrics(batch, { gradientNorm: 0.5 }),
  computeRolloutCorrection: async (batch) => {
    const options = { rolloutIs: 'token', rolloutIsThreshold: 2 } as const;
    const correction = await metrics.computeRolloutCorrection(batch, options);
    return correction.metrics;
  },
  computeDebugMetrics: (batch) => metrics.computeDebugMetrics(batch),
  computePolicyMetrics: (batch) => metrics.computePolicyMetrics(batch),
  computeGroupMetrics: (batch) => metrics.computeGroupMetrics(batch, ['a', 'a', 'b', 'b']),
  computeKlMetrics: (batch) => metrics.computeKlMetrics(batch),
  computeSequenceBalanceMetrics: (batch) =>
    metrics.computeSequenceBalanceMetrics(batch, [
      [0, 3],
      [1, 2],
    ]),
};

/** Columns that say what masks say, too. */
const INSTEAD_OF_MASKS: readonly string[] = [...Object.values(ROW_COLUMNS), LISTS.globalTokenNum];

/** What taking each column out of the batch does to each function: it refuses, or says something else. */
async function observed(): Promise<Map<string, Pick<Row, 'neededBy' | 'readBy'>>> {
  const all = everything();
  const masked = Object.fromEntries(
    Object.entries(all).filter(([column]) => !INSTEAD_OF_MASKS.includes(column)),
  );
  const found = new Map<string, { neededBy: string[]; readBy: string[] }>();
  for (const column of Object.keys(all)) found.set(column, { neededBy: [], readBy: [] });
  for (const [name, call] of Object.entries(CALLS)) {
    const [ofAll, ofMasked] = [await call(batchOf(all)), await call(batchOf(masked))];
    for (const column of Object.keys(all)) {
      const isMasked = column in masked;
      const rest = Object.entries(isMasked ? masked : all).filter(([other]) => other !== column);
      try {
        const without = await call(batchOf(Object.fromEntries(rest)));
        const isRead = JSON.stringify(without) !== JSON.stringify(isMasked ? ofMasked : ofAll);
        if (isRead) found.get(column)!.readBy.push(name);
      } catch (error) {
        if (!(error instanceof MissingInputError)) throw error;
        found.get(column)!.neededBy.push(name);
      }
    }
  }
  return found;
}

describe('docs/columns.md', () => {
  const rows = documented();

  beforeAll(async () => {
    await initBackend('cpu');
  });

  test('has a row for every column of a batch, with its name here', () => {
    const named = Object.fromEntries([...rows.values()].map(({ verl, field }) => [field, verl]));
    expect(named).toEqual(FIELDS);
  });

  test('gives the shapes that are checked', () => {
    const shapes = Object.fromEntries([...rows.values()].map(({ field, shape }) => [field, shape]));
    const expected = Object.keys(FIELDS).map((field) => {
      if (field === 'attentionMask') return [field, '[B, P + T]'];
      if (field in RESPONSE_TENSORS) return [field, '[B, T]'];
      return [field, field === 'globalTokenNum' ? 'any length' : '[B]'];
    });
    expect(shapes).toEqual(Object.fromEntries(expected));
  });

  test('gives the names that AReaL has for them', () => {
    const mask = tf.tensor2d([0, 1, 1], [1, 3], 'bool');
    const zeros = tf.zeros([1, 3]);
    const masks = { attention_mask: mask, loss_mask: mask };
    for (const { areal, field } of rows.values()) {
      if (areal === '') continue;
      const batch = metrics.batchFromAreal({ ...masks, ...(!(areal in masks) && { [areal]: zeros }) });
      expect(batch, areal).toHaveProperty(field);
    }
    const named = [...rows.values()].flatMap(({ areal }) => (areal === '' ? [] : [areal]));
    expect(named.sort()).toEqual([...new Set(namesOfAreal())].sort());
  });

  test('names the functions that need a column, and those that read it where it is there', async () => {
    const found = await observed();
    const said = [...rows.values()].map(({ verl, neededBy, readBy }) => [verl, { neededBy, readBy }]);
    expect(Object.fromEntries(said)).toEqual(Object.fromEntries(found));
  });
});

/** Columns of `batchFromAreal` that a batch keeps: all but those that only tell where responses begin. */
function namesOfAreal(): string[] {
  const source = readFileSync(new URL('../../../src/metrics/batch/areal.ts', import.meta.url), 'utf8');
  const list = /const COLUMNS = \{(.*?)\}/s.exec(source)![1]!;
  const names = [...list.matchAll(/(\w+): 'any'/g)].map(([, name]) => name!);
  return names.filter((name) => !['versions', 'input_ids'].includes(name));
}
