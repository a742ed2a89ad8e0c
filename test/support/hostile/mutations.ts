/** Honest bytes of states and rows of histograms, changed at random, with the checksum that belongs to them. Not a test. */
import * as tf from '@tensorflow/tfjs-core';
import { TensortallyError } from '../../../src/errors.js';
import { Histogram, initBackend } from '../../../src/index.js';
import {
  StepState,
  type StepStateOptions,
  batchFromVerl,
  computeStepState,
} from '../../../src/metrics/index.js';
import { MomentsTable, NumbersReader, packTable, packedLength } from '../../../src/rows/index.js';
import { openedOf, sealedOf } from '../sealed.js';

await initBackend('cpu');

let seed = 0;
/** mulberry32 */
function random(): number {
  seed = (seed + 0x6d2b79f5) | 0;
  let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
}
const below = (n: number): number => Math.floor(random() * n);
const oneOf = <T>(list: readonly T[]): T => list[below(list.length)]!;

const NUMBERS = [
  0,
  -0,
  1,
  -1,
  0.5,
  2,
  3,
  7,
  1e308,
  -1e308,
  5e-324,
  NaN,
  Infinity,
  -Infinity,
  2 ** 53,
  2 ** 31,
];
const VALUES = [
  ...[0, 1, -1, 2, 0.5, 1e9, 2 ** 32, 2 ** 53, null, true, '', 's', 'n1', '#Infinity', '__proto__'],
  [],
  {},
];

const FIELDS = [
  ...(['token_level_scores', 'token_level_rewards', 'advantages', 'returns', 'values', 'vpreds'] as const),
  ...([
    'old_log_probs',
    'log_probs',
    'ref_log_prob',
    'rollout_log_probs',
    'sum_pi_squared',
    'entropys',
  ] as const),
];
const LISTS = { __num_turns__: [1, 2, 3], tool_call_counts: [0, 3, 1], global_token_num: [8, 4] };

function matrix(cols: number, value: () => number): tf.Tensor {
  return tf.tensor2d(Float32Array.from({ length: 3 * cols }, value), [3, cols]);
}

/** A state of three rows of so many steps. */
async function stateOf(cols: number, options: StepStateOptions, isMasked = true): Promise<Uint8Array> {
  const all: Record<string, tf.Tensor> = {};
  for (const field of FIELDS) all[field] = matrix(cols, () => Math.fround(random() - 0.5));
  if (isMasked) {
    all.response_mask = matrix(cols, () => 1);
    all.attention_mask = matrix(cols + 2, () => 1);
  }
  const batch = batchFromVerl(all, LISTS);
  const state = await computeStepState(batch, { onSkipped: () => undefined, ...options });
  tf.dispose(all);
  return state.toBytes();
}

const CORRECTION = { rolloutIs: 'token', rolloutRs: 'token_k1', rolloutRsThreshold: '0.5_2' } as const;
const GROUPS = { groups: ['a', 7, 'a'], policy: { useKlInReward: true } };
const bare = { ...batchFromVerl({}, { global_token_num: [8] }), batchSize: 5 };
const honest: Record<string, Uint8Array> = {
  healthy: await stateOf(5, GROUPS),
  preset: await stateOf(5, {
    ...{ ...GROUPS, semantics: 'verl-2026-01', maxModelLength: Infinity },
    policy: { lossAggMode: 'seq-mean-token-sum' },
  }),
  'one step a row': await stateOf(1, {}, false),
  'one step a row of a preset': await stateOf(1, { ...GROUPS, semantics: 'verl-2026-08' }, false),
  rejection: await stateOf(5, { ...GROUPS, rolloutCorrection: CORRECTION, population: 'kept' }),
  'rejection of rows': await stateOf(5, {
    rolloutCorrection: { rolloutIs: 'sequence', rolloutRs: 'seq_sum_k1', rolloutRsThreshold: '0.5_2' },
  }),
  'no tables': (await computeStepState(bare, { families: ['throughput'] })).toBytes(),
  'lengths alone': await stateOf(5, { families: ['groups', 'timing'], groups: [1, 2, 1] }),
};

interface Sealed {
  text: string;
  body: Uint8Array;
}

function opened(bytes: Uint8Array): Sealed {
  const { head, numbers } = openedOf('stepState', bytes);
  return { text: new TextDecoder('latin1').decode(head), body: new Uint8Array(numbers.buffer) };
}

