/** `tracker`: everything that a GRPO actor records in one step, and the export. */
import * as tf from '@tensorflow/tfjs-core';
import { StatsTracker } from '../../src/index.js';
import type { Numbers } from '../agreement.js';
import { composedRecording } from '../composed/tracker.js';
import { statisticsOf } from '../float64.js';
import { deviceBytes, onDevice } from '../inputs.js';
import { heapKeptBy } from '../measure/heap.js';
import { FLOAT32_PEER, type HostTensor, OURS, type Scenario, type Size, type Work } from '../scenario.js';
import { Tally } from '../tally.js';
import { type RecordCall, type Workload, type WorkloadShape, grpoWorkload } from '../workload.js';

function size(name: string, shape: WorkloadShape): Size {
  const { rows, cols, microBatches, tokens } = shape;
  const label = `${name}[${rows}, ${cols}] + ${microBatches} × ${tokens}`;
  return { label, prepare: () => prepare(grpoWorkload(shape)) };
}

export const tracker: Scenario = {
  name: 'tracker',
  describe: "AReaL's GRPO step recorded and exported: padded batch + packed micro-batches",
  sizes: {
    tiny: size('', { rows: 8, cols: 32, microBatches: 2, tokens: 512, miniBatches: 1 }),
    small: size('', { rows: 32, cols: 256, microBatches: 4, tokens: 2048, miniBatches: 1 }),
    medium: size('W1 ', { rows: 256, cols: 2048, microBatches: 11, tokens: 10_240, miniBatches: 1 }),
    large: size('W2 ', { rows: 128, cols: 9216, microBatches: 32, tokens: 16_384, miniBatches: 4 }),
  },
};

function prepare({ tensors: host, calls }: Workload): Work {
  const tensors = new Map([...host].map(([name, { values, shape }]) => [name, onDevice(values, shape)]));
  const ours = (): Promise<Numbers> => record(calls, tensors).export();
  const composed = (): Promise<Numbers> => composedRecording(calls, tensors);
  const expected = expectedExport(calls, host);
  const everything = [...host.values()].reduce((bytes, { values }) => bytes + values.byteLength, 0);
  return {
    inputBytes: deviceBytes(tensors.values()),
    ways: {
      ours: { run: ours, numbers: ours, expected, closeness: OURS },
      composed: { run: composed, numbers: composed, expected, closeness: FLOAT32_PEER },
    },
    torch: {
      task: 'tracker',
      tensors: Object.fromEntries(host),
      parameters: { calls },
      // That it keeps everything is checked with its numbers.
      expected: { ...expected, 'kept bytes': everything },
      closeness: FLOAT32_PEER,
    },
    retention: { ours: () => keptUntilExport(calls, tensors), everything },
    dispose: () => {
      tf.dispose([...tensors.values()]);
    },
  };
}

function record(calls: readonly RecordCall[], tensors: ReadonlyMap<string, tf.Tensor>): StatsTracker {
  const stats = new StatsTracker();
  const named = (names: Readonly<Record<string, string>>): Record<string, tf.Tensor> =>
    Object.fromEntries(Object.entries(names).map(([key, tensor]) => [key, tensors.get(tensor)!]));
  for (const call of calls) {
    const handle = stats.child(call.scope);
    if (call.kind === 'denominators') handle.denominator(named(call.masks));
    else if (call.kind === 'stats') handle.stat(named(call.values), { denominator: call.denominator });
    else handle.scalar(call.values);
  }
  return stats;
}

/**
 * Bytes that a tracker keeps when all calls are made: masks and unread rows, and its part of the heap.
 *
 * Masks that it shares with the caller count as if they were its own: the caller may let go of them.
 */
async function keptUntilExport(
  calls: readonly RecordCall[],
  tensors: ReadonlyMap<string, tf.Tensor>,
): Promise<number> {
  const stats = record(calls, tensors);
  const { deviceBytes: onDevice } = stats.memory();
  await stats.export();
  stats.dispose();
  const heap = heapKeptBy(
    () => record(calls, tensors),
    (made) => {
      made.dispose();
    },
    16,
  );
  return onDevice + heap;
}

/** The export in plain float64 loops. */
function expectedExport(calls: readonly RecordCall[], host: ReadonlyMap<string, HostTensor>): Numbers {
  const tally = new Tally();
  const masks = new Map<string, HostTensor['values'][]>();
  const seen = new Map<string, number>();
  for (const call of calls) {
    if (call.kind === 'scalars') {
      for (const [key, value] of Object.entries(call.values)) tally.scalar(`${call.scope}/${key}`, value);
    } else if (call.kind === 'denominators') {
      for (const [name, tensor] of Object.entries(call.masks)) {
        const key = `${call.scope}/${name}`;
        const { values } = host.get(tensor)!;
        masks.set(key, [...(masks.get(key) ?? []), values]);
        tally.denominator(key, statisticsOf(values).sum);
      }
    } else {
      for (const [name, tensor] of Object.entries(call.values)) {
        const key = `${call.scope}/${name}`;
        const turn = seen.get(key) ?? 0;
        seen.set(key, turn + 1);
        const mask = masks.get(`${call.scope}/${call.denominator}`)![turn]!;
        tally.stat(key, statisticsOf(host.get(tensor)!.values, mask));
      }
    }
  }
  return tally.export();
}
