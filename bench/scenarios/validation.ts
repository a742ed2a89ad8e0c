/** `validation`: best, worst and majority of several samples per prompt, exact and by a straightforward bootstrap. */
import { processValidationMetrics } from '../../src/index.js';
import type { Numbers } from '../agreement.js';
import { type Random, seeded } from '../inputs.js';
import type { Scenario, Size, Work } from '../scenario.js';

interface Shape {
  readonly prompts: number;
  readonly variables: number;
  /** Per prompt. */
  readonly samples: number;
  /** Prompts that the bootstrap gets: it would take minutes for all of them. */
  readonly bootstrapped: number;
}

function size(shape: Shape): Size {
  const { prompts, variables, samples } = shape;
  const label = `${prompts} prompts × ${variables} variables × ${samples} samples, with votes`;
  return { label, prepare: () => prepare(shape) };
}

export const validation: Scenario = {
  name: 'validation',
  describe: 'Validation metrics of several samples per prompt (ratios are per prompt)',
  sizes: {
    tiny: size({ prompts: 6, variables: 2, samples: 4, bootstrapped: 3 }),
    small: size({ prompts: 50, variables: 3, samples: 8, bootstrapped: 10 }),
    medium: size({ prompts: 200, variables: 6, samples: 16, bootstrapped: 10 }),
    large: size({ prompts: 500, variables: 6, samples: 32, bootstrapped: 10 }),
  },
};

/** One list per variable, and one of votes, a value per sample. */
interface Samples {
  readonly uids: readonly string[];
  readonly votes: readonly string[];
  readonly variables: Readonly<Record<string, readonly number[]>>;
}

const REPEATS = 1000;
/** Five standard errors of so many draws from values in [0, 1]; the seed is the same for all prompts, as in verl. */
const BOOTSTRAP = { relative: 0, absolute: (5 * 0.5) / Math.sqrt(REPEATS) };
const EXACT = { relative: 1e-12, absolute: 1e-12 };

function prepare(shape: Shape): Work {
  const all = drawSamples(shape, seeded(8));
  const few = firstSamples(all, shape.bootstrapped * shape.samples);
  const ours = (samples: Samples): Numbers => {
    const infos = { ...samples.variables, pred: samples.votes };
    return processValidationMetrics(
      samples.uids.map(() => 's'),
      samples.uids,
      infos,
    ).metrics;
  };
  const bytes = (prompts: number): number => 8 * prompts * shape.samples * (shape.variables + 1);
  return {
    inputBytes: bytes(shape.prompts),
    ways: {
      ours: {
        run: async () => Promise.resolve(ours(all)),
        numbers: async () => Promise.resolve(withoutPrefix(ours(all))),
        expected: expectedExtremes(all),
        closeness: EXACT,
        share: { units: shape.prompts, inputBytes: bytes(shape.prompts) },
      },
      bootstrap: {
        run: async () => Promise.resolve(bootstrapped(few)),
        numbers: async () => Promise.resolve(bootstrapped(few)),
        // Majorities have no formula that fits here: that both agree says that both are right.
        expected: meansOf(withoutPrefix(ours(few))),
        closeness: BOOTSTRAP,
        share: { units: shape.bootstrapped, inputBytes: bytes(shape.bootstrapped) },
      },
    },
    dispose: () => undefined,
  };
}

/** Prompts of every difficulty; who is wrong is so in one of six ways, some more popular than others. */
function drawSamples({ prompts, variables, samples }: Shape, random: Random): Samples {
  const uids: string[] = [];
  const votes: string[] = [];
  const columns = Array.from({ length: variables }, () => [] as number[]);
  for (let prompt = 0; prompt < prompts; prompt++) {
    const difficulty = random();
    for (let i = 0; i < samples; i++) {
      const isRight = random() >= difficulty;
      uids.push(`p${prompt}`);
      votes.push(isRight ? 'right' : `wrong${Math.floor(6 * random() ** 2)}`);
      for (const [v, column] of columns.entries()) column.push(v === 0 ? Number(isRight) : random());
    }
  }
  return {
    uids,
    votes,
    variables: Object.fromEntries(columns.map((column, v) => [v === 0 ? 'acc' : `score${v}`, column])),
  };
}

function firstSamples({ uids, votes, variables }: Samples, count: number): Samples {
  const columns = Object.entries(variables).map(([name, column]) => [name, column.slice(0, count)] as const);
  return {
    uids: uids.slice(0, count),
    votes: votes.slice(0, count),
    variables: Object.fromEntries(columns),
  };
}

