/** The wire form of a delta: what comes back is what was sent, and bytes that are no delta are refused, whatever they are. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ValueError } from '../../../../src/errors.js';
import { emptyRow, liftRow, mergeRows } from '../../../../src/rows/row.js';
import { MomentsTable } from '../../../../src/rows/table.js';
import { decodeDelta } from '../../../../src/tracker/stream/wire/delta-reader.js';
import { type Delta, encodeDelta, schemaFingerprint } from '../../../../src/tracker/stream/wire/delta.js';
import { DeltaError } from '../../../../src/tracker/stream/errors.js';
import { streamReductions } from '../../../../src/tracker/stream/wire/schema.js';
import { anyValues } from '../../../support/arbitraries.js';
import { runsOf } from '../../../support/long.js';
import { openedOf, sealAgain, sealedOf } from '../../../support/sealed.js';

const text = fc.string({ unit: 'binary', minLength: 1, maxLength: 20 });

const deltas: fc.Arbitrary<Delta> = fc
  .record({
    workerId: text,
    epoch: fc.maxSafeNat(),
    seq: fc.maxSafeNat().map((n) => Math.max(1, n)),
    policyVersion: fc.option(fc.maxSafeInteger(), { nil: undefined }),
    isFinal: fc.boolean(),
    keys: fc.uniqueArray(text, { maxLength: 20 }).map((keys) => keys.sort()),
    seed: fc.array(fc.tuple(fc.boolean(), fc.constantFrom(...streamReductions), anyValues(0, 6)), {
      minLength: 20,
      maxLength: 20,
    }),
  })
  .map(({ keys, seed, ...numbers }) => {
    const definitions = keys.map((key, i) => ({ key, reduction: seed[i]![1] }));
    const positions = keys.map((_, i) => i).filter((i) => seed[i]![0]);
    const rows = new MomentsTable(positions.length);
    positions.forEach((position, i) => {
      rows.set(i, seed[position]![2].map(liftRow).reduce(mergeRows, emptyRow));
    });
    const fingerprint = schemaFingerprint(definitions);
    return { ...numbers, fingerprint, keyCount: keys.length, definitions, positions, rows };
  });

/** One key, one row. */
function small(): Delta {
  const definitions = [{ key: 'k', reduction: 'scalar' }] as const;
  const rows = new MomentsTable(1);
  rows.set(0, liftRow(2));
  const fingerprint = schemaFingerprint(definitions);
  return {
    ...{ workerId: 'w', epoch: 3, seq: 4, isFinal: false, fingerprint, keyCount: 1, definitions },
    ...{ positions: [0], rows },
  };
}

describe('encodeDelta and decodeDelta', () => {
  test('are inverse, with and without definitions', () => {
    fc.assert(
      fc.property(deltas, (delta) => {
        expect(decodeDelta(encodeDelta(delta))).toEqual(delta);
        const bare = encodeDelta(delta, { definitions: false });
        expect(decodeDelta(bare)).toEqual({ ...delta, definitions: undefined });
      }),
    );
  });

  test('read bytes wherever they lie in a buffer', () => {
    const bytes = encodeDelta(small());
    const padded = new Uint8Array(bytes.length + 13);
    padded.set(bytes, 5);
    expect(decodeDelta(padded.subarray(5, 5 + bytes.length))).toEqual({
      ...small(),
      policyVersion: undefined,
    });
  });

  test('need 40 bytes per row of finite elements, and names only when asked', () => {
    const delta = small();
    const [prefix, numbers, worker, bits, definition] = [16, 9 * 8, 1, 1, 4];
    const padded = (bytes: number): number => 8 * Math.ceil(bytes / 8);
    const rest = prefix + numbers + 8 + 40;
    expect(encodeDelta(delta, { definitions: false })).toHaveLength(rest + padded(worker + bits));
    expect(encodeDelta(delta)).toHaveLength(rest + padded(worker + definition + bits));
    delta.rows.set(0, liftRow(NaN));
    expect(encodeDelta(delta, { definitions: false })).toHaveLength(rest + 24 + padded(worker + bits));
  });

  test('keep the form: another one needs another number', () => {
    const hex =
      '62b7a333' +
      '54544c59' +
      '03000200' + // form 3 of kind 2
      '08000000' + // bytes of the head
      '7701000000000000' + // worker w, the first key has a row
      '0000000000000840' + // epoch 3
      '0000000000001040' + // sequence number 4
      '000000000000f07f' + // no policy version
      '000000000000f03f' + // fingerprint 1
      '000000000000f07f' + // no parent
      '000000000000f03f' + // keys in the schema
      '0000000000000000' + // not the last delta
      '000000000000f03f' + // bytes of the worker
      '000000000000f07f' + // no definitions
      '0000000000000000' + // no row with elements that are not finite
      '000000000000f03f0000000000000040000000000000000000000000000000400000000000000040';
    const read = decodeDelta(Uint8Array.from(Buffer.from(hex, 'hex')));
    expect(read).toMatchObject({ workerId: 'w', epoch: 3, seq: 4, fingerprint: 1, positions: [0] });
    expect(read.rows.row(0)).toEqual(liftRow(2));
    expect(Buffer.from(encodeDelta(read, { definitions: false })).toString('hex')).toBe(hex);
  });

  test.each<[string, Partial<Delta>]>([
    ['workerId', { workerId: '' }],
    ['workerId', { workerId: 'x'.repeat(70_000) }],
    ['seq', { seq: 0 }],
    ['epoch', { epoch: -1 }],
    ['policyVersion', { policyVersion: 0.5 }],
    ['positions', { positions: [1] }],
    ['positions', { positions: [] }],
    ['definitions', { definitions: [] }],
    ['definitions', { definitions: undefined }],
  ])('refuse to write a wrong %s', (field, change) => {
    expect(() => encodeDelta({ ...small(), ...change })).toThrow(ValueError);
    expect(() => encodeDelta({ ...small(), ...change })).toThrow(field);
  });
});

