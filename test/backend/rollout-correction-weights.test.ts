/** Weights of a rollout correction beside NaN and rejected tokens, and normalised. */
import { describe, expect, test } from 'vitest';

import {
  type RolloutCorrectionOptions,
  rejectionNames,
  semanticsNames,
  weightLevels,
} from '../../src/metrics/index.js';
import { testBackend } from '../support/backend.js';
import { seeded } from '../support/random.js';
import { type Row, T, correct, rows, sum } from '../support/rollout-corrections.js';

await testBackend();

describe('a NaN inside the mask', () => {
  const spoilt = rows().map((row, i) => (i === 0 ? { ...row, rollout: row.rollout.map(() => NaN) } : row));

  test('shows in the weights of its tokens, and nowhere else', async () => {
    const clean = await correct(rows(), { rolloutIs: 'token' });
    const { weights, metrics } = await correct(spoilt, { rolloutIs: 'token' });
    expect(weights![0]).toEqual(rows()[0]!.mask.map((m) => (m === 1 ? NaN : 0)));
    expect(weights!.slice(1)).toEqual(clean.weights!.slice(1));
    expect(metrics['rollout_corr/rollout_is_mean']).toBeNaN();
    expect(metrics['rollout_corr/training_ppl']).not.toBeNaN();
  });

  test('is outside of every range of weights, and rejected by every criterion', async () => {
    const { weights } = await correct(spoilt, { rolloutIs: 'token', rolloutIsThreshold: '1e-9_1e9' });
    expect(weights![0]).toEqual(Array(T).fill(0));
    const share = sum(rows()[0]!.mask) / sum(rows().flatMap(({ mask }) => mask));
    for (const rolloutRs of rejectionNames) {
      const { mask, metrics } = await correct(spoilt, { rolloutRs, rolloutRsThreshold: '1e9' });
      expect(mask[0], rolloutRs).toEqual(Array(T).fill(0));
      expect(mask.slice(1), rolloutRs).toEqual(
        rows()
          .slice(1)
          .map((row) => row.mask),
      );
      expect(metrics['rollout_corr/rollout_rs_masked_fraction'], rolloutRs).toBeCloseTo(share, 12);
      expect(metrics[`rollout_corr/rollout_rs_${rolloutRs}_fraction_high`], rolloutRs).toBeNaN();
    }
  });

  test('leaves the mean of the others 1, and is counted', async () => {
    for (const rolloutIs of ['token', 'sequence'] as const) {
      const options = { rolloutIs, batchNormalize: true, rolloutIsThreshold: 1e6 } as const;
      const { weights, metrics } = await correct(spoilt, options);
      const others = spoilt.flatMap(({ mask }, i) => {
        const own = weights![i]!.filter((_, t) => mask[t] === 1);
        return i === 0 ? [] : rolloutIs === 'token' ? own : own.slice(0, 1);
      });
      expect(sum(others) / others.length).toBeCloseToReference(1, { rel: 1e-6, abs: 0 });
      expect(metrics['rollout_corr/rollout_is_nonfinite']).toBe(
        rolloutIs === 'token' ? sum(spoilt[0]!.mask) : 1,
      );
      const clean = await correct(rows(), options);
      expect(clean.metrics).not.toHaveProperty('rollout_corr/rollout_is_nonfinite');
    }
  });

  test('that is rejected has weight 0, so that its loss is 0, by every criterion and level', async () => {
    for (const rolloutIs of ['token', 'sequence'] as const) {
      for (const rolloutRs of rejectionNames) {
        const { weights, mask } = await correct(spoilt, { rolloutIs, rolloutRs, rolloutRsThreshold: '1e9' });
        expect(mask[0], rolloutRs).toEqual(Array(T).fill(0));
        expect(weights![0], rolloutRs).toEqual(Array(T).fill(0));
        expect(weights!.flat().filter(Number.isNaN)).toEqual([]);
      }
    }
  });
});

