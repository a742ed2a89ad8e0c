/** Bytes that announce more than there is, read in a small heap. Not a test. */
import { ValueError } from '../../../src/errors.js';
import { decodeState } from '../../../src/metrics/step/encoding.js';
import { sealedOf } from '../sealed.js';

/** A state of this header and so many zeros, with the checksum that belongs to it. */
function bytesOf(header: object, numbers = 0): Uint8Array {
  return sealedOf('stepState', JSON.stringify(header), new Float64Array(numbers));
}

const bare = {
  ...{
    rows: 0,
    skipped: {},
    options: {},
    channels: {},
    tables: 0,
    unknownLengths: { prompt: 'no', response: 'no' },
  },
  ...{ hasNumTurns: false, hasToolCallCounts: false },
};

/** With the lengths of its rows. */
const known = { ...bare, unknownLengths: {} };

/** With nothing but the tokens of the global batch. */
const counted = { ...bare, globalTokens: 1 };

function isRefused(bytes: Uint8Array): boolean {
  try {
    decodeState('fromBytes', bytes);
    return false;
  } catch (error) {
    if (error instanceof ValueError && error.message.length < 5000) return true;
    throw error;
  }
}

const nested = (depth: number): string => '['.repeat(depth) + ']'.repeat(depth);
const deep = (depth: number): Uint8Array => {
  const header = { ...bare, options: { policy: { lossAggMode: 'HERE' } } };
  return sealedOf('stepState', JSON.stringify(header).replace('"HERE"', nested(depth)), []);
};

/** One table under very many channels, and very many tables. */
const channels = (count: number): Record<string, number> =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i} mean`, i]));

const announced: Record<string, Uint8Array> = {
  'many tables of no rows': bytesOf({ ...bare, tables: 1e8 }),
  'more tables than memory': bytesOf({ ...bare, tables: 2 ** 53 - 1 }),
  'rows without end': bytesOf({ ...bare, rows: 2 ** 53 - 1 }),
  'rows of nothing but tokens': bytesOf({ ...counted, rows: 2 ** 53 - 1 }, 1),
  'rows of nothing': bytesOf({ ...bare, rows: 1e9 }),
  'rows that are not there': bytesOf({ ...known, rows: 7 }, 13),
  'rows with lengths': bytesOf({ ...known, rows: 1e8 }),
  'tables of many rows': bytesOf({ ...bare, rows: 1e8, tables: 1, channels: { kl: { 'k mean': 0 } } }),
  'tokens without end': bytesOf({ ...bare, globalTokens: 2 ** 40 }),
  'tables that nobody uses': bytesOf({ ...bare, tables: 3, channels: { kl: { 'k mean': 2 } } }),
  'channels of tables of no rows': bytesOf({ ...bare, tables: 1e5, channels: { kl: channels(1e5) } }),
  'groups for no rows': bytesOf({ ...bare, groups: Array.from({ length: 1e5 }, () => 's') }),
  'a family of 10 MB': bytesOf({ ...bare, families: ['x'.repeat(1e7)] }),
  'an option of 10 MB': bytesOf({ ...bare, options: { ['x'.repeat(1e7)]: 1 } }),
  'options nested a little too deep': deep(9),
  'options nested as deep as the stack': deep(3000),
  'options nested without end': deep(1e6),
};

/** One table of one row under these channels, which is honest about its numbers. */
const oneTable = (family: string, names: readonly string[], more: object = {}): Uint8Array => {
  const own = Object.fromEntries(names.map((name) => [name, 0]));
  const header = { ...bare, rows: 1, tables: 1, tableRows: [1], channels: { [family]: own }, ...more };
  // No row of it has elements that are not finite; count, sum, m2, min, max.
  return sealedOf('stepState', JSON.stringify(header), [0, 1, 2, 0, 2, 2]);
};
const names = (count: number): string[] => Array.from({ length: count }, (_, i) => `k${i} mean`);
const MANY = names(200_000);

Object.assign(announced, {
  'a table under 200 000 policy metrics': oneTable('policy', MANY),
  'a table under 200 000 estimators': oneTable('kl', MANY),
  'a table under 60 policy metrics': oneTable('policy', names(60)),
  'a channel of 3 MB': oneTable('policy', [`${'x'.repeat(3e6)} mean`]),
  'a channel of 3 MB that is escaped': oneTable('kl', [`${'\u0001'.repeat(5e5)} mean`]),
  'a channel that another one must go with': oneTable('kl', ['k1/seq_mean stepMean']),
  'a million families': bytesOf({ ...known, families: Array<string>(1e6).fill('data') }),
  'a family twice': bytesOf({ ...known, families: ['data', 'data'] }),
  'a million lengths of tables': bytesOf({ ...known, tableRows: Array<number>(1e6).fill(0) }),
  'a reason of 5 MB': bytesOf({ ...known, skipped: { data: 'x'.repeat(5e6) } }),
  'two million spaces': bytesOf({ ...known, skipped: { data: ' '.repeat(2e6) } }),
  'a hundred thousand options': bytesOf({
    ...known,
    options: Object.fromEntries(names(1e5).map((name) => [name, 0])),
  }),
  'a list of lists': bytesOf({ ...known, families: Array<unknown>(1e5).fill([]) }),
  'totals of no row for many': bytesOf({
    ...{ ...bare, rows: 2 ** 32, tables: 1, tableRows: [0] },
    channels: { kl: { 'k1/mean mean': 0 } },
  }),
  'totals of more rows than there are in a step': oneTable('kl', ['k1/mean mean'], { rows: 2 ** 30 + 1 }),
});

const taken: string[] = [];
// What needs more than a small multiple of its bytes ends this process: its heap has no room for it.
for (const [name, bytes] of Object.entries(announced)) if (!isRefused(bytes)) taken.push(name);
const fits = [
  ...[bytesOf({ ...known, rows: 7 }, 14), bytesOf(known), bytesOf({ ...counted, rows: 5 }, 6)],
  oneTable('kl', ['k1/mean mean'], { rows: 2 ** 30 }),
].map((bytes) => decodeState('fromBytes', bytes).rows);
console.log(JSON.stringify({ taken, fits }));
