/** Catalogue: what several samples per prompt say about a policy. */
import { ANY, AT_LEAST_0, type CatalogEntry, type FamilyEntry, SHARE, ofFamily } from './entry.js';

/** All of them are means over prompts of something about one prompt. */
const OF_PROMPTS = {
  placeholders: { source: 'text', variable: 'text', n: 'number' },
  unit: 'of the variable',
  reduction: 'mean',
  undefinedWhen: 'a NaN is among the values',
} as const;

const ALL = 'prompts of the source with n values of the variable';
const ENOUGH = 'prompts of the source with n values of the variable, or more if n is a power of two';

const DRAWN = {
  best: 'the largest of n values of the prompt',
  worst: 'the smallest of n values of the prompt',
  maj: 'the value of the label (pred) that most of n values of the prompt have',
} as const;

/** What is shown first of a source: one variable, at one n. */
const CORE =
  'of the variable acc, or of reward where there is none, with n the most values that any prompt has';

function populationOf(tier: Tier, population: string): string {
  return tier === 'val-core' ? `${population}; ${CORE}` : population;
}

type Tier = 'val-core' | 'val-aux';

/** Expectation and spread of one draw. */
function drawn(tier: Tier, name: keyof typeof DRAWN): FamilyEntry[] {
  const shared = { ...OF_PROMPTS, population: populationOf(tier, ENOUGH) };
  const key = `${tier}/{source}/{variable}/${name}@{n}`;
  return [
    {
      ...shared,
      key: `${key}/mean`,
      range: ANY,
      formula: `expectation of ${DRAWN[name]}, drawn as the option replacement says`,
    },
    {
      ...shared,
      key: `${key}/std`,
      range: AT_LEAST_0,
      formula: `standard deviation over draws of ${DRAWN[name]}, drawn as the option replacement says`,
    },
  ];
}

function meanOfAll(tier: Tier): FamilyEntry {
  return {
    ...OF_PROMPTS,
    key: `${tier}/{source}/{variable}/mean@{n}`,
    population: populationOf(tier, ALL),
    range: ANY,
    formula: 'mean of the values of the prompt',
  };
}

const CHANCE = 'tensortally; the closed forms: Chen et al. 2021 (pass@k), Yao et al. 2024 (pass^k)';

const entries: readonly FamilyEntry[] = [
  meanOfAll('val-core'),
  ...drawn('val-core', 'best'),
  ...drawn('val-core', 'maj'),
  meanOfAll('val-aux'),
  {
    ...OF_PROMPTS,
    key: 'val-aux/{source}/{variable}/std@{n}',
    population: ALL,
    range: AT_LEAST_0,
    formula: 'population std of the values of the prompt',
  },
  ...drawn('val-aux', 'best'),
  ...drawn('val-aux', 'worst'),
  ...drawn('val-aux', 'maj'),
  {
    ...OF_PROMPTS,
    key: 'val-aux/{source}/{variable}/pass@{n}',
    unit: '1',
    population: `${ENOUGH}; if all values are 0 or 1`,
    range: SHARE,
    formula: '1 − C(N − c, n) / C(N, n): the chance that any of n of its N values, of which c are 1, is 1',
    source: CHANCE,
  },
  {
    ...OF_PROMPTS,
    key: 'val-aux/{source}/{variable}/pass^{n}',
    unit: '1',
    population: `${ENOUGH}; if all values are 0 or 1`,
    range: SHARE,
    formula: 'C(c, n) / C(N, n): the chance that all of n of its N values, of which c are 1, are 1',
    source: CHANCE,
  },
];

export const validationEntries: readonly CatalogEntry[] = ofFamily(
  'validation',
  'verl, trainer/ppo/metric_utils.py, process_validation_metrics',
  entries,
);
