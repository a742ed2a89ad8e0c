/** Catalogue: how far the trained policy is from the one that sampled, and what is done about it. */
import {
  ANY,
  AT_LEAST_0,
  COUNT,
  type CatalogEntry,
  type FamilyEntry,
  NO_TOKEN,
  SHARE,
  ofFamily,
} from './entry.js';
import { rejectionNames } from '../rollout-correction/options.js';
import { LOG_RATIO_LIMIT } from '../rollout-correction/rows.js';

const TOKENS = 'tokens of response_mask';
const ROWS = 'rows with a token of response_mask';
const NO_ROW = 'no row has a token of response_mask, or a NaN is among the tokens';
const NO_SECOND_ROW = 'there are fewer than two such rows, or a NaN is among their tokens';

const offPolicy: readonly FamilyEntry[] = [
  ...(['training', 'rollout'] as const).flatMap((side): FamilyEntry[] => {
    const logProbs = side === 'training' ? 'old_log_probs' : 'rollout_log_probs';
    const shared = { population: ROWS, reduction: 'mean', undefinedWhen: NO_ROW } as const;
    const mean = `mean over the row's tokens of ${logProbs}`;
    return [
      { key: `${side}_ppl`, unit: '1', range: { low: 1 }, formula: `exp(−${mean})`, ...shared },
      { key: `${side}_log_ppl`, unit: 'nats', range: AT_LEAST_0, formula: `−${mean}`, ...shared },
    ];
  }),
  {
    key: 'kl',
    unit: 'nats',
    population: TOKENS,
    reduction: 'mean',
    range: ANY,
    formula: '−x, with x = old_log_probs − rollout_log_probs: the k1 estimate of KL(π_rollout ‖ π_train)',
    undefinedWhen: NO_TOKEN,
  },
  {
    key: 'k3_kl',
    unit: 'nats',
    population: TOKENS,
    reduction: 'mean',
    range: AT_LEAST_0,
    formula: 'e^x − 1 − x, with x at most 20',
    undefinedWhen: NO_TOKEN,
  },
  ...(
    [
      ['log_ppl_diff', 'mean', ANY, 'mean of −x over the tokens of the row'],
      ['log_ppl_abs_diff', 'mean', AT_LEAST_0, '|mean of −x over the tokens of the row|'],
      ['log_ppl_diff_max', 'max', ANY, 'mean of −x over the tokens of the row'],
      ['log_ppl_diff_min', 'min', ANY, 'mean of −x over the tokens of the row'],
    ] as const
  ).map(([key, reduction, range, formula]) => ({
    ...{ key, reduction, range, formula },
    ...{ unit: 'nats', population: ROWS, undefinedWhen: NO_ROW },
  })),
  {
    key: 'ppl_ratio',
    unit: '1',
    population: ROWS,
    reduction: 'mean',
    range: AT_LEAST_0,
    formula: 'training ppl / rollout ppl of the row',
    undefinedWhen: NO_ROW,
  },
  {
    key: 'chi2_token',
    unit: '1',
    population: TOKENS,
    reduction: 'mean',
    range: { low: -1, high: Math.expm1(2 * LOG_RATIO_LIMIT) },
    formula: 'e^(2x) − 1, with x clamped to ±20',
    undefinedWhen: NO_TOKEN,
  },
  {
    key: 'chi2_seq',
    unit: '1',
    population: ROWS,
    reduction: 'mean',
    range: { low: -1, high: Math.expm1(2 * LOG_RATIO_LIMIT) },
    formula: 'e^(2Σx) − 1, with the sum over the row clamped to ±20',
    undefinedWhen: NO_ROW,
  },
];

/** A weight is e^x with x clamped to ±20. */
const WEIGHT = { low: 0, high: Math.exp(LOG_RATIO_LIMIT) } as const;

const WEIGHTS = 'w: e^x of the token, or e^Σx of its row, as applied and before normalisation';
const UNITS = 'tokens of response_mask, or rows that have one if they share a weight';
const RAW = 'before truncation';
const UNHELD = 'of rows that share a weight, e^Σx without the bounds of ±20';

