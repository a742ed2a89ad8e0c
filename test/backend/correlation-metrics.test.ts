/** The correlation of the probabilities of two policies, however large or small they are, on every backend. */
import * as tf from '@tensorflow/tfjs-core';
import { describe, expect, test } from 'vitest';

import { StepState, batchFromVerl, computeDebugMetrics, computeStepState } from '../../src/metrics/index.js';
import { testBackend } from '../support/backend.js';
import { seeded } from '../support/random.js';
import { deviceTensor } from '../support/tensors.js';

const backend = await testBackend();

const KEY = 'training/rollout_actor_probs_pearson_corr';
/** What float32 exponentials leave of a correlation. */
const CLOSE = { rel: 1e-5, abs: 5e-6 };

function tensorsOf(old: readonly number[], rollout: readonly number[]): Record<string, tf.Tensor> {
  const row = (values: readonly number[]): tf.Tensor => deviceTensor({ shape: [1, values.length], values });
  return {
    old_log_probs: row(old),
    rollout_log_probs: row(rollout),
    response_mask: row(old.map(() => 1)),
  };
}

async function correlationOf(old: readonly number[], rollout: readonly number[]): Promise<number> {
  const tensors = tensorsOf(old, rollout);
  const computing = computeDebugMetrics(batchFromVerl(tensors));
  tf.dispose(tensors);
  return (await computing)[KEY]!;
}

/** Two passes in float64 over probabilities relative to the largest of their side. */
function expected(old: readonly number[], rollout: readonly number[]): number {
  const [x, y] = [old, rollout].map((logs) => {
    const floats = logs.map(Math.fround);
    const most = Math.max(...floats);
    // Near 1 the differences of p are those of expm1.
    const p = floats.map((log) => Math.expm1(log - most));
    const mean = p.reduce((sum, value) => sum + value) / p.length;
    return p.map((value) => value - mean);
  }) as [number[], number[]];
  const dot = (a: readonly number[], b: readonly number[]): number =>
    a.reduce((sum, v, i) => sum + v * b[i]!, 0);
  return dot(x, y) / Math.sqrt(dot(x, x) * dot(y, y));
}

const random = seeded(5);
const noise = (count: number, base: number, spread: number): number[] =>
  Array.from({ length: count }, () => base + spread * (random() - 0.5));
const moved = (logs: readonly number[], by: number): number[] => logs.map((x) => x + by * (random() - 0.5));

test('of old log-probabilities near −34 and rollout ones near 0 is 0.4364', async () => {
  const found = await correlationOf([-34, -35, -36, -34.5, -37], [-0.5, -0.1, -1, -0.3, -0.9]);
  expect(found).toBeCloseToReference(0.4364, { abs: 5e-5 });
});

describe('is 0.4364 wherever the same log-probabilities are shifted to', () => {
  // Sides from e^-0.1 to e^-287 on every backend; float64 reaches e^-570.
  const shifts = [
    0,
    -34,
    -60,
    -97,
    -99,
    -100,
    -134,
    -180,
    -250,
    ...(backend === 'webgpu' ? [] : [-400, -530]),
  ];
  const [old, rollout] = [
    [-34, -35, -36, -34.5, -37],
    [-0.5, -0.1, -1, -0.3, -0.9],
  ] as const;
  test.each(shifts)('%f', async (shift) => {
    const moved = (logs: readonly number[], by: number): number[] => logs.map((log) => log + by);
    const found = await Promise.all([
      correlationOf(moved(old, shift), rollout),
      correlationOf(old, moved(rollout, shift)),
      correlationOf(moved(old, shift), moved(rollout, shift)),
      correlationOf(rollout, moved(old, shift)),
    ]);
    // Float32 rounds log-probabilities near −600 to 6e-5.
    expect(found).toBeCloseToReference([0.4364, 0.4364, 0.4364, 0.4364], { abs: 1e-4 });
  });
});

test('of densities up to e^20', async () => {
  const [old, rollout] = [noise(40, 18, 3), noise(40, 10, 3)];
  expect(
    await correlationOf(
      old,
      old.map((x) => x - 5),
    ),
  ).toBeCloseToReference(1, CLOSE);
  expect(await correlationOf(old, rollout)).toBeCloseToReference(expected(old, rollout), CLOSE);
});

test('of densities up to e^280 where backends compute in float64, and NaN on webgpu', async () => {
  const [old, rollout] = [noise(40, 278, 3), noise(40, 270, 3)];
  const found = await correlationOf(old, rollout);
  if (backend === 'webgpu') expect(found).toBeNaN();
  else expect(found).toBeCloseToReference(expected(old, rollout), CLOSE);
});

test('is NaN where probabilities have left the range of the backend, and never a number', async () => {
  const [low, rollout] = [
    [-734, -735, -736, -734.5, -737],
    [-0.5, -0.1, -1, -0.3, -0.9],
  ] as const;
  expect(await correlationOf(low, rollout)).toBeNaN();
  expect(await correlationOf(low, low)).toBeNaN();
});

