/** Every controller case of the golden file: exports merged with their counts, and states merged through a stream. */
import { describe, expect, test } from 'vitest';
import { Moments } from '../../src/rows/moments.js';
import { type MomentsRow, emptyRow, mergeRows } from '../../src/rows/row.js';
import { aggregateExports } from '../../src/tracker/export/aggregate-exports.js';
import { StreamEmitter } from '../../src/tracker/stream/emitter.js';
import { InProcessTransport } from '../../src/tracker/stream/in-process-transport.js';
import { StreamIngest } from '../../src/tracker/stream/ingest.js';
import { type GoldenCase, loadGolden, referenceOf } from '../support/golden.js';

type ControllerCase = GoldenCase & { readonly withoutCount?: readonly string[] };
type State = Readonly<Record<'count' | 'sum' | 'mean' | 'm2' | 'min' | 'max' | 'nonfinite', number>>;

const { cases } = loadGolden<ControllerCase>('areal.controller');
const casesOf = (op: string): ControllerCase[] => cases.filter(({ options }) => options.op === op);

test('the suite has all its cases', () => {
  expect(cases).toHaveLength(20);
  expect(casesOf('weighted_means').length + casesOf('merge_states').length).toBe(20);
});

describe('exports of workers', () => {
  test.each(casesOf('weighted_means'))('$id', (golden) => {
    const expected = referenceOf(golden, 'recommended') as Record<string, number>;
    const workers = golden.inputs.workers as Record<string, number>[];
    const leftOut: string[] = [];
    const merged = aggregateExports(workers, { onWithoutCount: (keys) => leftOut.push(...keys) });
    expect(Object.keys(merged)).toEqual(Object.keys(expected).sort());
    for (const [key, value] of Object.entries(expected)) {
      const bound = key.endsWith('__count') ? {} : golden.tolerance;
      expect(merged[key], key).toBeCloseToReference(value, bound);
    }
    expect(leftOut).toEqual(golden.withoutCount ?? []);
  });
});

/** A state counts its finite elements, and the others apart without saying which they are. */
function rowOf({ count, sum, m2, min, max, nonfinite }: State): MomentsRow {
  if (count === 0) return { ...emptyRow, count: nonfinite, nan: nonfinite };
  return { ...emptyRow, count: count + nonfinite, nan: nonfinite, sum, m2, min, max };
}

/** Each state is what one worker has recorded. */
async function throughStream(rows: readonly MomentsRow[]): Promise<MomentsRow> {
  const ingest = new StreamIngest();
  const transport = new InProcessTransport(ingest);
  for (const [i, row] of rows.entries()) {
    const emitter = new StreamEmitter(transport, { workerId: `worker-${i}` });
    emitter.merge([{ key: 'k', reduction: 'avg_min_max', row }]);
    await emitter.flush();
  }
  return ingest.rows()[0]?.row ?? emptyRow;
}

describe('states of workers', () => {
  test.each(casesOf('merge_states'))('$id', async (golden) => {
    const expected = referenceOf(golden, 'float64') as Record<string, number>;
    const rows = (golden.inputs.states as State[]).map(rowOf);
    for (const row of [rows.reduce(mergeRows, emptyRow), await throughStream(rows)]) {
      const moments = new Moments(row, 'ignore');
      const actual: Record<string, number> = {
        count: moments.count,
        sum: moments.sum,
        mean: moments.mean,
        m2: moments.m2,
        min: moments.min,
        max: moments.max,
        nonfinite: row.nan + row.posInf + row.negInf,
      };
      expect(Object.keys(actual).sort()).toEqual(Object.keys(expected).sort());
      for (const [key, value] of Object.entries(expected)) {
        const exact = ['count', 'min', 'max', 'nonfinite'].includes(key);
        const { rel, abs } = golden.tolerance;
        expect(actual[key], key).toBeCloseToReference(value, exact ? {} : { rel, abs });
      }
    }
  });
});
