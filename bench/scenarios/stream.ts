/** `stream`: a controller merges what thousands of rollout workers have recorded since the last step. */
import { type KeyDefinition, StreamIngest, encodeDelta } from '../../src/index.js';
import { MomentsTable, emptyRow, liftRow, mergeRows } from '../../src/kernels/index.js';
import { schemaFingerprint } from '../../src/tracker/stream/wire/delta.js';
import type { Numbers } from '../agreement.js';
import { type Random, seeded } from '../inputs.js';
import type { Scenario, Size, Work } from '../scenario.js';

const KEYS = [
  'eval-rollout/reward',
  'rollout/accepted',
  'rollout/num_turns',
  'rollout/rejected',
  'rollout/reward',
  'rollout/tool_calls',
] as const;
const EXACT = { relative: 1e-9, absolute: 0 };

function size(workers: number): Size {
  return { label: `${workers} workers × ${KEYS.length} keys`, prepare: () => prepare(workers) };
}

export const stream: Scenario = {
  name: 'stream',
  describe: 'What rollout workers have recorded, merged by a controller',
  sizes: { tiny: size(10), small: size(100), medium: size(1000), large: size(10_000) },
};

/** Of one worker: 1 to 40 samples of each key. */
type Samples = Readonly<Record<string, readonly number[]>>;

function prepare(workers: number): Work {
  const random = seeded(12);
  const recorded = Array.from({ length: workers }, () => draw(random));
  const deltas = recorded.map(encoded);
  const exports = recorded.map((samples) => JSON.stringify(exported(samples)));
  const expected = expectedExport(recorded);
  const means = Object.fromEntries(KEYS.map((key) => [key, expected[key]!]));
  return {
    inputBytes: deltas.reduce((bytes, delta) => bytes + delta.byteLength, 0),
    ways: {
      ours: {
        run: async () => Promise.resolve(merged(deltas)),
        numbers: async () => Promise.resolve(merged(deltas)),
        expected: { ...expected, 'stream/workers_seen': workers, 'stream/merged': workers },
        closeness: EXACT,
      },
      json: {
        run: async () => Promise.resolve(weighted(exports)),
        numbers: async () => Promise.resolve(weighted(exports)),
        expected: means,
        closeness: EXACT,
      },
    },
    torch: { task: 'stream', tensors: {}, parameters: { exports }, expected: means, closeness: EXACT },
    amount: { count: workers, what: 'deltas' },
    dispose: () => undefined,
  };
}

function draw(random: Random): Samples {
  return Object.fromEntries(
    KEYS.map((key) => [key, Array.from({ length: 1 + Math.floor(40 * random()) }, random)]),
  );
}

/** The first delta of a worker, which nobody knows yet: the dearest that there is. */
function encoded(samples: Samples, worker: number): Uint8Array {
  const definitions = KEYS.map((key): KeyDefinition => ({ key, reduction: 'scalar' }));
  const rows = new MomentsTable(KEYS.length);
  KEYS.forEach((key, i) => {
    rows.set(i, samples[key]!.map(liftRow).reduce(mergeRows, emptyRow));
  });
  return encodeDelta({
    workerId: `rollout-${worker}`,
    epoch: 1,
    seq: 1,
    isFinal: false,
    fingerprint: schemaFingerprint(definitions),
    keyCount: KEYS.length,
    definitions,
    positions: KEYS.map((_, i) => i),
    rows,
  });
}

/** By a controller that has just started: what it knows of its workers is part of the work. */
function merged(deltas: readonly Uint8Array[]): Numbers {
  const ingest = new StreamIngest();
  for (const delta of deltas) {
    const { status } = ingest.receive(delta);
    if (status !== 'accepted') throw new Error(`a delta was not accepted: ${status}`);
  }
  return ingest.export();
}

/** What a worker of AReaL sends: means, and how many samples they are of. */
function exported(samples: Samples): Record<string, number> {
  return Object.fromEntries(
    Object.entries(samples).flatMap(([key, values]) => [
      [key, sum(values) / values.length],
      [`${key}__count`, values.length],
    ]),
  );
}

/** What a controller of AReaL makes of that: means weighted by their counts. Nothing else can be had from it. */
function weighted(exports: readonly string[]): Numbers {
  const totals = new Map<string, { sum: number; count: number }>();
  for (const text of exports) {
    const numbers = JSON.parse(text) as Record<string, number>;
    for (const [key, mean] of Object.entries(numbers)) {
      const count = numbers[`${key}__count`];
      if (count === undefined) continue;
      const total = totals.get(key);
      if (total === undefined) {
        totals.set(key, { sum: mean * count, count });
      } else {
        total.sum += mean * count;
        total.count += count;
      }
    }
  }
  return Object.fromEntries([...totals].map(([key, { sum, count }]) => [key, sum / count]));
}

function expectedExport(recorded: readonly Samples[]): Record<string, number> {
  return Object.fromEntries(
    KEYS.flatMap((key) => {
      const values = recorded.flatMap((samples) => samples[key]!);
      return [
        [key, sum(values) / values.length],
        [`${key}__count`, values.length],
      ];
    }),
  );
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