describe('is that of the probabilities', () => {
  const near = noise(40, -0.5, 0.9);
  const tiny = noise(40, -11.5, 2);
  const cases: readonly (readonly [string, readonly number[], readonly number[]])[] = [
    ['of ordinary size', near, moved(near, 0.05)],
    ['about 1e-5 on both sides', tiny, moved(tiny, 0.1)],
    ['about 1e-5 on one side', tiny, near],
    ['about 1e-15', noise(40, -34, 3), near],
    ['about 1e-15 on both sides', ...pair(-34)],
    ['about e^-60', noise(40, -60, 3), near],
    ['about e^-120', noise(40, -120, 3), near],
    ['about e^-120 on both sides', ...pair(-120)],
    ['about e^-200', noise(40, -200, 3), near],
    ['about e^-136 on both sides', ...pair(-136)],
    ['about e^-200 on both sides', ...pair(-200)],
    ['about e^-280 on both sides', ...pair(-280)],
    ['about e^-120 and e^-250', noise(40, -120, 3), noise(40, -250, 3)],
    ['unrelated, of two small sizes', noise(40, -20, 2), noise(40, -60, 2)],
    ['mostly 1e-5, and one near 1', [...tiny, -0.01], [...moved(tiny, 0.1), -0.02]],
    ['proportional', tiny, tiny.map((x) => x - 10)],
    ['opposed', [-1, -2, -30], [-30, -29, -1]],
  ];
  test.each(cases)('%s', async (what, old, rollout) => {
    expect(await correlationOf(old, rollout), what).toBeCloseToReference(expected(old, rollout), CLOSE);
  });

  test('near 1 on both sides: 1 − p of 1e-6', async () => {
    const old = noise(60, -2e-6, 2e-6);
    const rollout = moved(old, 1e-7);
    expect(await correlationOf(old, rollout)).toBeCloseToReference(expected(old, rollout), CLOSE);
  });

  test.each([
    ['near 1 on one side, about 1e-5 on the other', noise(40, -1e-3, 1e-3), tiny],
    ['near 1 on one side, about e^-40 on the other', noise(40, -3e-6, 4e-6), noise(40, -41, 3)],
    ['near 1 on one side, ordinary on the other', near, noise(40, -1e-4, 1e-4)],
    ['1 − p of 1e-6 and of 1e-2', noise(40, -3e-6, 4e-6), noise(40, -2e-2, 2e-2)],
    ['1 − p of 1e-3 and about e^-120', noise(40, -2e-3, 2e-3), noise(40, -120, 3)],
    ['1 − p of 1e-3 and about e^-220', noise(40, -2e-3, 2e-3), noise(40, -220, 3)],
  ])('%s', async (what, old, rollout) => {
    for (const [a, b] of [
      [old, rollout],
      [rollout, old],
    ] as const) {
      expect(await correlationOf(a, b), what).toBeCloseToReference(expected(a, b), CLOSE);
    }
  });

  function pair(base: number): [number[], number[]] {
    const old = noise(40, base, 3);
    return [old, moved(old, 0.2)];
  }
});

test('of one policy is exactly 1, at any size', async () => {
  for (const base of [-1e-5, -1, -12, -34, -100]) {
    const logs = noise(17, base, Math.abs(base) / 2);
    expect(await correlationOf(logs, logs), String(base)).toBe(1);
  }
});

test('is NaN where one side does not vary but for float32 rounding, and where there is a NaN', async () => {
  const vary = [-1, -2, -3];
  const constants = [
    [-1.2, -1.2, -1.2],
    [-34, -34, -34],
    [-1.2, -1.2000001, -1.2],
    [-Infinity, -Infinity, -Infinity],
  ];
  for (const constant of constants) expect(await correlationOf(constant, vary), String(constant)).toBeNaN();
  expect(await correlationOf([-1, NaN, -2], vary)).toBeNaN();
});

test('of log-probabilities that are −Infinity in part', async () => {
  const found = await correlationOf([-Infinity, -1, -2, -0.5], [-3, -1, -2, -0.6]);
  const p = [0, Math.exp(-1), Math.exp(-2), Math.exp(-0.5)];
  const logs = p.map((x) => (x === 0 ? -700 : Math.log(x)));
  expect(found).toBeCloseToReference(expected(logs, [-3, -1, -2, -0.6]), CLOSE);
});

test('of parts that are merged is that of the whole, whatever their sizes', async () => {
  const [old, rollout] = [
    [...noise(20, -34, 3), ...noise(20, -30, 3)],
    [...noise(20, -0.5, 0.5), ...noise(20, -9, 2)],
  ] as const;
  const part = async (from: number, to: number): Promise<StepState> => {
    const tensors = tensorsOf(old.slice(from, to), rollout.slice(from, to));
    const computing = computeStepState(batchFromVerl(tensors), { families: ['debug'] });
    tf.dispose(tensors);
    return StepState.fromBytes((await computing).toBytes());
  };
  const merged = StepState.merge([await part(0, 20), await part(20, 40)]).metrics();
  expect(merged[KEY], backend).toBeCloseToReference(expected(old, rollout), CLOSE);
});
