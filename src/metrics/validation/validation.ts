/** Validation metrics: what several samples per prompt say about a policy, by source and variable. */
import { assertOptions, kindOf } from '../../arguments.js';
import { ValueError } from '../../errors.js';
import type { GroupId } from '../groups.js';
import type { Metrics } from '../numbers/statistics.js';
import {
  Ballots,
  type DrawEstimate,
  type Estimator,
  bootstrapEstimator,
  exactEstimator,
  ladderOf,
} from './estimators.js';
import { chanceOfAll, chanceOfAny } from './pass-at-k.js';
import { assertCount, assertSeed, meanAndStd } from './resampling.js';
import {
  type InfoColumn,
  type SampleCounts,
  NumericColumn,
  assertInfos,
  groupSamples,
  labelCodes,
} from './samples.js';

/** How best, worst and majority are estimated. */
export const estimatorNames = ['exact', 'bootstrap'] as const;
export type EstimatorName = (typeof estimatorNames)[number];

/** Options of `processValidationMetrics`. */
export interface ValidationOptions {
  /**
   * Closed forms (default), or random draws for comparison with runs that had no others. The exact majority of a prompt
   * with many labels costs about N^2.5; where the draws of a prompt would take more than 2^25 products, or those of all
   * prompts of the call 2^30, it is drawn all the same, and `drawn` of the report says so: with replacement from maj@256 on
   * for 100 labels among 256 samples, from maj@128 on for 100 labels or more among 512. Such a prompt takes about 0.1 s.
   */
  readonly estimator?: EstimatorName | undefined;
  /**
   * Whether a sample can be drawn more than once (default): the estimand of verl's bootstrap, below pass@k for best.
   * Without, the mean over all subsets, which is unbiased for n fresh samples.
   */
  readonly replacement?: boolean | undefined;
  /** Of what is drawn: an integer in [0, 2^32); default 42. */
  readonly seed?: number | undefined;
  /** Draws for each number that is drawn, 1 to 2^24; default 1000. */
  readonly nBootstrap?: number | undefined;
}

/** What `processValidationMetrics` returns. */
export interface ValidationReport {
  /** `val-core/…` and `val-aux/…`: what to log. */
  readonly metrics: Metrics;
  /** Under the same keys: the standard error over prompts, NaN for a single one. */
  readonly standardErrors: Metrics;
  /** Under the same keys: the prompts behind the number. */
  readonly prompts: Metrics;
  /** Under the same keys: of these prompts those whose number was drawn, with an error. Keys without one are left out. */
  readonly drawn: Metrics;
  /** Under `<source>/<variable>`: samples that were used, and those that could not be. Names are not escaped, see there. */
  readonly samples: Readonly<Record<string, SampleCounts>>;
}

const WHERE = 'processValidationMetrics';
/** The variable whose values are votes. */
const VOTES = 'pred';

/**
 * Metrics of several samples per prompt. A prompt with N values of a variable gives `mean@N`, and for N > 1 `std@N`
 * and, for n = 2, 4, 8, … and N, of n of its samples
 * - `best@n/mean`, `best@n/std`, `worst@n/mean`, `worst@n/std`: the largest and the smallest value,
 * - `maj@n/mean`, `maj@n/std`: the value of the label that most of them vote for, if `infos` has `pred`,
 * - `pass@n`, `pass^n`: whether any and all are 1, without replacement, where a variable is 0 or 1 throughout.
 *
 * Each is averaged over the prompts that have it; prompts with other N have other names. `std` is the standard
 * deviation of one draw, not an error: that is in `standardErrors`.
 *
 * Keys are `val-core/<source>/<variable>/<metric>` for mean, best and maj at the largest N of the variable `acc`, or
 * `reward` where a source has no `acc`; `val-aux/…` for all others. Names stand in keys as they are, as in verl: the
 * variable `b/c` of a source `a` and the variable `c` of a source `a/b` would share theirs, so keep `/` out of one of them.
 *
 * What is no number or boolean is left out, N shrinks, and `samples` says how many. NaN makes everything of its
 * prompt NaN. The order of samples and prompts does not matter.
 *
 * @param dataSources one per sample
 * @param sampleUids the prompt of each sample, a text or a number; 1 and '1' are two prompts, and the same uid in another
 *   source is another prompt
 * @param infos variables with one value per sample
 * @throws ShapeError for lists of different lengths; ValueError or MissingInputError for what is no list of texts, no
 *   record of lists, an unknown estimator, or a `pred` that cannot be compared
 * @source verl, trainer/ppo/metric_utils.py, process_validation_metrics; closed forms: order statistics of a finite
 *   population, and see `chancesToWin`
 * @example
 *   const { metrics } = processValidationMetrics(['math', 'math'], ['p1', 'p1'], { acc: [1, 0] });
 *   metrics['val-core/math/acc/best@2/mean']; // 0.75
 */
