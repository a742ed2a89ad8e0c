/**
 * What was reported against peers and concerns numbers of the host: one test for each row of docs/peer-defects.md that
 * says so; those about tensors are in test/backend. And the page itself: every row is accounted for.
 */
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';

import { ShapeError } from '../../../src/errors.js';
import {
  Metric,
  explainMetric,
  groupMoments,
  passAtK,
  processValidationMetrics,
  reduceMetrics,
} from '../../../src/metrics/index.js';

const ONE_OF_FOUR = { acc: [1, 0, 0, 0] };

function validate(
  uids: readonly string[],
  infos: Record<string, readonly unknown[]>,
): ReturnType<typeof processValidationMetrics> {
  return processValidationMetrics(
    uids.map(() => 's'),
    uids,
    infos,
  );
}

test('rows 8, 9, 69: pass@n of n samples is 0 or 1, and best@n says that it draws with replacement', () => {
  const { metrics } = validate(['p', 'p', 'p', 'p'], ONE_OF_FOUR);
  expect(metrics['val-aux/s/acc/pass@4']).toBe(1);
  expect(metrics['val-core/s/acc/best@4/mean']).toBeCloseTo(1 - 0.75 ** 4, 12);
  expect(passAtK(4, 1, 4)).toBe(1);
  expect(passAtK(4, 1, 2)).toBe(0.5);
  const { entry } = explainMetric('val-core/s/acc/best@4/mean');
  expect(JSON.stringify(entry)).toMatch(/replacement/);
});

test('row 10: samples are grouped by uid, whatever their prompts look like', () => {
  const { metrics, prompts } = validate(['a', 'b', 'c'], { reward: [1, 2, 3] });
  expect(prompts['val-core/s/reward/mean@1']).toBe(3);
  expect(Object.keys(metrics)).toEqual(['val-core/s/reward/mean@1']);
});

test('rows 11, 78: samples without a number leave the denominator, and are counted', () => {
  const { metrics, samples } = validate(['p', 'p', 'p'], { reward: [1, null, 3] });
  expect(metrics['val-core/s/reward/mean@2']).toBe(2);
  expect(samples['s/reward']).toEqual({ used: 2, nan: 0, missing: 1, notNumeric: 0 });
});

test('row 12: a variable that only some samples have is refused until the others say so', () => {
  expect(() => validate(['p', 'p'], { extra: [1] })).toThrow(ShapeError);
  expect(() => validate(['p', 'p'], { extra: [1] })).toThrow(/put null where a sample has no value/);
});

test('row 13: one sample has a mean and nothing else', () => {
  expect(Object.keys(validate(['p'], { acc: [1] }).metrics)).toEqual(['val-core/s/acc/mean@1']);
});

test('row 14: the reduction of a metric is declared, not guessed', () => {
  const lists = { minibatch_loss: [1, 3], terminal_reward: [1, 3], 'seq/max_deviation': [1, 3] };
  expect(reduceMetrics(lists, { aggregations: { 'seq/max_deviation': 'mean' } })).toEqual({
    minibatch_loss: 2,
    terminal_reward: 2,
    'seq/max_deviation': 2,
  });
});

test('row 15: a difference of extremes is no extreme, and a list without values is undefined', () => {
  const lists = { 'global_seqlen/minmax_diff': [20, 10], 'score/max': [], 'score/min': [] };
  expect(reduceMetrics(lists)).toEqual({
    'global_seqlen/minmax_diff': 15,
    'score/max': NaN,
    'score/min': NaN,
  });
});

test('rows 17, 18: the sum of a metric does not grow with the number of ranks', () => {
  const rank = (): Metric => new Metric('sum').extend([1, 2]);
  expect(Metric.aggregateDp([rank()])).toBe(3);
  expect(Metric.aggregateDp([rank(), rank(), rank(), rank()])).toBe(3);
});

test('rows 19, 36, 37: a mean over uneven parts is weighted by what they are means of', () => {
  const pooled = new Metric('mean').append(3 / 12, 12).append(3 / 4, 4);
  expect(pooled.aggregate()).toBe(0.375);
  const [a, b] = [new Metric('mean').append(3 / 12, 12), new Metric('mean').append(3 / 4, 4)];
  expect(Metric.merge([a, b]).aggregate()).toBe(0.375);
  expect(new Metric('mean').append(2, 4).append(0, 0).aggregate()).toBe(2);
});

test('row 20: a metric is of all micro-batches, not of the last', () => {
  expect(new Metric('mean').append(1).append(5).aggregate()).toBe(3);
});

test('rows 26, 73: close rewards of a group keep their spread, equal ones have none', () => {
  const groups = groupMoments(
    [0.5, 0.5001, 0.5002, 0.5001, 0.1, 0.1, 0.1],
    ['a', 'a', 'a', 'a', 'b', 'b', 'b'],
  );
  expect(groups.get('a')!.std()).toBeCloseTo(8.16e-5, 6);
  expect(groups.get('b')!.std()).toBe(0);
});

test('row 27: the catalogue says that normalised advantages have mean 0', () => {
  expect(explainMetric('critic/advantages/mean').entry.formula).toMatch(/about 0 .*normalised/);
});

test('row 65: the catalogue says that explained variance can be negative', () => {
  expect(explainMetric('critic/vf_explained_var').entry.range).toEqual({ high: 1 });
});

test('row 72: no standard error takes draws', () => {
  const { standardErrors } = validate(['a', 'a', 'b', 'b'], { acc: [1, 1, 0, 0] });
  expect(standardErrors['val-core/s/acc/mean@2']).toBeCloseTo(0.5, 12);
});

describe('docs/peer-defects.md', () => {
  const read = (file: string): string => readFileSync(new URL(`../../../${file}`, import.meta.url), 'utf8');
  const rows = read('docs/peer-defects.md')
    .split('\n')
    .flatMap((line) => {
      const cells = /^\| *(\d+) *\|([^|]*)\|(.*)\|([^|]*)\|$/.exec(line);
      return cells === null ? [] : [{ row: Number(cells[1]), where: cells[2]!, how: cells[4]!.trim() }];
    });
  const FILES = [
    'test/backend/peer-defects-metrics.test.ts',
    'test/backend/peer-defects-kernels.test.ts',
    'test/unit/metrics/peer-defects.test.ts',
  ];
  const titles = FILES.flatMap((file) =>
    Array.from(read(file).matchAll(/^test\('rows? ([\d, ]+):/gm), ([, numbers]) => numbers!),
  );
  const tested = new Set(titles.flatMap((numbers) => numbers.split(', ').map(Number)));

  test('has every report once', () => {
    expect(rows.map(({ row }) => row)).toEqual(Array.from({ length: 79 }, (_, i) => i + 1));
    for (const { where } of rows) expect(where).toMatch(/\S/);
  });

  test('says of each that a test holds it off, or where it is held off, or why it cannot occur', () => {
    const isNamed = (how: string): boolean => how.startsWith('test');
    expect(rows.filter(({ how }) => isNamed(how)).map(({ row }) => row)).toEqual(
      [...tested].sort((a, b) => a - b),
    );
    for (const { row, how } of rows) {
      expect(how, `row ${row}`).toMatch(/^(test$|elsewhere: |cannot: |outside: )/);
      for (const [, file] of how.matchAll(/`((?:test|bench|docs)\/[^`]+)`/g))
        expect(read(file!)).not.toBe('');
    }
  });
});
