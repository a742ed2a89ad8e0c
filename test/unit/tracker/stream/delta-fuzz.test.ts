/**
 * Damaged deltas, with a checksum that is right: each is merged, answered or refused, and none costs more than it may.
 *
 * `TENSORTALLY_TEST_LONG=1` tries 25 times as many. The seed is printed.
 */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { liftRow } from '../../../../src/rows/row.js';
import { MomentsTable } from '../../../../src/rows/table.js';
import { type Delta, encodeDelta, schemaFingerprint } from '../../../../src/tracker/stream/wire/delta.js';
import { StreamIngest } from '../../../../src/tracker/stream/ingest.js';
import { isLong } from '../../../support/long.js';
import { sealAgain } from '../../../support/sealed.js';

const RUNS = isLong ? 250_000 : 10_000;

/** A delta of three keys, after a parent of one key or without one. */
function delta(parent?: number): Delta {
  const definitions = ['a', 'b', 'c'].map((key) => ({ key, reduction: 'scalar' }) as const);
  const rows = new MomentsTable(2);
  rows.set(0, liftRow(2));
  rows.set(1, liftRow(NaN));
  const positions = parent === undefined ? [0, 2] : [0, 3];
  return {
    ...{ workerId: 'w', epoch: 3, seq: 4, policyVersion: 7, isFinal: false, parent, definitions },
    ...{
      fingerprint: schemaFingerprint(definitions, parent),
      keyCount: 3 + positions[1]! - 2,
      positions,
      rows,
    },
  };
}

const first = [{ key: '0', reduction: 'sum' }] as const;
const parent = schemaFingerprint(first);
const originals = [
  encodeDelta(delta()),
  encodeDelta(delta(parent)),
  encodeDelta(delta(), { definitions: false }),
  encodeDelta({
    ...delta(),
    workerId: 'p',
    keyCount: 1,
    definitions: first,
    fingerprint: parent,
    positions: [],
    rows: new MomentsTable(0),
  }),
];

const damage = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ at: fc.nat(), to: fc.constantFrom(0, 1, 2, 3, 7, 8, 15, 127, 128, 254, 255) }),
  },
  { weight: 2, arbitrary: fc.record({ at: fc.nat(), to: fc.nat(255) }) },
);

const damaged = fc
  .record({
    which: fc.nat(originals.length - 1),
    damages: fc.array(damage, { minLength: 0, maxLength: 4 }),
    cut: fc.oneof({ weight: 5, arbitrary: fc.constant(undefined) }, fc.nat()),
    more: fc.oneof({ weight: 5, arbitrary: fc.constant(new Uint8Array()) }, fc.uint8Array({ maxLength: 40 })),
  })
  .map(({ which, damages, cut, more }) => {
    const whole = originals[which]!;
    const kept = whole.subarray(0, cut === undefined ? whole.length : cut % whole.length);
    const bytes = new Uint8Array(kept.length + more.length);
    bytes.set(kept);
    bytes.set(more, kept.length);
    for (const { at, to } of damages) if (bytes.length > 0) bytes[at % bytes.length] = to;
    return sealAgain(bytes);
  });

test('every damaged delta has one answer and one count', { timeout: 600_000 }, () => {
  const seed = Date.now() % 2 ** 31;
  console.log(`seed ${seed}, ${RUNS} deltas`);
  const limits = { maxKeys: 100, maxWorkers: 50, maxSchemas: 20, maxPolicyVersions: 4 };
  let ingest = new StreamIngest(limits);
  let sent = 0;
  fc.assert(
    fc.property(damaged, (bytes) => {
      const { status } = ingest.receive(bytes);
      expect(['accepted', 'stale', 'unknown_schema', 'refused']).toContain(status);
      if (status !== 'unknown_schema') sent++;
      const { merged, duplicates, stale, refused, refusedWorkers } = ingest.health();
      // One that is refused in part is merged in part.
      expect(merged + duplicates + stale + refused).toBeGreaterThanOrEqual(sent);
      expect(merged + duplicates + stale).toBeLessThanOrEqual(sent);
      expect(refusedWorkers).toBeLessThanOrEqual(refused);
      expect(ingest.policyVersions().length).toBeLessThanOrEqual(limits.maxPolicyVersions);
      if (sent < 500) return;
      for (const value of Object.values(ingest.export())) expect(typeof value).toBe('number');
      ingest = new StreamIngest(limits);
      sent = 0;
    }),
    { numRuns: RUNS, seed },
  );
});