export function processValidationMetrics(
  dataSources: readonly string[],
  sampleUids: ArrayLike<GroupId>,
  infos: Readonly<Record<string, InfoColumn>>,
  options: ValidationOptions = {},
): ValidationReport {
  const estimatorFor = estimatorOf(options);
  const sources = groupSamples(WHERE, dataSources, sampleUids);
  const estimator = estimatorFor([...sources].reduce((count, [, prompts]) => count + prompts.length, 0));
  assertInfos(WHERE, infos, dataSources.length);
  const labels = Object.hasOwn(infos, VOTES) ? labelCodes(WHERE, `infos.${VOTES}`, infos[VOTES]!) : undefined;
  const tools = { ballotsOf: rememberedBallots(labels), estimator, namesFor: rememberedNames() };
  const columns = Object.entries(infos).map(([name, column]) => [name, new NumericColumn(column)] as const);
  const report = {
    metrics: {},
    standardErrors: {},
    prompts: {},
    drawn: {},
    samples: {} as Record<string, SampleCounts>,
  };
  for (const [source, prompts] of sources) {
    const results = new Map<string, VariableMetrics>();
    for (const [name, column] of columns) {
      report.samples[`${source}/${name}`] = column.count(prompts);
      const found = variableMetrics(prompts, column, tools);
      if (found.mostSamples > 0) results.set(name, found);
    }
    const core = results.has('acc') ? 'acc' : 'reward';
    for (const [name, { perPrompt, mostSamples }] of results) {
      for (const [metric, ofPrompts] of perPrompt) {
        const isCore = name === core && /^(mean|maj|best)@/.test(metric) && drawsOf(metric) === mostSamples;
        enter(report, `${isCore ? 'val-core' : 'val-aux'}/${source}/${name}/${metric}`, ofPrompts);
      }
    }
  }
  return report;
}

/** The estimator for a call of so many prompts. */
function estimatorOf(options: ValidationOptions): (prompts: number) => Estimator {
  assertOptions(WHERE, options, { estimator: 'any', replacement: 'boolean', seed: 'any', nBootstrap: 'any' });
  const { estimator = 'exact', replacement = true, seed = 42, nBootstrap = 1000 } = options;
  if (!(estimatorNames as readonly unknown[]).includes(estimator)) {
    throw new ValueError({
      where: WHERE,
      input: 'options.estimator',
      expected: `one of ${estimatorNames.join(', ')}`,
      received: kindOf(estimator),
      remedy: "leave it out for 'exact'",
    });
  }
  assertSeed(WHERE, seed);
  assertCount(WHERE, 'options.nBootstrap', nBootstrap);
  const drawing = { replacement, nBootstrap, seed };
  return (prompts) =>
    estimator === 'exact' ? exactEstimator(drawing, prompts) : bootstrapEstimator(drawing);
}

/** Ballots of samples. Prompts without absent values have the same for every variable. */
function rememberedBallots(labels: Int32Array | undefined): (samples: Int32Array) => Ballots | undefined {
  if (labels === undefined) return () => undefined;
  const known = new WeakMap<Int32Array, Ballots>();
  return (samples) => {
    let ballots = known.get(samples);
    if (ballots === undefined) {
      ballots = new Ballots(Int32Array.from(samples, (i) => labels[i]!));
      known.set(samples, ballots);
    }
    return ballots;
  };
}

/** What is the same for all variables, or remembered from one to the next. */
interface Tools {
  readonly ballotsOf: (samples: Int32Array) => Ballots | undefined;
  readonly estimator: Estimator;
  readonly namesFor: (samples: number) => PromptNames;
}

/** One metric of the prompts that have it. */
interface PromptValues {
  /** One number per prompt. */
  readonly values: number[];
  /** How many of them were drawn. */
  drawn: number;
}

/** Metrics of one variable of one source. */
interface VariableMetrics {
  /** By name. */
  readonly perPrompt: ReadonlyMap<string, PromptValues>;
  /** Of the prompt that has the most. */
  readonly mostSamples: number;
}