/** What reading is: a delta, or one typed refusal. */
function read(bytes: Uint8Array): Delta | undefined {
  try {
    return decodeDelta(bytes);
  } catch (error) {
    if (error instanceof DeltaError) return undefined;
    throw error;
  }
}

describe('bytes that are no delta', () => {
  test('are refused with a DeltaError: cut short or too long', () => {
    fc.assert(
      fc.property(deltas, fc.nat(), fc.uint8Array({ minLength: 1, maxLength: 9 }), (delta, cut, more) => {
        const bytes = encodeDelta(delta);
        const { head, numbers } = openedOf('delta', bytes);
        expect(() => decodeDelta(bytes.slice(0, cut % bytes.length))).toThrow(DeltaError);
        expect(() => decodeDelta(Uint8Array.of(...bytes, ...more))).toThrow(DeltaError);
        const head8 = Uint8Array.of(...head, ...new Uint8Array(8));
        for (const other of [
          sealedOf('delta', head, numbers.subarray(0, cut % numbers.length)),
          sealedOf('delta', head, [...numbers, ...more]),
          sealedOf('delta', head8, numbers),
        ]) {
          expect(() => decodeDelta(other)).toThrow(DeltaError);
        }
      }),
    );
  });

  test('are refused with nothing but a DeltaError: any bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        expect(read(bytes)).toBeUndefined();
        const head = bytes.subarray(0, bytes.length / 2);
        expect(read(sealedOf('delta', head, bytes.subarray(head.length)))).toBeUndefined();
      }),
      { numRuns: runsOf(2000) },
    );
  });

  test('are refused: with any byte changed', () => {
    fc.assert(
      fc.property(deltas, fc.nat(), fc.integer({ min: 1, max: 255 }), (delta, at, by) => {
        const bytes = encodeDelta(delta);
        bytes[at % bytes.length]! ^= by;
        expect(() => decodeDelta(bytes)).toThrow(DeltaError);
      }),
      { numRuns: runsOf(1000) },
    );
  });

  test('with any byte changed and a checksum for it are refused, or are another delta that is written the same', () => {
    fc.assert(
      fc.property(deltas, fc.nat(), fc.integer({ min: 1, max: 255 }), (delta, at, by) => {
        const bytes = encodeDelta(delta);
        bytes[at % bytes.length]! ^= by;
        sealAgain(bytes);
        const other = read(bytes);
        if (other !== undefined) {
          const definitions = other.definitions !== undefined;
          expect(encodeDelta(other, { definitions })).toEqual(bytes);
        }
      }),
      { numRuns: runsOf(1000) },
    );
  });

  test.each<[string, number, number]>([
    ['a negative count', 0, -1],
    ['a count without end', 0, Infinity],
    ['a count that is NaN', 0, NaN],
    ['a count of nothing in a row with a sum', 0, 0],
    ['squared deviations below 0', 5, -1],
    ['a smallest element above the largest', 6, 3],
    ['a NaN for the smallest element', 6, NaN],
    ['more NaN than elements', 1, 2],
  ])('are refused: %s', (_what, field, value) => {
    const delta = small();
    delta.rows.cells[field] = value;
    expect(() => decodeDelta(encodeDelta(delta))).toThrow(DeltaError);
  });

  test('are refused: keys out of order, and names that do not fit their fingerprint', () => {
    const definitions = [
      { key: 'b', reduction: 'scalar' },
      { key: 'a', reduction: 'scalar' },
    ] as const;
    const fingerprint = schemaFingerprint(definitions);
    expect(() => decodeDelta(encodeDelta({ ...small(), keyCount: 2, definitions, fingerprint }))).toThrow(
      "keys in ascending order, got 'a' after 'b'",
    );
    expect(() => decodeDelta(encodeDelta({ ...small(), fingerprint: 7 }))).toThrow('fingerprint 7');
  });
});
