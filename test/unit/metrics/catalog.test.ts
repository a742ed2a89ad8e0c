/** The catalogue itself: every key means one thing, and what is misspelled is recognised. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import { ValueError } from '../../../src/errors.js';
import { concerns } from '../../../src/metrics/catalog/differences.js';
import {
  differencesOf,
  explainMetric,
  isInRange,
  metricCatalog,
  placeholdersOf,
} from '../../../src/metrics/catalog/catalog.js';
import { peerDepartures, semanticDifferences, semanticsNames } from '../../../src/metrics/index.js';

/** Keys of an entry, with texts as awkward as callers may choose them. */
function concreteKeys(entry: (typeof metricCatalog)[number]): fc.Arbitrary<string> {
  const names = Object.entries(entry.placeholders ?? {});
  const texts = names.map(([, values]): fc.Arbitrary<string> => {
    if (values === 'number') return fc.nat({ max: 4096 }).map(String);
    if (values === 'text')
      return fc.oneof(fc.constantFrom('a/b', 'best@2', 'x\ny', '', '{n}', 'max'), fc.string());
    return fc.constantFrom(...values);
  });
  return fc.tuple(...texts).map((given) => {
    const values = Object.fromEntries(names.map(([name], i) => [name, given[i]!]));
    return entry.key.replace(/\{(\w+)\}/g, (_, name: string) => values[name]!);
  });
}

describe('a key', () => {
  test('costs no more than what is spelled like keys does, however long it is', () => {
    for (const key of ['/', 'a', 'val-aux/', 'timing_s/'].map((text) => text.repeat(100_000))) {
      expect(() => explainMetric(key)).toThrow(ValueError);
    }
    expect(explainMetric(`timing_s/${'/'.repeat(1000)}`).entry.key).toBe('timing_s/{stage}');
    expect(() => explainMetric(`critic/scor/${'x'.repeat(1000)}`)).toThrow(ValueError);
  });

  test('is in the catalogue once', () => {
    const keys = metricCatalog.map(({ key }) => key);
    expect(keys).toEqual([...new Set(keys)]);
  });

  test('has one entry, whatever stands for its placeholders', () => {
    for (const entry of metricCatalog) {
      fc.assert(
        fc.property(concreteKeys(entry), (key) => {
          const found = metricCatalog.filter((one) => placeholdersOf(one, key) !== undefined);
          expect(found, key).toEqual([entry]);
          expect(explainMetric(key).entry, key).toBe(entry);
        }),
        { numRuns: entry.placeholders === undefined ? 1 : 50 },
      );
    }
  });

  test('has placeholders that its entry describes, and no others', () => {
    for (const { key, placeholders = {} } of metricCatalog) {
      const spelled = Array.from(key.matchAll(/\{(\w+)\}/g), ([, name]) => name!);
      expect(spelled.sort(), key).toEqual(Object.keys(placeholders).sort());
    }
  });

  test('has placeholders that mean the same in every entry', () => {
    const meanings = new Map<string, unknown>();
    for (const [name, values] of metricCatalog.flatMap((entry) => Object.entries(entry.placeholders ?? {}))) {
      expect(values, name).toEqual(meanings.get(name) ?? values);
      meanings.set(name, values);
    }
  });

  test('tells what stands for them', () => {
    const { entry, values } = explainMetric('val-core/openai/gsm8k/acc/best@8/mean');
    expect(entry.key).toBe('val-core/{source}/{variable}/best@{n}/mean');
    expect(values).toEqual({ source: 'openai/gsm8k', variable: 'acc', n: '8' });
    expect(explainMetric('timing_s/{stage}').values).toEqual({ stage: '{stage}' });
    expect(explainMetric('actor/ppo_kl').values).toEqual({});
  });

  test('of a stage has the tokens of that stage', () => {
    expect(explainMetric('timing_per_token_ms/gen').entry.population).toBe('response tokens of all rows');
    expect(explainMetric('timing_per_token_ms/ref').entry.population).toBe(
      'prompt and response tokens of all rows',
    );
    expect(() => explainMetric('timing_per_token_ms/step')).toThrow(ValueError);
  });
});

