/** Words for the parts of a catalogue entry, the same on the terminal and in the documentation. */
import type { CatalogFamily, MetricRange, MetricReduction } from '../../metrics/index.js';

/** The function that reports a family. */
export const functionOf: Readonly<Record<CatalogFamily, string>> = {
  data: 'computeDataMetrics',
  timing: 'computeTimingMetrics',
  throughput: 'computeThroughputMetrics',
  sequenceBalance: 'computeSequenceBalanceMetrics',
  varianceProxy: 'computeVarianceProxyMetrics',
  debug: 'computeDebugMetrics',
  policy: 'computePolicyMetrics',
  kl: 'computeKlMetrics',
  moe: 'computeMoeMetrics',
  groups: 'computeGroupMetrics',
  rolloutCorrection: 'computeRolloutCorrection',
  validation: 'processValidationMetrics',
  trainer: 'the trainer itself, under verl’s names',
};

/** The ends that are no round numbers, by what they are made of. */
const NAMED_ENDS: readonly (readonly [number, string])[] = [
  [Math.exp(20), 'e^20'],
  [Math.expm1(20) - 20, 'e^20 − 21'],
  [Math.expm1(40), 'e^40 − 1'],
];

/** `[0, 1]`, `at least 0`, `any number`; `a whole number` where only those occur. */
export function rangeText({ low, high, isWhole = false }: MetricRange): string {
  const end = (x: number): string =>
    NAMED_ENDS.find(([value]) => value === x)?.[1] ?? String(x).replace('-', '−');
  const kind = isWhole ? 'a whole number' : 'any number';
  if (low === undefined && high === undefined) return kind;
  const prefix = isWhole ? 'whole, ' : '';
  if (low === undefined) return `${prefix}at most ${end(high!)}`;
  if (high === undefined) return `${prefix}at least ${end(low)}`;
  return `${prefix}[${end(low)}, ${end(high)}]`;
}

/** The range, and that of the presets where it is another. */
export function rangesText(range: MetricRange, presetRange: MetricRange | undefined): string {
  const text = rangeText(range);
  return presetRange === undefined ? text : `${text}; under the verl presets ${rangeText(presetRange)}`;
}

export const reductionText: Readonly<Record<MetricReduction, string>> = {
  mean: 'mean',
  max: 'max',
  min: 'min',
  sum: 'sum',
  std: 'standard deviation',
  fraction: 'fraction',
  count: 'count',
  difference: 'difference',
  ratio: 'ratio',
  correlation: 'correlation',
  indicator: 'indicator',
  lossAggMode: 'as lossAggMode says',
};