describe('one NaN among weights of e^0.2', () => {
  const batch: Row[] = [{ old: [-0.8, -0.8, -0.8, -0.8], rollout: [-1, NaN, -1, -1], mask: [1, 1, 1, 0] }];
  const layout = { width: 4 };

  test.each(['recommended', 'verl-2026-08', 'verl-2026-01'] as const)('%s', async (semantics) => {
    const options = { rolloutIs: 'token', batchNormalize: true, semantics } as const;
    const { weights, metrics } = await correct(batch, options, layout);
    const expected = semantics === 'recommended' ? 1 : Math.exp(0.2);
    expect(weights![0]![0]).toBeCloseToReference(expected, { rel: 1e-6, abs: 0 });
    expect(weights![0]).toEqual([weights![0]![0], NaN, weights![0]![0], 0]);
    expect(metrics['rollout_corr/rollout_is_nonfinite']).toBe(1);
    expect(metrics['rollout_corr/rollout_is_batch_norm_factor']).toBeCloseToReference(
      semantics === 'recommended' ? Math.exp(0.2) : 1,
      { rel: 1e-6, abs: 0 },
    );
  });

  test('the loss, times weight, times mask, is finite where it is rejected', async () => {
    for (const rolloutRs of ['token_k1', 'token_k2', 'token_k3']) {
      const options = {
        rolloutIs: 'token',
        batchNormalize: true,
        rolloutRs,
        rolloutRsThreshold: '3',
      } as const;
      const { weights, mask } = await correct(batch, options, layout);
      expect(mask[0]).toEqual([1, 0, 1, 0]);
      expect(weights![0]).toBeCloseToReference([1, 0, 1, 0], { rel: 1e-6, abs: 0 });
    }
  });
});

describe('normalised weights have mean 1 over the tokens that are', () => {
  const kept = async (options: RolloutCorrectionOptions): Promise<number> => {
    const { weights, mask } = await correct(rows(), { ...options, batchNormalize: true });
    const applied = weights!.flatMap((row, i) => row.filter((_, t) => mask[i]![t] === 1));
    expect(applied.length).toBeLessThan(sum(rows().flatMap((row) => row.mask)));
    return sum(applied) / applied.length;
  };

  test.each(['token_k1', 'token_k2,token_k3', 'seq_mean_k2', 'token_k3,seq_max_k3'])(
    'kept by %s',
    async (rolloutRs) => {
      const rolloutRsThreshold = rolloutRs === 'token_k1' ? '0.5_2' : '0.5';
      const mean = await kept({ rolloutIs: 'token', rolloutRs, rolloutRsThreshold });
      expect(mean).toBeCloseToReference(1, { rel: 1e-6, abs: 0 });
    },
  );
});

test('weights that are tiny are normalised as all others', async () => {
  const tiny = [{ old: [-19, -19], rollout: [0, 0], mask: [1, 1] }];
  const { weights } = await correct(tiny, { rolloutIs: 'token', batchNormalize: true }, { width: 2 });
  expect(weights![0]).toBeCloseToReference([1, 1], { rel: 1e-6, abs: 0 });
});