const weights: readonly FamilyEntry[] = [
  ...(['mean', 'std'] as const).map((reduction) => ({
    key: `rollout_is_${reduction}`,
    unit: '1',
    population: TOKENS,
    reduction,
    range: WEIGHT,
    formula: reduction === 'std' ? `population std of ${WEIGHTS}` : WEIGHTS,
    undefinedWhen: NO_TOKEN,
  })),
  ...(['max', 'min'] as const).map((reduction) => ({
    key: `rollout_is_${reduction}`,
    unit: '1',
    population: UNITS,
    reduction,
    range: WEIGHT,
    formula: `w; of rows that share a weight ${RAW}`,
    undefinedWhen: NO_TOKEN,
  })),
  ...(['high', 'low'] as const).map((side) => ({
    key: `rollout_is_ratio_fraction_${side}`,
    unit: '1',
    population: UNITS,
    reduction: 'fraction' as const,
    range: SHARE,
    formula:
      side === 'high'
        ? `w ${RAW} > the threshold; ${UNHELD}`
        : `w ${RAW} < 1 / threshold, or < the lower end of a range; ${UNHELD}`,
    undefinedWhen: NO_TOKEN,
  })),
  {
    key: 'rollout_is_eff_sample_size',
    unit: '1',
    population: TOKENS,
    reduction: 'ratio',
    range: SHARE,
    presetRange: AT_LEAST_0,
    formula: '(Σw)² / (n·Σw²): the share of tokens that would tell as much with equal weights',
    undefinedWhen: `all weights are 0, ${NO_TOKEN}`,
  },
  ...(['mean', 'std', 'max', 'min', 'max_deviation'] as const).map((statistic) => ({
    key: `rollout_is_seq_${statistic}`,
    unit: '1',
    population: ROWS,
    reduction: statistic === 'max_deviation' ? ('max' as const) : statistic,
    range: WEIGHT,
    formula:
      statistic === 'max_deviation'
        ? "|v − 1|, with v the mean of w over the row's tokens"
        : `${statistic === 'std' ? 'unbiased std of ' : ''}v, the mean of w over the row's tokens`,
    undefinedWhen: statistic === 'std' ? NO_SECOND_ROW : NO_ROW,
  })),
  ...(['high', 'low'] as const).map((side) => ({
    key: `rollout_is_seq_fraction_${side}`,
    unit: '1',
    population: ROWS,
    reduction: 'fraction' as const,
    range: SHARE,
    formula:
      side === 'high'
        ? `mean of w ${RAW} over the row > the threshold`
        : `mean of w ${RAW} over the row < 1 / threshold, or < the lower end of a range`,
    undefinedWhen: NO_ROW,
  })),
  {
    key: 'rollout_is_oob_ratio',
    unit: '1',
    population: TOKENS,
    reduction: 'fraction',
    range: SHARE,
    formula: 'w before it is zeroed is outside of the range; only for a threshold that is a range',
    undefinedWhen: NO_TOKEN,
  },
  {
    key: 'rollout_is_batch_norm_factor',
    unit: '1',
    population: `${UNITS}, that are not rejected and whose weight is finite`,
    reduction: 'mean',
    range: WEIGHT,
    formula: 'w, by which all weights are divided; 1 if it is 0; only with batchNormalize',
    undefinedWhen: 'no such weight is finite',
  },
  {
    key: 'rollout_is_nonfinite',
    unit: '1',
    population: UNITS,
    reduction: 'count',
    range: COUNT,
    formula: 'weights that are NaN; only with batchNormalize, and only if there are some',
  },
];

/** The criteria by what they compare, under the names of their placeholders. */
const CRITERIA = {
  criterion: rejectionNames,
  k1_criterion: rejectionNames.filter((name) => name.endsWith('k1')),
  k2_k3_criterion: rejectionNames.filter((name) => !name.endsWith('k1')),
} as const;

/** A key per criterion. */
function criterion(
  suffix: string,
  what: Omit<FamilyEntry, 'key' | 'placeholders' | 'unit'> & Partial<FamilyEntry>,
  of: keyof typeof CRITERIA = 'criterion',
): FamilyEntry {
  return {
    key: `rollout_rs_{${of}}_${suffix}`,
    placeholders: { [of]: CRITERIA[of] },
    unit: '1',
    ...what,
  };
}

