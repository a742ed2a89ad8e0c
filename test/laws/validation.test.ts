/**
 * The laws of validation metrics: exact numbers are those of listing all draws, whatever ties; order does not matter;
 * ragged prompts count where they can.
 *
 * Bounds: a listed moment is a sum of at most 5^5 terms of relative error 2^-53, so it is off by at most 4e-13 of the
 * largest value; an exact one has far fewer. Deviations are compared by their squares, which have that error.
 */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { type ValidationReport, processValidationMetrics } from '../../src/metrics/index.js';
import { CountChances, type VoteGroup, chancesToWin } from '../../src/metrics/validation/majority.js';

/** Without a budget there are always chances. */
const exactChances = (groups: readonly VoteGroup[], n: number, counts: CountChances): Float64Array =>
  chancesToWin(groups, n, counts)!;

interface Sample {
  readonly value: number;
  readonly label: string;
}

const sample = fc.record({
  // Few values and labels, so that most cases have ties.
  value: fc.oneof(fc.constantFrom(0, 1, 0.5), fc.double({ min: -100, max: 100, noNaN: true })),
  label: fc.constantFrom('A', 'B', 'C', 'D'),
});
const prompt = fc.array(sample, { minLength: 1, maxLength: 5 });

/** All draws of n of the samples, in the order in which they are drawn. */
function draws(samples: readonly Sample[], n: number, replacement: boolean): Sample[][] {
  if (n === 0) return [[]];
  return samples.flatMap((first, i) =>
    draws(replacement ? samples : samples.toSpliced(i, 1), n - 1, replacement).map((rest) => [
      first,
      ...rest,
    ]),
  );
}

/** As verl: most frequent label, of those that tie the one seen first, and the value that it was first seen with. */
function majority(draw: readonly Sample[]): number {
  const count = (label: string): number => draw.filter((other) => other.label === label).length;
  const most = Math.max(...draw.map(({ label }) => count(label)));
  return draw.find(({ label }) => count(label) === most)!.value;
}

function moments(values: readonly number[]): { mean: number; std: number } {
  const mean = values.reduce((sum, x) => sum + x, 0) / values.length;
  const variance = values.reduce((sum, x) => sum + (x - mean) ** 2, 0) / values.length;
  return { mean, std: Math.sqrt(variance) };
}

/** What a report must say about one prompt, by listing all draws. */
function enumerated(samples: readonly Sample[], replacement: boolean): Record<string, number> {
  const n = samples.length;
  const all = moments(samples.map(({ value }) => value));
  const found: Record<string, number> = { [`mean@${n}`]: all.mean };
  if (n > 1) found[`std@${n}`] = all.std;
  for (const k of new Set([2, 4, n].filter((size) => size <= n && size > 1))) {
    const listed = draws(samples, k, replacement);
    const of = (reduce: (draw: readonly Sample[]) => number): Record<'mean' | 'std', number> =>
      moments(listed.map(reduce));
    const values = (draw: readonly Sample[]): number[] => draw.map(({ value }) => value);
    for (const [name, { mean, std }] of Object.entries({
      best: of((draw) => Math.max(...values(draw))),
      worst: of((draw) => Math.min(...values(draw))),
      maj: of(majority),
    })) {
      found[`${name}@${k}/mean`] = mean;
      found[`${name}@${k}/std`] = std;
    }
  }
  return found;
}

function report(prompts: readonly (readonly Sample[])[], replacement = true): ValidationReport {
  const samples = prompts.flatMap((of, uid) => of.map((one) => ({ ...one, uid: `p${uid}` })));
  return reportOf(samples, replacement);
}

function reportOf(samples: readonly (Sample & { uid: string })[], replacement = true): ValidationReport {
  return processValidationMetrics(
    samples.map(() => 's'),
    samples.map(({ uid }) => uid),
    { score: samples.map(({ value }) => value), pred: samples.map(({ label }) => label) },
    { replacement },
  );
}