function sealed({ text, body }: Sealed): Uint8Array {
  const numbers = new Float64Array(body.slice(0, 8 * Math.floor(body.length / 8)).buffer);
  return sealedOf(
    'stepState',
    Uint8Array.from(text, (c) => c.charCodeAt(0)),
    numbers,
  );
}

type Node = Record<string, unknown>;

/** Changes one place of a header, somewhere. */
function changeSomewhere(header: Node): void {
  let at: Node = header;
  for (;;) {
    const name = oneOf(Object.keys(at));
    const inner = at[name];
    if (typeof inner === 'object' && inner !== null && Object.keys(inner).length > 0 && random() < 0.8) {
      at = inner as Node;
      continue;
    }
    const other = oneOf(Object.keys(at));
    switch (below(5)) {
      case 0:
        at[name] = oneOf(VALUES);
        return;
      case 1:
        if (Array.isArray(at)) at.splice(Number(name), 1);
        else Reflect.deleteProperty(at, name);
        return;
      case 2:
        [at[name], at[other]] = [at[other], at[name]];
        return;
      case 3:
        if (typeof inner === 'number') at[name] = inner + oneOf([-1, 1, 2]);
        return;
      case 4:
        if (Array.isArray(at)) at.push(at[below(at.length)]);
        else at[oneOf(['policy', 'kl', 'debug', 'data', `${name} rows`, 'more'])] = inner;
        return;
    }
  }
}

/** Gives a table one row where it has one for every row of the batch, or the other way round. */
function retabled(parts: Sealed): void {
  let header: { rows: number; tables: number; tableRows?: number[] };
  try {
    header = JSON.parse(parts.text) as typeof header;
  } catch {
    return;
  }
  const lengths = (header.tableRows ??= Array.from(
    { length: Math.min(header.tables || 0, 256) },
    () => header.rows,
  ));
  if (!Array.isArray(lengths) || lengths.length === 0 || lengths.some((n) => !(n >= 0 && n < 10))) return;
  const numbers = new Float64Array(parts.body.slice(0, 8 * Math.floor(parts.body.length / 8)).buffer);
  const reader = new NumbersReader(numbers, (received) => new RangeError(received));
  let tables: MomentsTable[];
  try {
    tables = lengths.map((length) => reader.table(length));
  } catch (error) {
    if (error instanceof RangeError) return;
    throw error;
  }
  const rest = numbers.slice(tables.reduce((sum, table) => sum + packedLength(table), 0));
  const which = below(tables.length);
  const rows = lengths[which] === 1 ? Math.min(header.rows, 10) : 1;
  const [row] = tables[which]!;
  const table = new MomentsTable(rows);
  for (let i = 0; i < rows && row !== undefined; i++) table.set(i, row);
  tables[which] = table;
  lengths[which] = rows;
  const packed = new Float64Array(tables.reduce((sum, each) => sum + packedLength(each), rest.length));
  packed.set(
    rest,
    tables.reduce((at, each) => packTable(each, packed, at), 0),
  );
  parts.body = new Uint8Array(packed.buffer);
  parts.text = JSON.stringify(header);
}

const changes: readonly ((parts: Sealed) => void)[] = [
  ({ body }) => {
    for (let i = below(4); i >= 0 && body.length > 0; i--) body[below(body.length)] = below(256);
  },
  ({ body }) => {
    const numbers = new Float64Array(body.buffer, 0, body.length / 8);
    for (let i = below(4); i >= 0 && numbers.length > 0; i--) {
      numbers[below(numbers.length)] = random() < 0.3 ? numbers[below(numbers.length)]! : oneOf(NUMBERS);
    }
  },
  (parts) => {
    const at = below(parts.text.length);
    parts.text = parts.text.slice(0, at) + String.fromCharCode(below(256)) + parts.text.slice(at + 1);
  },
  (parts) => {
    const found = [...parts.text.matchAll(/\d/g)];
    const { index } = oneOf(found);
    parts.text = parts.text.slice(0, index) + String(below(10)) + parts.text.slice(index + 1);
  },
  (parts) => {
    let header: Node;
    try {
      header = JSON.parse(parts.text) as Node;
    } catch {
      return;
    }
    for (let i = below(2); i >= 0; i--) changeSomewhere(header);
    parts.text = JSON.stringify(header);
  },
  retabled,
  (parts) => {
    parts.body = random() < 0.5 ? parts.body.slice(0, 8 * below(parts.body.length / 8)) : parts.body;
  },
];

