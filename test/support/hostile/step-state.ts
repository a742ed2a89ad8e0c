/** Bytes that announce more than there is, read in a small heap. Not a test. */
import { ValueError } from '../../../src/errors.js';
import { checksumBut } from '../../../src/metrics/step/checksum.js';
import { decodeState } from '../../../src/metrics/step/encoding.js';
import { risenBy } from './memory.js';

/** A state of this header and so many zeros, with the checksum that belongs to it. */
function bytesOf(header: object, numbers = 0): Uint8Array {
  const text = new TextEncoder().encode(JSON.stringify(header));
  const size = 8 * Math.ceil(text.length / 8);
  const bytes = new Uint8Array(16 + size + 8 * numbers);
  const words = new Uint32Array(bytes.buffer);
  words.set([0x54535431, 3, size]);
  bytes.fill(0x20, 16, 16 + size).set(text, 16);
  words[3] = checksumBut(3, words);
  return bytes;
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
  const text = new TextEncoder().encode(
    JSON.stringify({ ...bare, options: { policy: { lossAggMode: 'HERE' } } }).replace(
      '"HERE"',
      nested(depth),
    ),
  );
  const size = 8 * Math.ceil(text.length / 8);
  const bytes = new Uint8Array(16 + size);
  const words = new Uint32Array(bytes.buffer);
  words.set([0x54535431, 3, size]);
  bytes.fill(0x20, 16, 16 + size).set(text, 16);
  words[3] = checksumBut(3, words);
  return bytes;
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

const taken: string[] = [];
const rises: Record<string, number> = {};
for (const [name, bytes] of Object.entries(announced)) {
  const rise = risenBy(() => {
    if (!isRefused(bytes)) taken.push(name);
  });
  // The heap grows in steps of some MB whatever asks for it.
  rises[name] = rise / (bytes.length + 2e6);
}
const fits = [bytesOf({ ...known, rows: 7 }, 14), bytesOf(known), bytesOf({ ...counted, rows: 5 }, 6)].map(
  (bytes) => decodeState('fromBytes', bytes).rows,
);
console.log(JSON.stringify({ taken, rises, fits }));