/** The metrics by their names alone, without pass@k. */
function named(numbers: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(
    Object.entries(numbers)
      .map(([key, value]) => [key.replace('val-aux/s/score/', ''), value] as const)
      .filter(([name]) => !name.startsWith('pass')),
  );
}

function expectSame(actual: Record<string, number>, expected: Record<string, number>, scale: number): void {
  expect(Object.keys(actual).sort()).toEqual(Object.keys(expected).sort());
  for (const [name, value] of Object.entries(expected)) {
    const found = actual[name]!;
    if (name.includes('std'))
      expect(found ** 2, name).toBeCloseToReference(value ** 2, { abs: 1e-12 * scale ** 2 });
    else expect(found, name).toBeCloseToReference(value, { abs: 1e-12 * scale });
  }
}

const scaleOf = (samples: readonly Sample[]): number =>
  1 + Math.max(...samples.map(({ value }) => Math.abs(value)));

describe('exact numbers', () => {
  test.each([true, false])('are those of all draws, with replacement: %s', (replacement) => {
    fc.assert(
      fc.property(prompt, (samples) => {
        const { metrics } = report([samples], replacement);
        expectSame(named(metrics), enumerated(samples, replacement), scaleOf(samples));
      }),
      { numRuns: 60 },
    );
  });

  test('of equal values have no deviation at all', () => {
    fc.assert(
      fc.property(
        // Not −0, which no sum keeps.
        fc.double({ noNaN: true, min: -1e6, max: 1e6 }).map((x) => x + 0),
        fc.integer({ min: 2, max: 40 }),
        (value, n) => {
          const { metrics } = report([Array.from({ length: n }, () => ({ value, label: 'A' }))]);
          for (const [name, found] of Object.entries(named(metrics))) {
            if (!/^(std|best|worst)/.test(name)) continue;
            expect(found, name).toBe(name.includes('std') ? 0 : value);
          }
        },
      ),
    );
  });
});

