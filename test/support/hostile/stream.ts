/** Valid deltas that would fill a controller, received in a small heap. Not a test. */
import { liftRow } from '../../../src/rows/row.js';
import { MomentsTable } from '../../../src/rows/table.js';
import { encodeDelta, schemaFingerprint } from '../../../src/tracker/stream/wire/delta.js';
import { StreamIngest } from '../../../src/tracker/stream/ingest.js';
import type { KeyDefinition } from '../../../src/tracker/stream/wire/schema.js';

/** A delta of these keys, with a row for the first. */
function bytesOf(
  keys: readonly string[],
  numbers: { workerId?: string; seq?: number; policyVersion?: number },
): Uint8Array {
  const definitions: KeyDefinition[] = [...keys].sort().map((key) => ({ key, reduction: 'counter' }));
  const rows = new MomentsTable(1);
  rows.set(0, liftRow(1));
  return encodeDelta({
    ...{ workerId: 'w', epoch: 1, seq: 1, isFinal: false, definitions, positions: [0], rows, ...numbers },
    ...{ fingerprint: schemaFingerprint(definitions), keyCount: keys.length },
  });
}

const ingest = new StreamIngest({ maxWorkers: 20_000 });
let bytes = 0;
const receive = (delta: Uint8Array): string => {
  bytes += delta.length;
  return ingest.receive(delta).status;
};

// Versions without end.
for (let seq = 1; seq <= 5000; seq++) receive(bytesOf(['k'], { workerId: 'v', seq, policyVersion: seq }));
// Schemas of keys that are too many, one after the other.
for (let seq = 1; seq <= 20; seq++) {
  receive(
    bytesOf(
      Array.from({ length: 20_000 }, (_, i) => `schema ${seq}/key ${i}`),
      { seq },
    ),
  );
}
// Keys that are too long.
const long = bytesOf(
  Array.from({ length: 200 }, (_, i) => `${i}`.padEnd(60_000, 'x')),
  { workerId: 'long' },
);
receive(long);
// Workers without end, each with a life of its own.
for (let i = 0; i < 30_000; i++) receive(bytesOf(['k'], { workerId: `${i}` }));
const { refusedRows, refusedWorkers } = ingest.health();
console.log(JSON.stringify({ bytes, refusedRows, refusedWorkers, versions: ingest.policyVersions().length }));
