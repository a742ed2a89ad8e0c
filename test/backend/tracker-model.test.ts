/**
 * A tracker against a model of it, by random calls: records of all kinds under few names, so that they contradict each
 * other, exports that are in flight together and fail in any order, backends that go away.
 *
 * Nothing that was accepted is lost or counted twice, and no sequence of calls wedges a tracker: what an export refuses
 * because a value is missing can be mended by recording the value.
 *
 * TENSORTALLY_TEST_LONG=1 runs 100 000 calls; TENSORTALLY_TEST_SEED repeats a run whose seed was printed.
 */
import '@tensorflow/tfjs';
import { expect, test, vi } from 'vitest';
import type { SlowDevice } from '../unit/tracker/slow-device.js';
import { hasDevice, testBackend } from '../support/backend.js';
import { TrackerRun } from '../support/tracker-run.js';
import { isLong } from '../support/long.js';

const device: { current?: SlowDevice } = vi.hoisted(() => ({}));

vi.mock(import('../../src/kernels/index.js'), async (importOriginal) => {
  const { heldKernels } = await import('../unit/tracker/slow-device.js');
  return heldKernels(await importOriginal(), device);
});

const backend = await testBackend();
const CALLS = hasDevice() ? 400 : isLong ? 100_000 : 3_000;
/** Calls on one tracker. */
const RUN = 1_000;

test(`${CALLS} random calls export what a list of records does`, { timeout: 1_800_000 }, async () => {
  const seed = Number(process.env.TENSORTALLY_TEST_SEED ?? (isLong ? Date.now() % 2 ** 31 : 20261201));
  console.log(`tracker model on ${backend}: seed ${seed}, ${CALLS} calls`);
  const accepted = new Map<string, number>();
  for (let start = 0; start < CALLS; start += RUN) {
    const run = new TrackerRun(seed + start, hasDevice() ? undefined : backend);
    device.current = run.slow;
    try {
      for (let i = 0; i < Math.min(RUN, CALLS); i++) await run.step();
      await run.end();
    } catch (error) {
      console.error(`seed ${seed + start}; the last calls:\n${run.log.slice(-40).join('\n')}`);
      throw error;
    }
    for (const [name, times] of run.accepted) accepted.set(name, (accepted.get(name) ?? 0) + times);
  }
  // It has tried what it is about.
  const least = CALLS / 1000;
  for (const name of [
    'scalar',
    'counter',
    'denominator',
    'stat',
    'handle.stat',
    'export key',
    'exported',
    'failed',
  ])
    expect(accepted.get(name) ?? 0, name).toBeGreaterThanOrEqual(least);
  if (!hasDevice()) expect(accepted.get('remove backend') ?? 0).toBeGreaterThan(0);
});
