/** `scalars`: what a rollout worker records, a number per call, and the export. */
import { StatsTracker } from '../../src/index.js';
import type { Numbers } from '../agreement.js';
import { heapKeptBy } from '../measure/heap.js';
import type { Scenario, Size, Work } from '../scenario.js';
import { FLOAT32_PEER } from '../scenario.js';
import { seeded } from '../inputs.js';

const SCOPE = 'rollout';
const NAMES = ['reward', 'num_turns', 'tool_calls'] as const;
const EXACT = { relative: 1e-9, absolute: 0 };

/** @param rounds calls of each name */
function size(rounds: number): Size {
  return { label: `${NAMES.length} names × ${rounds} calls`, prepare: () => prepare(rounds) };
}

export const scalars: Scenario = {
  name: 'scalars',
  describe: 'Numbers recorded one per call, and exported',
  sizes: { tiny: size(100), small: size(1000), medium: size(30_000), large: size(300_000) },
};

function prepare(rounds: number): Work {
  const random = seeded(11);
  const values = Float32Array.from({ length: NAMES.length * rounds }, random);
  const expected = expectedExport(values);
  const ours = (): Promise<Numbers> => record(values).export();
  return {
    inputBytes: values.byteLength,
    ways: {
      ours: { run: ours, numbers: ours, expected, closeness: EXACT },
      listed: {
        run: async () => Promise.resolve(listed(values)),
        numbers: async () => Promise.resolve(listed(values)),
        expected,
        closeness: EXACT,
      },
    },
    torch: {
      task: 'scalars',
      tensors: { values: { values, shape: [values.length] } },
      parameters: { names: NAMES },
      expected,
      closeness: FLOAT32_PEER,
    },
    retention: {
      ours: async () => Promise.resolve(kept(values)),
      everything: values.length * Float64Array.BYTES_PER_ELEMENT,
    },
    amount: { count: values.length, what: 'calls' },
    dispose: () => undefined,
  };
}

/** In a scope that is open, as the callbacks of an episode are called. */
function record(values: Float32Array): StatsTracker {
  const tracker = new StatsTracker('', { exportReminder: Infinity });
  tracker.scope(SCOPE, () => {
    for (let i = 0; i < values.length; i += NAMES.length) {
      tracker.scalar({ reward: values[i]! });
      tracker.scalar({ num_turns: values[i + 1]! });
      tracker.scalar({ tool_calls: values[i + 2]! });
    }
  });
  return tracker;
}

function kept(values: Float32Array): number {
  return heapKeptBy(
    () => record(values),
    (tracker) => {
      tracker.dispose();
    },
    4,
  );
}

/** What is least to write: a list of numbers per name, and no scopes, checks or moments. */
function listed(values: Float32Array): Numbers {
  const lists = new Map<string, number[]>();
  const scalar = (numbers: Readonly<Record<string, number>>): void => {
    for (const [name, value] of Object.entries(numbers)) {
      const key = `${SCOPE}/${name}`;
      const list = lists.get(key);
      if (list === undefined) lists.set(key, [value]);
      else list.push(value);
    }
  };
  for (let i = 0; i < values.length; i += NAMES.length) {
    scalar({ reward: values[i]! });
    scalar({ num_turns: values[i + 1]! });
    scalar({ tool_calls: values[i + 2]! });
  }
  const numbers: Record<string, number> = {};
  for (const [key, list] of lists) {
    numbers[key] = list.reduce((total, value) => total + value, 0) / list.length;
    numbers[`${key}__count`] = list.length;
  }
  return numbers;
}

function expectedExport(values: Float32Array): Numbers {
  const count = values.length / NAMES.length;
  const means = NAMES.map((name, first): [string, number] => {
    let total = 0;
    for (let i = first; i < values.length; i += NAMES.length) total += values[i]!;
    return [`${SCOPE}/${name}`, total / count];
  });
  return Object.fromEntries(
    means.flatMap(([key, mean]) => [
      [key, mean],
      [`${key}__count`, count],
    ]),
  );
}
