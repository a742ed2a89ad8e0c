/** Majorities that are drawn because their exact chances would take seconds: when, how well, and that the report says so. */
import { describe, expect, test } from 'vitest';

import { type ValidationReport, processValidationMetrics } from '../../src/metrics/index.js';
import { drawnChancesToWin } from '../../src/metrics/validation/drawing.js';
import { Ballots, exactEstimator } from '../../src/metrics/validation/estimators.js';
import { CountChances, type VoteGroup, chancesToWin } from '../../src/metrics/validation/majority.js';

describe('majorities of many answers', () => {
  // 1024 samples with some 200 answers, about as many votes for each.
  const answers = Array.from({ length: 1024 }, (_, i) => `answer ${(i * i * 7 + i * 13) % 211}`);
  const votes = answers.map((answer, i) => ({ answer, value: i % 3 }));
  const reportOf = (samples: typeof votes, options = {}): ValidationReport =>
    processValidationMetrics(
      samples.map(() => 'math'),
      samples.map(() => 'p'),
      { acc: samples.map(({ value }) => value), pred: samples.map(({ answer }) => answer) },
      options,
    );
  const inOrder = reportOf(votes);
  const key = (draws: number): string => `val-${draws === 1024 ? 'core' : 'aux'}/math/acc/maj@${draws}/mean`;

  test('are exact while that takes little, drawn beyond, and the report says which', () => {
    const { metrics, drawn } = inOrder;
    expect(Object.keys(drawn)).toContain(key(1024));
    expect(drawn[key(1024)]).toBe(1);
    expect(Object.keys(drawn)).not.toContain(key(64));
    expect(Object.keys(drawn).filter((name) => !name.includes('/maj@'))).toEqual([]);
    // Each of 1000 draws has a value in [0, 2], so the error of their mean is about 0.03.
    const bootstrap = reportOf(votes, { estimator: 'bootstrap' });
    expect(Math.abs(metrics[key(1024)]! - bootstrap.metrics[key(1024)]!)).toBeLessThan(0.2);
    expect(bootstrap.drawn[key(64)]).toBe(1);
    expect(bootstrap.drawn['val-core/math/acc/best@1024/mean']).toBe(1);
    expect(bootstrap.drawn['val-core/math/acc/mean@1024']).toBeUndefined();
  });

  test('do not depend on the order of samples, and follow the seed', () => {
    const { metrics } = inOrder;
    expect(reportOf(votes.toReversed()).metrics[key(1024)]).toBeCloseTo(metrics[key(1024)]!, 12);
    expect(reportOf(votes, { seed: 7 }).metrics[key(1024)]).not.toBe(metrics[key(1024)]);
  });

  test('share what a call may take: of very many prompts they are drawn', () => {
    const ballots = new Ballots(Int32Array.from({ length: 64 }, (_, i) => (i * i) % 23));
    const values = Float64Array.from({ length: 64 }, (_, i) => i % 3);
    const drawnAmong = (prompts: number): string[] =>
      exactEstimator({ replacement: true, nBootstrap: 10, seed: 1 }, prompts)(values, ballots).map(
        ({ drawn }) => drawn,
      );
    expect(new Set(drawnAmong(1))).toEqual(new Set(['none']));
    expect(drawnAmong(2 ** 20).at(-1)).toBe('majority');
  });

  test('that are drawn cost no exact work: 1024 samples with 300 answers', () => {
    const groups = new Ballots(
      Int32Array.from({ length: 1024 }, (_, i) => (i * i * 7 + i * 13) % 307),
    ).groups();
    const budget = { products: 2 ** 24 };
    expect(chancesToWin(groups, 128, new CountChances(true), budget)).toBeUndefined();
    // Only estimating was charged, which is a hundredth of what the chances take.
    expect(budget.products).toBeGreaterThan(2 ** 24 - 2 ** 18);
    expect(chancesToWin(groups, 64, new CountChances(true), budget)).toBeDefined();
  });

  test('are exact wherever what is left suffices, also above a draw that is drawn', () => {
    const groups: VoteGroup[] = [
      { votes: 2, labels: 124 },
      { votes: 1, labels: 776 },
    ];
    const budget = { products: 2 ** 26 };
    expect(chancesToWin(groups, 512, new CountChances(false), budget)).toBeUndefined();
    // Of all samples the votes are known, so that few answers can win.
    const chances = chancesToWin(groups, 1024, new CountChances(false), budget)!;
    expect(chances[0]! * 124).toBeCloseTo(1, 12);
  });

  test('of few answers are never drawn', () => {
    const few = votes.slice(0, 128).map(({ value }, i) => ({ answer: String(i % 4), value }));
    expect(reportOf(few).drawn).toEqual({});
  });

  test.each([true, false])(
    'are drawn with the chances of the exact ones (replacement: %s)',
    (replacement) => {
      const groups: VoteGroup[] = [
        { votes: 9, labels: 1 },
        { votes: 6, labels: 2 },
        { votes: 2, labels: 5 },
        { votes: 1, labels: 9 },
      ];
      const nBootstrap = 20_000;
      for (const n of [2, 8, 32]) {
        const exact = chancesToWin(groups, n, new CountChances(replacement))!;
        const drawn = drawnChancesToWin(groups, n, { replacement, nBootstrap, seed: 42 });
        for (const [g, { labels }] of groups.entries()) {
          const chance = exact[g]! * labels;
          // Five standard errors of a share of that many draws.
          const slack = 5 * Math.sqrt((chance * (1 - chance)) / nBootstrap) + 1e-12;
          expect(Math.abs(drawn[g]! * labels - chance), `${n} draws, group ${g}`).toBeLessThanOrEqual(slack);
        }
      }
    },
  );
});