/** Indices of the samples of each prompt. */
function promptsOf({ uids }: Samples): number[][] {
  const prompts = new Map<string, number[]>();
  for (const [i, uid] of uids.entries()) prompts.set(uid, [...(prompts.get(uid) ?? []), i]);
  return [...prompts.values()];
}

function drawsOf(samples: number): number[] {
  const draws: number[] = [];
  for (let n = 2; n < samples; n *= 2) draws.push(n);
  return [...draws, samples];
}

/** `val-core/s/acc/best@2/mean` → `acc/best@2/mean` */
function withoutPrefix(metrics: Numbers): Numbers {
  return Object.fromEntries(
    Object.entries(metrics).map(([key, value]) => [key.replace(/^val-\w+\/s\//, ''), value]),
  );
}

/** What the bootstrap estimates, of the metrics. */
function meansOf(metrics: Numbers): Numbers {
  return Object.fromEntries(Object.entries(metrics).filter(([key]) => key.endsWith('/mean')));
}

/** Mean over prompts, by metric. */
class Means {
  readonly #values = new Map<string, number[]>();

  add(key: string, value: number): void {
    this.#values.set(key, [...(this.#values.get(key) ?? []), value]);
  }

  numbers(): Numbers {
    const mean = (values: readonly number[]): number => values.reduce((sum, x) => sum + x, 0) / values.length;
    return Object.fromEntries(Array.from(this.#values, ([key, values]) => [key, mean(values)]));
  }
}

/** Mean, best and worst from the definition: the largest of n draws is at most x(i) with chance (i/N)^n. */
function expectedExtremes(samples: Samples): Numbers {
  const means = new Means();
  for (const [name, column] of Object.entries(samples.variables)) {
    for (const prompt of promptsOf(samples)) {
      const sorted = prompt.map((i) => column[i]!).sort((a, b) => a - b);
      const size = sorted.length;
      means.add(`${name}/mean@${size}`, sorted.reduce((sum, x) => sum + x, 0) / size);
      for (const n of drawsOf(size)) {
        const weight = (i: number): number => ((i + 1) / size) ** n - (i / size) ** n;
        const best = sorted.reduce((sum, x, i) => sum + weight(i) * x, 0);
        const worst = sorted.reduce((sum, x, i) => sum + weight(size - 1 - i) * x, 0);
        means.add(`${name}/best@${n}/mean`, best);
        means.add(`${name}/worst@${n}/mean`, worst);
      }
    }
  }
  return means.numbers();
}

/** As verl does it: for each prompt, variable and n, a thousand lists of n samples, each reduced by plain functions. */
function bootstrapped(samples: Samples): Numbers {
  const means = new Means();
  for (const [name, column] of Object.entries(samples.variables)) {
    for (const prompt of promptsOf(samples)) {
      const values = prompt.map((i) => column[i]!);
      const ballots = prompt.map((i) => ({ value: column[i]!, vote: samples.votes[i]! }));
      for (const n of drawsOf(prompt.length)) {
        const [best, worst] = resampled(values, n, [
          (draw) => Math.max(...draw),
          (draw) => Math.min(...draw),
        ]);
        const [majority] = resampled(ballots, n, [majorityValue]);
        means.add(`${name}/best@${n}/mean`, best!);
        means.add(`${name}/worst@${n}/mean`, worst!);
        means.add(`${name}/maj@${n}/mean`, majority!);
      }
    }
  }
  return means.numbers();
}

/** The mean of each statistic over the draws. */
function resampled<T>(
  data: readonly T[],
  n: number,
  statistics: readonly ((draw: T[]) => number)[],
): number[] {
  const random = seeded(42);
  const found = statistics.map(() => [] as number[]);
  for (let turn = 0; turn < REPEATS; turn++) {
    const draw = Array.from({ length: n }, () => data[Math.floor(random() * data.length)]!);
    for (const [i, statistic] of statistics.entries()) found[i]!.push(statistic(draw));
  }
  return found.map((values) => values.reduce((sum, x) => sum + x, 0) / values.length);
}

function majorityValue(draw: readonly { readonly value: number; readonly vote: string }[]): number {
  const values = new Map<string, number[]>();
  for (const { value, vote } of draw) {
    const others = values.get(vote);
    if (others === undefined) values.set(vote, [value]);
    else others.push(value);
  }
  let winner: number[] = [];
  for (const candidates of values.values()) if (candidates.length > winner.length) winner = candidates;
  return winner[0]!;
}