describe.each(semanticsNames)('%s: random rows with NaN and infinite log-probabilities', (semantics) => {
  const random = seeded(semanticsNames.indexOf(semantics) + 5);
  const pick = <E>(list: readonly E[]): E => list[Math.floor(random() * list.length)]!;
  const logProb = (): number =>
    random() < 0.12 ? pick([NaN, -Infinity, -90]) : Math.fround(-0.05 - 2 * random());
  const batch = (): Row[] =>
    Array.from({ length: 4 }, () => ({
      old: Array.from({ length: T }, logProb),
      rollout: Array.from({ length: T }, logProb),
      mask: Array.from({ length: T }, () => Number(random() < 0.7)),
    }));
  const isKept = (mask: readonly (readonly number[])[], i: number, t: number): boolean => mask[i]![t] === 1;

  test.each(weightLevels)('a %s weight is finite wherever the mask is 0', async (rolloutIs) => {
    for (const rolloutRs of [...rejectionNames, 'token_k1,seq_mean_k2', 'token_k2,token_k3,seq_sum_k1']) {
      const given = batch();
      const options: RolloutCorrectionOptions = {
        ...{ rolloutIs, rolloutRs, semantics, batchNormalize: random() < 0.5 },
        rolloutIsThreshold: pick([2, '0.3_3', 1e6]),
        rolloutRsThreshold: pick(['2', '1e9']),
      };
      const { weights, mask } = await correct(given, options);
      const tokens = given.flatMap((_row, i) => Array.from({ length: T }, (_x, t) => [i, t] as const));
      for (const [i, t] of tokens) {
        const weight = weights![i]![t]!;
        const product = 3 * weight * mask[i]![t]!;
        const what = `${JSON.stringify(options)} [${i}, ${t}]`;
        if (!isKept(mask, i, t)) expect(product, what).toBe(0);
        if (given[i]!.mask[t] === 0) expect(weight, what).toBe(0);
        // Nothing that is kept is unknown by itself; a weight of its row can be.
        if (isKept(mask, i, t)) expect(given[i]!.old[t]! - given[i]!.rollout[t]!, what).not.toBeNaN();
        if (rolloutIs === 'token' || !rolloutRs.startsWith('token')) expect(weight, what).not.toBeNaN();
      }
    }
  });

  test.runIf(semantics === 'recommended').each(weightLevels)(
    'normalised %s weights that are kept and finite have mean 1, whatever is beside them',
    async (rolloutIs) => {
      for (const rolloutIsThreshold of [2, '0.3_3', 1e6]) {
        for (const rolloutRs of [undefined, 'token_k1', 'seq_max_k3', 'token_k2,seq_mean_k1']) {
          const given = batch();
          const asked: RolloutCorrectionOptions = {
            ...{ rolloutIs, rolloutIsThreshold, rolloutRs, rolloutRsThreshold: '9', batchNormalize: true },
          };
          const { weights, mask, metrics } = await correct(given, asked);
          const counted = weights!.flatMap((row, i) => {
            const own = row.filter((weight, t) => isKept(mask, i, t) && Number.isFinite(weight));
            return rolloutIs === 'token' ? own : own.slice(0, 1);
          });
          const mean = sum(counted) / counted.length;
          const what = `${JSON.stringify(asked)} of ${counted.length}`;
          const factor = metrics['rollout_corr/rollout_is_batch_norm_factor']!;
          if (counted.length === 0) expect(factor, what).toBeNaN();
          else if (counted.some((weight) => weight > 0)) {
            expect(mean, what).toBeCloseToReference(1, { rel: 1e-5, abs: 0 });
            expect(factor, what).toBeGreaterThan(0);
          } else expect([mean, factor], what).toEqual([0, 1]);
        }
      }
    },
  );
});

test('weights that are all zeroed stay 0: there is nothing to divide by', async () => {
  const far = [{ old: [-1, -1], rollout: [-9, -9], mask: [1, 1] }];
  for (const rolloutIs of weightLevels) {
    const options = { rolloutIs, rolloutIsThreshold: '0.5_2', batchNormalize: true } as const;
    const { weights, metrics } = await correct(far, options, { width: 2 });
    expect(weights![0]).toEqual([0, 0]);
    expect(metrics['rollout_corr/rollout_is_batch_norm_factor']).toBe(1);
  }
});

test('nothing but NaN has no mean: the factor is NaN, the weights show it, and all are counted', async () => {
  const lost = [{ old: [-1, -1], rollout: [NaN, NaN], mask: [1, 1] }];
  for (const rolloutIs of weightLevels) {
    const { weights, metrics } = await correct(lost, { rolloutIs, batchNormalize: true }, { width: 2 });
    expect(weights![0]).toEqual([NaN, NaN]);
    expect(metrics['rollout_corr/rollout_is_batch_norm_factor']).toBeNaN();
    expect(metrics['rollout_corr/rollout_is_nonfinite']).toBe(rolloutIs === 'token' ? 2 : 1);
  }
});