const counts: Record<string, number> = { taken: 0, refused: 0, rowsTaken: 0, rowsRefused: 0 };
const faults: string[] = [];
const fault = (what: string, error: unknown): void => {
  if (error instanceof TensortallyError) return;
  if (faults.length < 5) faults.push(`${what}: ${error instanceof Error ? error.stack : String(error)}`);
};

/** What is made of a state ends in numbers or in a typed error. */
function use(what: string, state: StepState, bytes: Uint8Array): void {
  for (const facts of [{}, { timing: { step: 2, gen: 1 }, nGpus: 2, gradientNorm: 0.5 }]) {
    try {
      const metrics = state.metrics(facts);
      const stranger = Object.entries(metrics).find(([, value]) => typeof value !== 'number');
      if (stranger !== undefined) faults.push(`${what}: ${stranger[0]} is ${String(stranger[1])}`);
    } catch (error) {
      fault(`${what}, metrics`, error);
    }
  }
  try {
    const merged = StepState.merge([state, StepState.fromBytes(bytes)]);
    merged.metrics();
    StepState.fromBytes(merged.toBytes());
    StepState.fromBytes(state.toBytes());
  } catch (error) {
    fault(`${what}, merge`, error);
  }
}

/** How many bytes are changed so. */
const RUNS = Number(process.env.TENSORTALLY_MUTATIONS ?? 2000);

for (const [name, bytes] of Object.entries(honest)) use(name, StepState.fromBytes(bytes), bytes);
for (let run = 0; run < RUNS; run++) {
  seed = run;
  const name = Object.keys(honest)[run % Object.keys(honest).length]!;
  const parts = opened(honest[name]!);
  for (let i = random() < 0.7 ? 0 : 1; i >= 0; i--) oneOf(changes)(parts);
  const bytes = sealed(parts);
  let state: StepState;
  try {
    state = StepState.fromBytes(bytes);
    counts.taken!++;
  } catch (error) {
    counts.refused!++;
    fault(`${name}, run ${run}`, error);
    continue;
  }
  use(`${name}, run ${run}`, state, bytes);
}

const rows: readonly number[][] = [
  [2, 0, 0, 0],
  [2, 1, 2, 3, -40, 1, -3, 2, 0, 5, 7, 1, 900, 2 ** 40],
  [1, 0, 1, 0, -5, 1, 0, 4, 12, 3],
];
for (let run = 0; run < RUNS; run++) {
  seed = run;
  const row: unknown[] = [...oneOf(rows)];
  for (let i = below(3); i >= 0; i--) {
    const at = below(row.length + 2);
    const change = below(6);
    if (change === 0) row.splice(at, 1);
    else if (change === 1) row.splice(at, 0, oneOf(NUMBERS));
    else if (change === 2) row[at] = oneOf<unknown>(VALUES);
    else if (change === 3) row[at] = below(20_000) - 10_000;
    else row[at] = oneOf(NUMBERS);
  }
  const given = random() < 0.3 ? Float64Array.from(row as number[]) : (row as number[]);
  let histogram: Histogram;
  try {
    histogram = Histogram.fromRow(given);
    counts.rowsTaken!++;
  } catch (error) {
    counts.rowsRefused!++;
    fault(`row of run ${run}`, error);
    continue;
  }
  try {
    for (const q of [0, 0.1, 0.5, 1]) {
      for (const nonFinite of ['propagate', 'ignore'] as const) {
        const value: unknown = histogram.quantile(q, { nonFinite });
        if (typeof value !== 'number') faults.push(`row of run ${run}: ${String(value)} at ${q}`);
      }
    }
    const twice = histogram.merge(Histogram.fromRow(given));
    Histogram.fromRow(twice.toRow());
    if (twice.count !== 2 * histogram.count) faults.push(`row of run ${run}: ${twice.count}`);
    for (const { value, count } of twice)
      if (!(count > 0) || !Number.isFinite(value)) faults.push(`run ${run}`);
  } catch (error) {
    fault(`row of run ${run}, used`, error);
  }
}
console.log(JSON.stringify({ counts, faults: faults.slice(0, 5) }));