describe('chances to win a vote', () => {
  const votes = fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 1, maxLength: 4 });

  function groupsOf(totals: readonly number[]): VoteGroup[] {
    const distinct = [...new Set(totals)].sort((a, b) => b - a);
    return distinct.map((n) => ({ votes: n, labels: totals.filter((other) => other === n).length }));
  }

  test.each([true, false])('are those of all counts, with replacement: %s', (replacement) => {
    fc.assert(
      fc.property(votes, fc.integer({ min: 1, max: 12 }), (totals, n) => {
        const samples = totals.reduce((sum, x) => sum + x, 0);
        fc.pre(replacement || n <= samples);
        const chances = exactChances(groupsOf(totals), n, new CountChances(replacement));
        const groups = groupsOf(totals);
        const listed = listedChances(totals, n, replacement);
        totals.forEach((total, k) => {
          const found = chances[groups.findIndex((group) => group.votes === total)]!;
          expect(found).toBeCloseToReference(listed[k]!, { abs: 1e-13 });
        });
      }),
    );
  });

  /** By listing all ways in which n draws can fall on the labels. */
  function listedChances(totals: readonly number[], n: number, replacement: boolean): number[] {
    const samples = totals.reduce((sum, x) => sum + x, 0);
    const choose = (a: number, b: number): number => (b === 0 ? 1 : (choose(a - 1, b - 1) * a) / b);
    const chances = totals.map(() => 0);
    const list = (counts: readonly number[], left: number, ways: number): void => {
      const label = counts.length;
      if (label === totals.length) {
        if (left > 0) return;
        const most = Math.max(...counts);
        const tied = counts.filter((count) => count === most).length;
        counts.forEach((count, k) => {
          if (count === most) chances[k]! += ways / tied;
        });
        return;
      }
      const total = totals[label]!;
      for (let i = 0; i <= Math.min(left, replacement ? left : total); i++) {
        const part = replacement ? choose(left, i) * (total / samples) ** i : choose(total, i);
        list([...counts, i], left - i, ways * part);
      }
    };
    list([], n, 1);
    const all = replacement ? 1 : choose(samples, n);
    return chances.map((chance) => chance / all);
  }

  test.each([true, false])(
    'are those of all counts where many labels tie, with replacement: %s',
    (replacement) => {
      for (const [totals, n] of [
        [[3, ...Array<number>(14).fill(1)], 6],
        [[2, 2, ...Array<number>(10).fill(1)], 7],
        [[2, ...Array<number>(30).fill(1)], 4],
      ] as const) {
        const groups = groupsOf(totals);
        const chances = exactChances(groups, n, new CountChances(replacement));
        const listed = listedChances(totals, n, replacement);
        totals.forEach((total, k) => {
          const found = chances[groups.findIndex((group) => group.votes === total)]!;
          expect(found).toBeCloseToReference(listed[k]!, { abs: 1e-13 });
        });
      }
    },
  );

  /** The chance of the first label, with replacement, label by label: [ties][draws] of the others, 1 / (ties + 1) each. */
  function chanceByTies(totals: readonly number[], n: number): number {
    const samples = totals.reduce((sum, x) => sum + x, 0);
    const [mine, ...others] = totals.map((total) => {
      const parts = [1];
      for (let i = 1; i <= n; i++) parts.push((parts[i - 1]! * total) / samples / i);
      return parts;
    });
    let chance = 0;
    for (let m = 1; m <= n; m++) {
      const most = Math.floor((n - m) / m);
      let ways = Array.from({ length: most + 1 }, () => new Float64Array(n - m + 1));
      ways[0]![0] = 1;
      for (const parts of others) {
        const next = ways.map((row) => row.map(() => 0));
        ways.forEach((row, ties) => {
          row.forEach((way, used) => {
            for (let i = 0; way > 0 && i <= Math.min(m, n - m - used); i++) {
              const to = i === m ? ties + 1 : ties;
              if (to <= most) next[to]![used + i]! += way * parts[i]!;
            }
          });
        });
        ways = next;
      }
      ways.forEach((row, ties) => (chance += (mine![m]! * row[n - m]!) / (ties + 1)));
    }
    for (let i = 2; i <= n; i++) chance *= i;
    return chance;
  }

  test.each([
    ['a pair among singles', [2, ...Array<number>(70).fill(1)]],
    ['five among pairs', [5, ...Array<number>(30).fill(2), 1, 1, 1]],
    ['six that are close', [14, 13, 13, 13, 12, 12]],
    ['one far ahead', [60, 4, 4, 3, 3]],
  ])('of %s are those by ties, where what is negligible is left out', (_, totals) => {
    const n = totals.reduce((sum, x) => sum + x, 0);
    const [first] = exactChances(groupsOf(totals), n, new CountChances(true));
    expect(first).toBeCloseToReference(chanceByTies(totals, n), { abs: 1e-13 });
  });

  test.each([true, false])('add up to 1 for many votes, with replacement: %s', (replacement) => {
    // Enough votes, and enough labels with equally many, for everything that is left out as negligible.
    const many = fc
      .tuple(
        fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 1, maxLength: 8 }),
        fc.array(fc.constantFrom(1, 2, 5), { maxLength: 60 }),
      )
      .map(([some, others]) => [...some, ...others]);
    fc.assert(
      fc.property(many, fc.double({ min: 0, max: 1, noNaN: true }), (totals, share) => {
        const samples = totals.reduce((sum, x) => sum + x, 0);
        const groups = groupsOf(totals);
        const chances = exactChances(
          groups,
          Math.max(1, Math.ceil(share * samples)),
          new CountChances(replacement),
        );
        const total = groups.reduce((sum, { labels }, g) => sum + labels * chances[g]!, 0);
        expect(total).toBeCloseToReference(1, { abs: 1e-12 });
        expect(Math.min(...chances)).toBeGreaterThanOrEqual(0);
        // More votes, better chances.
        for (let g = 1; g < groups.length; g++) {
          expect(chances[g]!).toBeLessThanOrEqual(chances[g - 1]! + 1e-13);
        }
      }),
      { numRuns: 40 },
    );
  });

  test('of two labels are a binomial tail, also for a thousand draws', () => {
    for (const [a, b] of [
      [513, 511],
      [600, 424],
      [1000, 24],
    ] as const) {
      const [n, p] = [a + b, a / (a + b)];
      const log = (k: number): number =>
        Array.from({ length: k }, (_, i) => Math.log(i + 1)).reduce((s, x) => s + x, 0);
      const term = (k: number): number =>
        Math.exp(log(n) - log(k) - log(n - k) + k * Math.log(p) + (n - k) * Math.log1p(-p));
      let tail = term(n / 2) / 2;
      for (let k = n / 2 + 1; k <= n; k++) tail += term(k);
      const [wins] = exactChances(groupsOf([a, b]), n, new CountChances(true));
      expect(wins).toBeCloseToReference(tail, { abs: 1e-10 });
    }
  });
});

