/** Rows that nothing can have are refused, and no row is lost by it. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { KeyConflictError, type TensortallyError, ValueError } from '../../../../src/errors.js';
import { rowFault } from '../../../../src/rows/row-fault.js';
import { emptyRow, liftRow, mergeRows, repeatRow } from '../../../../src/rows/row.js';
import { MomentsTable } from '../../../../src/rows/table.js';
import { StatsTracker } from '../../../../src/tracker/index.js';
import { type MergeRefusal, StreamEmitter } from '../../../../src/tracker/stream/emitter.js';
import { StreamError } from '../../../../src/tracker/stream/errors.js';
import { InProcessTransport } from '../../../../src/tracker/stream/in-process-transport.js';
import { StreamIngest } from '../../../../src/tracker/stream/ingest.js';
import type { StreamRow } from '../../../../src/tracker/stream/wire/schema.js';
import { runsOf } from '../../../support/long.js';
import { recordsOf } from './workers.js';

function stream(): { ingest: StreamIngest; emitter: StreamEmitter } {
  const ingest = new StreamIngest();
  return { ingest, emitter: new StreamEmitter(new InProcessTransport(ingest), { workerId: 'w' }) };
}

const rowsOf = (...keys: string[]): StreamRow[] =>
  keys.map((key) => ({ key, reduction: 'avg', row: liftRow(1) }));

const three = [1, 2, 3].map(liftRow).reduce(mergeRows);

describe('merge', () => {
  test.each<[string, object]>([
    ['a sum that is text', { sum: '6' }],
    ['a count that is text', { count: '3' }],
    ['an extreme that is missing', { min: undefined }],
    ['a sum that is NaN', { sum: NaN }],
    ['a sum without end', { sum: Infinity }],
    ['a sum above that of the largest elements', { sum: 9.001 }],
    ['a sum below that of the smallest elements', { sum: 2.999 }],
    ['deviations that its elements cannot have', { m2: 3.001 }],
    ['deviations that are NaN', { m2: NaN }],
  ])('refuses %s', (_what, change) => {
    const { emitter } = stream();
    expect(() => {
      emitter.merge([{ key: 'k', reduction: 'avg', row: { ...three, ...change } }]);
    }).toThrow(ValueError);
    expect(emitter.status().waitingRows).toBe(0);
  });

  test('takes every row of weighted numbers, whatever their size, in any order', () => {
    const elements = fc.tuple(fc.double({ noNaN: true }), fc.double({ min: 0, max: 1e6, noNaN: true }));
    fc.assert(
      fc.property(fc.array(elements, { minLength: 1, maxLength: 30 }), (list) => {
        const table = new MomentsTable(1);
        table.set(
          0,
          list
            .filter(([x]) => Number.isFinite(x))
            .map(([x, w]) => repeatRow(x, w))
            .reduce(mergeRows, emptyRow),
        );
        expect(rowFault(table, 0)).toBeUndefined();
      }),
      { numRuns: runsOf(2000) },
    );
  });

  test('takes sums that float32 has rounded', () => {
    const x = Math.fround(0.1);
    const row = { ...repeatRow(x, 1e6), sum: Math.fround(1e6 * x) * (1 + 2 ** -22) };
    const { emitter } = stream();
    emitter.merge([{ key: 'k', reduction: 'avg', row }]);
    expect(emitter.status().waitingRows).toBe(1);
  });

  test.each<[string, StreamRow, new (...given: never[]) => TensortallyError]>([
    ['a row that nothing has', { key: 'b', reduction: 'avg', row: { ...three, sum: 100 } }, ValueError],
    ['a key that is something else', { key: 'taken', reduction: 'avg', row: three }, KeyConflictError],
    ['a key that is too long', { key: 'x'.repeat(1025), reduction: 'avg', row: three }, ValueError],
  ])('with %s takes none, and its error has them all', async (_what, bad, kind) => {
    const { ingest, emitter } = stream();
    emitter.counter({ taken: 1 });
    const rows = [...rowsOf('a'), bad, ...rowsOf('z')];
    let refusal: MergeRefusal | undefined;
    try {
      // Of a generator nothing is left when it is refused.
      emitter.merge(rows.values());
    } catch (error) {
      refusal = error as MergeRefusal;
    }
    expect(refusal).toBeInstanceOf(kind);
    expect(refusal!.rows).toEqual(rows);
    emitter.merge(refusal!.rows.filter((row) => row !== bad));
    await emitter.flush();
    expect(recordsOf(ingest)).toEqual({ a: 1, z: 1, taken: 1 });
  });

  test('with onRefused takes the good rows and tells of the others', async () => {
    const { ingest, emitter } = stream();
    const bad: StreamRow = { key: 'b', reduction: 'avg', row: { ...three, sum: 100 } };
    const clash: StreamRow = { key: 'a', reduction: 'sum', row: three };
    const told: [StreamRow, Error][] = [];
    emitter.merge([...rowsOf('a'), bad, clash, null as never, ...rowsOf('z')], {
      onRefused: (row, error) => told.push([row, error]),
    });
    expect(told.map(([row]) => row)).toEqual([bad, clash, null]);
    expect(told.map(([, error]) => error.constructor)).toEqual([ValueError, KeyConflictError, ValueError]);
    await emitter.flush();
    expect(recordsOf(ingest)).toEqual({ a: 1, z: 1 });
  });

  test('into a closed emitter keeps the rows of a tracker', async () => {
    const { emitter } = stream();
    await emitter.close();
    const tracker = new StatsTracker();
    tracker.scalar({ loss: 3 });
    const error = await (async () => {
      emitter.merge(await tracker.rows(), { onRefused: () => undefined });
    })().catch((reason: unknown) => reason as MergeRefusal);
    expect(error).toBeInstanceOf(StreamError);
    expect(error!.rows).toMatchObject([{ key: 'loss', row: { sum: 3 } }]);
  });
});
