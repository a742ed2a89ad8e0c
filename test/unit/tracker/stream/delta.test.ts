/** The wire form of a delta: what comes back is what was sent, and bytes that are no delta are refused, whatever they are. */
import { crc32 } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ValueError } from '../../../../src/errors.js';
import { emptyRow, liftRow, mergeRows } from '../../../../src/rows/row.js';
import { MomentsTable } from '../../../../src/rows/table.js';
import { decodeDelta } from '../../../../src/tracker/stream/delta-reader.js';
import { type Delta, encodeDelta, schemaFingerprint } from '../../../../src/tracker/stream/delta.js';
import { DeltaError } from '../../../../src/tracker/stream/errors.js';
import { streamReductions } from '../../../../src/tracker/stream/schema.js';
import { anyValues } from '../../../support/arbitraries.js';
import { runsOf } from '../../../support/long.js';

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

/** Content with the checksum that belongs to it: damage that only the checks behind the checksum can find. */
function sealed(content: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(content.length + 4);
  bytes.set(content);
  new DataView(bytes.buffer).setUint32(content.length, crc32(content), true);
  return bytes;
}

const contentOf = (bytes: Uint8Array): Uint8Array => bytes.subarray(0, bytes.length - 4);

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
    expect(encodeDelta(delta, { definitions: false })).toHaveLength(28 + (2 + 1) + 2 + 40 + 4);
    expect(encodeDelta(delta)).toHaveLength(28 + (2 + 1) + (4 + 3 + 1) + 2 + 40 + 4);
    delta.rows.set(0, liftRow(NaN));
    expect(encodeDelta(delta, { definitions: false })).toHaveLength(28 + (2 + 1) + 2 + 64 + 4);
  });

  test('keep the format: bytes of version 1 are read for ever', () => {
    const hex =
      '01000100' +
      '0000000000000840' + // epoch 3
      '0000000000001040' + // sequence number 4
      '000000000000f03f' + // fingerprint 1
      '010077' +
      '0100' +
      '000000000000f03f0000000000000040000000000000000000000000000000400000000000000040' +
      '61c86d2f';
    const read = decodeDelta(Uint8Array.from(Buffer.from(hex, 'hex')));
    expect(read).toMatchObject({ workerId: 'w', epoch: 3, seq: 4, fingerprint: 1, positions: [0] });
    expect(read.rows.row(0)).toEqual(liftRow(2));
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
        const content = contentOf(bytes);
        expect(() => decodeDelta(bytes.subarray(0, cut % bytes.length))).toThrow(DeltaError);
        expect(() => decodeDelta(Uint8Array.of(...bytes, ...more))).toThrow(DeltaError);
        expect(() => decodeDelta(sealed(content.subarray(0, cut % content.length)))).toThrow(DeltaError);
        expect(() => decodeDelta(sealed(Uint8Array.of(...content, ...more)))).toThrow(DeltaError);
      }),
    );
  });

  test('are refused with nothing but a DeltaError: any bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        expect(read(bytes)).toBeUndefined();
        read(Uint8Array.of(1, ...bytes));
        read(sealed(Uint8Array.of(1, ...bytes)));
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
        const content = contentOf(encodeDelta(delta));
        content[at % content.length]! ^= by;
        const other = read(sealed(content));
        if (other !== undefined) {
          const definitions = other.definitions !== undefined;
          expect(encodeDelta(other, { definitions })).toEqual(sealed(content));
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