describe('order', () => {
  const tagged = fc
    .array(prompt, { minLength: 1, maxLength: 4 })
    .map((prompts) => prompts.flatMap((of, uid) => of.map((one) => ({ ...one, uid: `p${uid}` }))));

  test('of samples and prompts does not matter', () => {
    const shuffled = tagged.chain((samples) =>
      fc.tuple(
        fc.constant(samples),
        fc.shuffledSubarray(samples, { minLength: samples.length, maxLength: samples.length }),
      ),
    );
    fc.assert(
      fc.property(shuffled, ([samples, others]) => {
        const [a, b] = [reportOf(samples), reportOf(others)];
        expectSame(named(b.metrics), named(a.metrics), scaleOf(samples));
        expect(b.prompts).toEqual(a.prompts);
        expect(b.samples).toEqual(a.samples);
        for (const [key, error] of Object.entries(a.standardErrors)) {
          const found = b.standardErrors[key]!;
          expect(found ** 2, key).toBeCloseToReference(error ** 2, { abs: 1e-12 * scaleOf(samples) ** 2 });
        }
      }),
    );
  });
});

describe('ragged prompts', () => {
  test('give the mean over the prompts that have a metric, its error and their number', () => {
    fc.assert(
      fc.property(fc.array(prompt, { minLength: 1, maxLength: 6 }), (prompts) => {
        const { metrics, standardErrors, prompts: numbers } = report(prompts);
        const parts = prompts.map((samples) => named(report([samples]).metrics));
        const scale = scaleOf(prompts.flat());
        for (const [name, mean] of Object.entries(named(metrics))) {
          const values = parts.flatMap((part) => part[name] ?? []);
          const key = `val-aux/s/score/${name}`;
          const { mean: expected, std } = moments(values);
          expect(mean, name).toBeCloseToReference(expected, { abs: 1e-12 * scale });
          expect(numbers[key], name).toBe(values.length);
          const error = std / Math.sqrt(values.length - 1);
          expect(standardErrors[key]! ** 2, name).toBeCloseToReference(error ** 2, {
            abs: 1e-12 * scale ** 2,
          });
        }
        expect(new Set(Object.keys(named(metrics)))).toEqual(
          new Set(parts.flatMap((part) => Object.keys(part))),
        );
      }),
    );
  });

  test('samples without a value count as if they were not there', () => {
    const holed = fc.array(fc.tuple(sample, fc.constantFrom('kept', null, undefined, 'text')), {
      minLength: 1,
      maxLength: 8,
    });
    fc.assert(
      fc.property(holed, (samples) => {
        const with_ = processValidationMetrics(
          samples.map(() => 's'),
          samples.map(() => 'p'),
          {
            score: samples.map(([{ value }, hole]) => (hole === 'kept' ? value : hole)),
            pred: samples.map(([{ label }]) => label),
          },
        );
        const kept = samples.filter(([, hole]) => hole === 'kept').map(([one]) => one);
        const without = report([kept]);
        expect(with_.metrics).toEqual(without.metrics);
        const { used, missing, notNumeric, nan } = with_.samples['s/score']!;
        expect([used, nan]).toEqual([kept.length, 0]);
        expect(used + missing + notNumeric).toBe(samples.length);
        expect(notNumeric).toBe(samples.filter(([, hole]) => hole === 'text').length);
      }),
    );
  });
});
