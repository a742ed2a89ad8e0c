/**
 * Golden group statistics, statistics over ranks, balance of sequence lengths and of experts, on the backend of this
 * project.
 *
 * verl uses `group_mean_std` for advantages and reports none of it, so groups have no presets and the recommended
 * numbers count.
 */
import * as tf from '@tensorflow/tfjs-core';
import { describe, expect, test } from 'vitest';

import { Moments, collect, mergeRows, momentsTables, emptyRow } from '../../src/kernels/index.js';
import {
  batchFromVerl,
  computeGroupMetrics,
  computeMoeMetrics,
  computeSequenceBalanceMetrics,
  groupMoments,
} from '../../src/metrics/index.js';
import { testBackend } from '../support/backend.js';
import { type GoldenCase, decodeInputs, isRefusal, loadGolden, referenceOf } from '../support/golden.js';
import { expectNoLeaks } from '../support/leaks.js';
import { deviceTensor, goldenTensors } from '../support/tensors.js';

await testBackend();
const { cases } = loadGolden('verl.misc');

const MLFLOW =
  'the alphabet of MLflow is a matter of a writer for it, of which there is none: keys here are those of verl';

/** Cases that no function of the metrics is about, and why. A case that is neither tested nor here fails. */
const OUTSIDE: Readonly<Record<string, string>> = {
  'K1-0': MLFLOW,
  'K1-1': MLFLOW,
  'K1-2': MLFLOW,
  'K1-3': MLFLOW,
};

function casesOf(op: string): GoldenCase[] {
  return cases.filter(({ options }) => options.op === op);
}

/** What a correct engine reports. */
function expectedOf(golden: GoldenCase): Readonly<Record<string, number | readonly number[]>> {
  const reference = referenceOf(golden, 'recommended', 'float64');
  if (reference === undefined || isRefusal(reference)) throw new Error(`${golden.id} has no numbers`);
  return reference;
}

test('the suite has all its cases', () => {
  expect(cases).toHaveLength(21);
  const ops = [
    'seqlen_balance',
    'group_mean_std',
    'rank_mean_max_min_std',
    'rank_masked_mean',
    'moe_load_balance',
  ];
  expect(ops.map((op) => casesOf(op).length)).toEqual([3, 6, 2, 3, 3]);
  const untested = cases.filter(({ options }) => !ops.includes(String(options.op)));
  expect(untested.map(({ id }) => id)).toEqual(Object.keys(OUTSIDE));
});

test.each(casesOf('moe_load_balance'))('golden balance of experts: $id', async (golden) => {
  const metrics = await expectNoLeaks(async () => {
    const { routed_experts, response_mask } = goldenTensors(decodeInputs(golden.inputs));
    const numExperts = golden.options.num_experts as number;
    const pending = computeMoeMetrics(routed_experts!, response_mask!, { numExperts });
    tf.dispose([routed_experts!, response_mask!]);
    return pending;
  });
  const expected = expectedOf(golden);
  expect(Object.keys(metrics).sort()).toEqual(Object.keys(expected).sort());
  for (const [key, value] of Object.entries(expected)) {
    expect(metrics[key], key).toBeCloseToReference(value, { rel: 1e-12, abs: 1e-12 });
  }
});

test.each(casesOf('seqlen_balance'))('golden balance of lengths: $id', async (golden) => {
  const { seqlens, partitions } = golden.inputs as { seqlens: number[]; partitions: number[][] };
  const batch = batchFromVerl({}, { global_token_num: seqlens });
  const metrics = await computeSequenceBalanceMetrics(batch, partitions);
  const expected = Object.entries(expectedOf(golden));
  expect(metrics).toEqual(
    Object.fromEntries(expected.map(([key, value]) => [`global_seqlen/${key}`, value])),
  );
});

describe.each(casesOf('group_mean_std'))('golden groups: $id', (golden) => {
  const { scores, groups } = decodeInputs(golden.inputs) as Record<
    'scores' | 'groups',
    { values: Float32Array }
  >;
  const expected = expectedOf(golden) as Readonly<Record<'mean' | 'std' | 'count', readonly number[]>>;

  test('on the host', () => {
    const byGroup = groupMoments(scores.values, groups.values);
    // A group without rows is not there.
    const at = (group: number): Moments => byGroup.get(group) ?? new Moments(emptyRow);
    const ids = [...expected.count.keys()];
    expect(ids.map((id) => at(id).count)).toEqual(expected.count);
    expect(ids.map((id) => at(id).mean)).toBeCloseToReference(expected.mean, golden.tolerance);
    expect(ids.map((id) => at(id).std())).toBeCloseToReference(expected.std, golden.tolerance);
  });

  test('of a batch', async () => {
    const metrics = await expectNoLeaks(async () => {
      const rewards = deviceTensor({ shape: [scores.values.length, 1], values: scores.values });
      const response_mask = deviceTensor({
        shape: [scores.values.length, 1],
        values: scores.values.map(() => 1),
      });
      const batch = batchFromVerl({
        token_level_rewards: rewards,
        token_level_scores: rewards,
        response_mask,
      });
      const computed = computeGroupMetrics(batch, Array.from(groups.values, String));
      rewards.dispose();
      response_mask.dispose();
      return computed;
    });
    const present = expected.count.filter((count) => count > 0);
    const means = expected.mean.filter((mean) => !Number.isNaN(mean));
    const spreads = expected.std.filter((std) => !Number.isNaN(std));
    expect(metrics).toMatchObject({
      'group/count': present.length,
      'group/size/max': Math.max(...present),
      'group/size/min': Math.min(...present),
      'group/zero_std_ratio': spreads.filter((std) => std === 0).length / spreads.length,
    });
    const average = (xs: readonly number[]): number => xs.reduce((sum, x) => sum + x, 0) / xs.length;
    const close = (key: string, value: number): void => {
      expect(metrics[key], key).toBeCloseToReference(value, golden.tolerance);
    };
    close('group/reward_mean/mean', average(means));
    close('group/reward_mean/max', Math.max(...means));
    close('group/reward_std/mean', average(spreads));
    close('group/reward_std/max', Math.max(...spreads));
    close('group/reward_std/min', Math.min(...spreads));
  });
});

/** The moments of what all ranks hold, each rank reduced on the device and merged afterwards. */
async function overRanks({ inputs }: GoldenCase): Promise<Moments> {
  const { ranks, masks } = inputs as { ranks: number[][]; masks?: number[][] };
  const pending = ranks.map((values, rank) => {
    const tensor = deviceTensor({ shape: [1, values.length], values });
    const mask = masks && deviceTensor({ shape: [1, values.length], dtype: 'bool', values: masks[rank]! });
    const table = momentsTables({ values: tensor }, mask);
    tensor.dispose();
    mask?.dispose();
    return table;
  });
  const tables = await collect(...pending);
  return new Moments(tables.map(({ values }) => values.total()).reduce(mergeRows, emptyRow));
}

test.each(casesOf('rank_mean_max_min_std'))('golden statistics over ranks: $id', async (golden) => {
  const moments = await overRanks(golden);
  const { mean, max, min, std } = expectedOf(golden) as Record<string, number>;
  const actual = [moments.mean, moments.max, moments.min, moments.std()];
  expect(actual).toBeCloseToReference([mean!, max!, min!, std!], golden.tolerance);
});

test.each(casesOf('rank_masked_mean'))('golden statistics over ranks: $id', async (golden) => {
  const { mean } = await overRanks(golden);
  expect(mean).toBeCloseToReference(expectedOf(golden).value!, golden.tolerance);
});