describe('what is no key is refused', () => {
  test.each([
    ['actor/ppo_lk', 'actor/ppo_kl'],
    ['vf_explained_var', 'critic/vf_explained_var'],
    ['critic/vf_explaned_var', 'critic/vf_explained_var'],
    ['val-core/math/acc/bets@4/mean', 'val-core/{source}/{variable}/best@{n}/mean'],
    [
      'rollout_corr/rollout_rs_token_k1_maskd_fraction',
      'rollout_corr/rollout_rs_{criterion}_masked_fraction',
    ],
    ['timings/gen', 'timing_s/{stage}'],
  ])('%s, with %s as the first suggestion', (key, nearest) => {
    expect(() => explainMetric(key)).toThrow(ValueError);
    expect(() => explainMetric(key)).toThrow(`the text '${key}'; did you mean ${nearest}`);
  });

  test.each(['', 'q', 'nothing like any of the keys', 'rollout_corr/rollout_rs_token_k4_mean'])(
    '%s',
    (key) => {
      expect(() => explainMetric(key)).toThrow(ValueError);
    },
  );

  test.each([undefined, null, 3, {}, ['actor/ppo_kl']])('%s', (key) => {
    expect(() => explainMetric(key as string)).toThrow(ValueError);
  });

  test('without a suggestion if nothing is near', () => {
    expect(() => explainMetric('nothing like any of the keys')).toThrow(
      '`tensortally explain` lists all of them',
    );
  });
});

test('ranges include their ends, and NaN is in none', () => {
  expect([0, 0.5, 1].every((value) => isInRange(value, { low: 0, high: 1 }))).toBe(true);
  expect([-1e-9, 1 + 1e-9, NaN, Infinity].some((value) => isInRange(value, { low: 0, high: 1 }))).toBe(false);
  expect(isInRange(1 + 1e-9, { low: 0, high: 1 }, 1e-8)).toBe(true);
  expect(isInRange(-1 - 1e-9, { low: -1 }, 1e-8)).toBe(true);
  expect(isInRange(-1e-9, { low: 0 }, 1e-8)).toBe(false);
  expect(isInRange(2.5, { isWhole: true })).toBe(false);
  expect(isInRange(-Infinity, {})).toBe(true);
  expect(isInRange(NaN, {})).toBe(false);
});

describe('differences', () => {
  test('are about keys of the catalogue', () => {
    for (const { keys } of [...semanticDifferences, ...peerDepartures]) {
      for (const pattern of keys) {
        const found = metricCatalog.filter(({ key }) => concerns([pattern], key));
        expect(found, pattern).not.toEqual([]);
      }
    }
  });

  test('have identifiers of their own, and a preset that differs', () => {
    const ids = semanticDifferences.map(({ id }) => id);
    expect(ids).toEqual([...new Set(ids)]);
    for (const { id, reported } of semanticDifferences) {
      expect(new Set(semanticsNames.map((name) => reported[name])).size, id).toBeGreaterThan(1);
    }
  });

  test('are found from the entry', () => {
    const idsOf = (key: string): string[] => differencesOf(explainMetric(key).entry).map(({ id }) => id);
    expect(idsOf('critic/vf_explained_var')).toEqual(['explained-variance-epsilon', 'constant-returns']);
    expect(idsOf('k3/seq_mean')).toEqual(['rows-without-tokens', 'mean-of-nothing']);
    expect(idsOf('group/count')).toEqual([]);
  });

  test('stand for any characters with *, and for nothing else', () => {
    expect(concerns(['a/*'], 'a/b/c')).toBe(true);
    expect(concerns(['*/c'], 'a/b/c')).toBe(true);
    expect(concerns(['a/b'], 'a/b/c')).toBe(false);
    expect(concerns(['aba*aba'], 'aba')).toBe(false);
  });
});