function variableMetrics(
  prompts: readonly Int32Array[],
  column: NumericColumn,
  { ballotsOf, estimator, namesFor }: Tools,
): VariableMetrics {
  const perPrompt = new Map<string, PromptValues>();
  const record = (metric: string, value: number, isDrawn = false): void => {
    let ofPrompts = perPrompt.get(metric);
    if (ofPrompts === undefined) perPrompt.set(metric, (ofPrompts = { values: [], drawn: 0 }));
    ofPrompts.values.push(value);
    if (isDrawn) ofPrompts.drawn++;
  };
  const isPassFail = column.isPassFail(prompts);
  let mostSamples = 0;
  for (const all of prompts) {
    const samples = column.present(all);
    const n = samples.length;
    if (n === 0) continue;
    mostSamples = Math.max(mostSamples, n);
    const values = column.valuesOf(samples);
    const [mean, std] = meanAndStd(values);
    const { ofAll, ofDraws } = namesFor(n);
    record(ofAll.mean, mean);
    if (n === 1) continue;
    record(ofAll.std, std);
    const ballots = ballotsOf(samples);
    const hasNaN = Number.isNaN(mean) && values.some(Number.isNaN);
    const estimates = hasNaN ? undefined : estimator(values, ballots);
    // NaN where the mean is, and then so are the chances.
    const passed = Math.round(mean * n);
    for (let rung = 0; rung < ofDraws.length; rung++) {
      const { draws, best, worst, majority, passAny, passAll } = ofDraws[rung]!;
      const estimate = estimates?.[rung] ?? UNDEFINED;
      const allDrawn = estimate.drawn === 'all';
      record(best.mean, estimate.best.mean, allDrawn);
      record(best.std, estimate.best.std, allDrawn);
      record(worst.mean, estimate.worst.mean, allDrawn);
      record(worst.std, estimate.worst.std, allDrawn);
      if (ballots !== undefined) {
        const majorityDrawn = estimate.drawn !== 'none';
        record(majority.mean, estimate.majority!.mean, majorityDrawn);
        record(majority.std, estimate.majority!.std, majorityDrawn);
      }
      if (isPassFail) {
        record(passAny, chanceOfAny(n, passed, draws));
        record(passAll, chanceOfAll(n, passed, draws));
      }
    }
  }
  return { perPrompt, mostSamples };
}

const UNDEFINED: DrawEstimate = {
  best: { mean: NaN, std: NaN },
  worst: { mean: NaN, std: NaN },
  majority: { mean: NaN, std: NaN },
  drawn: 'none',
};

interface MomentNames {
  readonly mean: string;
  readonly std: string;
}

/** Names of the metrics of n draws. */
interface DrawNames {
  readonly draws: number;
  readonly best: MomentNames;
  readonly worst: MomentNames;
  readonly majority: MomentNames;
  readonly passAny: string;
  readonly passAll: string;
}

/** Names of all metrics of a prompt with N samples. */
interface PromptNames {
  readonly ofAll: MomentNames;
  readonly ofDraws: readonly DrawNames[];
}

/** Names by N, each made once: they are looked up for every prompt. */
function rememberedNames(): (samples: number) => PromptNames {
  const known = new Map<number, PromptNames>();
  return (samples) => {
    let names = known.get(samples);
    if (names === undefined) {
      const ofAll = { mean: `mean@${samples}`, std: `std@${samples}` };
      names = { ofAll, ofDraws: ladderOf(samples).map(drawNames) };
      known.set(samples, names);
    }
    return names;
  };
}

function drawNames(draws: number): DrawNames {
  const moments = (what: string): MomentNames => ({
    mean: `${what}@${draws}/mean`,
    std: `${what}@${draws}/std`,
  });
  return {
    draws,
    best: moments('best'),
    worst: moments('worst'),
    majority: moments('maj'),
    passAny: `pass@${draws}`,
    passAll: `pass^${draws}`,
  };
}

/** The number behind the @ of a metric. */
function drawsOf(metric: string): number {
  return Number.parseInt(metric.slice(metric.indexOf('@') + 1));
}

function enter(
  report: Omit<ValidationReport, 'samples'>,
  key: string,
  { values, drawn }: PromptValues,
): void {
  const [mean, std] = meanAndStd(Float64Array.from(values));
  report.metrics[key] = mean;
  // std / √(P − 1) is the unbiased sample deviation over √P, and 0 / 0 for a single prompt.
  report.standardErrors[key] = std / Math.sqrt(values.length - 1);
  report.prompts[key] = values.length;
  if (drawn > 0) report.drawn[key] = drawn;
}