/** Statistics of what a criterion compares: of k1 any number, of k2 and k3 at least 0. */
function compared(
  suffix: string,
  what: Pick<FamilyEntry, 'population' | 'reduction' | 'undefinedWhen' | 'formula'>,
): FamilyEntry[] {
  return [
    criterion(suffix, { ...what, unit: 'nats', range: ANY }, 'k1_criterion'),
    criterion(suffix, { ...what, unit: 'nats', range: AT_LEAST_0 }, 'k2_k3_criterion'),
  ];
}

const CRITERION =
  'k of the token (k3 of x at most 20), or its sum, mean or max over the row, which all tokens of the row share';
const ROW_CRITERION = 'the sum, mean or max of k over the row; of a criterion on tokens the mean';

const rejection: readonly FamilyEntry[] = [
  ...(['mean', 'max', 'min'] as const).flatMap((reduction) =>
    compared(reduction, { population: TOKENS, reduction, formula: CRITERION, undefinedWhen: NO_TOKEN }),
  ),
  criterion('std', {
    unit: 'nats',
    population: TOKENS,
    reduction: 'std',
    range: AT_LEAST_0,
    formula: `population std of ${CRITERION}, clamped to the thresholds`,
    undefinedWhen: NO_TOKEN,
  }),
  ...(['high', 'low'] as const).map((side) =>
    criterion(`fraction_${side}`, {
      population: 'tokens of response_mask, or rows that have one for criteria on rows',
      reduction: 'fraction',
      range: SHARE,
      formula:
        side === 'high'
          ? 'above the upper threshold; those of k1 bound exp(k) = π_rollout / π_train'
          : 'below the lower threshold, which k1 alone has, of exp(k) = π_rollout / π_train',
      undefinedWhen: NO_TOKEN,
    }),
  ),
  ...(['mean', 'max', 'min'] as const).flatMap((reduction) =>
    compared(`seq_${reduction}`, {
      population: ROWS,
      reduction,
      formula: ROW_CRITERION,
      undefinedWhen: NO_ROW,
    }),
  ),
  criterion('seq_std', {
    unit: 'nats',
    population: ROWS,
    reduction: 'std',
    range: AT_LEAST_0,
    formula: `unbiased std of ${ROW_CRITERION}`,
    undefinedWhen: NO_SECOND_ROW,
  }),
  criterion('seq_max_deviation', {
    unit: 'nats',
    population: ROWS,
    reduction: 'max',
    range: AT_LEAST_0,
    formula: `absolute value of ${ROW_CRITERION}`,
    undefinedWhen: NO_ROW,
  }),
  ...(['high', 'low'] as const).map((side) =>
    criterion(
      `seq_fraction_${side}`,
      {
        population: ROWS,
        reduction: 'fraction',
        range: SHARE,
        formula: side === 'high' ? 'above the upper threshold' : 'below the lower threshold; k1 alone',
        undefinedWhen: NO_ROW,
      },
      side === 'high' ? 'criterion' : 'k1_criterion',
    ),
  ),
  criterion('masked_fraction', {
    population: TOKENS,
    reduction: 'fraction',
    range: SHARE,
    formula: 'rejected by this criterion',
    undefinedWhen: 'no token is selected',
  }),
  criterion('seq_masked_fraction', {
    population: ROWS,
    reduction: 'fraction',
    range: SHARE,
    formula: 'the row loses a token to this criterion',
    undefinedWhen: 'no row has a token of response_mask',
  }),
  {
    key: 'rollout_rs_masked_fraction',
    unit: '1',
    population: TOKENS,
    reduction: 'fraction',
    range: SHARE,
    formula: 'rejected by any criterion',
    undefinedWhen: 'no token is selected',
  },
  {
    key: 'rollout_rs_seq_masked_fraction',
    unit: '1',
    population: ROWS,
    reduction: 'fraction',
    range: SHARE,
    formula: 'the row loses a token to any criterion',
    undefinedWhen: 'no row has a token of response_mask',
  },
];

export const rolloutCorrectionEntries: readonly CatalogEntry[] = ofFamily(
  'rolloutCorrection',
  'verl, trainer/ppo/rollout_corr_helper.py',
  [...offPolicy, ...weights, ...rejection].map((entry) => ({ ...entry, key: `rollout_corr/${entry.key}` })),
);
