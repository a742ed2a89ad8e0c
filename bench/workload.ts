/**
 * What a GRPO actor records in one step, call by call: AReaL's call pattern with made-up numbers.
 *
 * Once per step statistics of the padded batch, once per micro-batch statistics of packed tokens, some scalars. The
 * same list of calls is played to every way of recording it.
 *
 * @source AReaL, the decoupled GRPO examples gsm8k_grpo.yaml (W1) and boba_grpo.yaml (W2), four data-parallel ranks
 */
import { type Random, bell, seeded } from './inputs.js';
import type { HostTensor } from './scenario.js';

/** The batch of one data-parallel rank. */
export interface WorkloadShape {
  readonly rows: number;
  readonly cols: number;
  readonly microBatches: number;
  /** Packed tokens of a micro-batch. */
  readonly tokens: number;
  readonly miniBatches: number;
}

/** One record call. Keys are relative to `scope`; tensors are named by their place in the workload. */
export type RecordCall =
  | {
      readonly kind: 'denominators';
      readonly scope: string;
      readonly masks: Readonly<Record<string, string>>;
    }
  | {
      readonly kind: 'stats';
      readonly scope: string;
      readonly denominator: string;
      readonly values: Readonly<Record<string, string>>;
    }
  | {
      readonly kind: 'scalars';
      readonly scope: string;
      readonly values: Readonly<Record<string, number>>;
    };

export interface Workload {
  readonly tensors: ReadonlyMap<string, HostTensor>;
  readonly calls: readonly RecordCall[];
}

const ACTOR = 'ppo_actor';
const UPDATE = `${ACTOR}/update`;
const LOGP = `${UPDATE}/compute_logp`;
const VERSIONS = `${UPDATE}/version_stats`;

/** Stats by the denominator that they are reduced over. */
type Grouped = Readonly<Record<string, readonly string[]>>;

const ROW_STATS: Grouped = {
  correct_n_seqs: ['correct_seq_len'],
  incorrect_n_seqs: ['incorrect_seq_len'],
  n_seqs: ['no_eos_ratios', 'task_reward', 'prompt_len', 'seq_len'],
};
const BATCH_STATS: Grouped = { n_valid_tokens: ['advantages', 'kl_rewards', 'final_reward'] };
const UPDATE_STATS: Grouped = {
  n_valid_tokens: [
    'importance_weight',
    'approx_kl',
    'new_logp',
    'old_logp',
    'entropy',
    'actor_loss',
    'clip_ratio',
    'dual_clip_ratio',
  ],
  unclipped_behave_tokens: ['behave_imp_weight', 'behave_approx_kl'],
  n_tokens: ['vocab_min_logits', 'vocab_max_logits'],
  clipped_tokens: ['clipped_new_logp', 'clipped_old_logp'],
};
const LOGP_STATS: Grouped = {
  n_valid_tokens: ['prox_logp_gt', 'kl_div_direct', 'kl_div_taylor', 'kl_div_dual'],
};

const STEP_SCALARS = ['mask_no_eos_with_zero', 'eps_clip', 'use_dual_clip', 'rs_upper'];
const MINI_BATCH_SCALARS = ['update_successful', 'grad_norm', 'lr', 'num_micro_batches'];
const VERSION_SCALARS = [
  ...['proximal', 'theta'].flatMap((version) =>
    ['avg', 'max', 'min'].map((kind) => `sample_staleness_${version}_${kind}`),
  ),
  'v_theta',
  'v_proximal',
  'n_valid_generated_tokens',
];

/** Builds the calls of one step. The same shape gives the same numbers. */
export function grpoWorkload({ rows, cols, microBatches, tokens, miniBatches }: WorkloadShape): Workload {
  const random = seeded(5);
  const tensors = new Map<string, HostTensor>();
  const calls: RecordCall[] = [];
  const add = (values: HostTensor['values'], shape: readonly number[]): string => {
    const name = `t${tensors.size}`;
    tensors.set(name, { values, shape });
    return name;
  };
  const record = (
    scope: string,
    masks: Readonly<Record<string, Uint8Array>>,
    shapeOf: (mask: Uint8Array) => readonly number[],
    stats: Grouped,
  ): void => {
    const named = Object.fromEntries(
      Object.entries(masks).map(([key, mask]) => [key, add(mask, shapeOf(mask))]),
    );
    calls.push({ kind: 'denominators', scope, masks: named });
    for (const [denominator, keys] of Object.entries(stats)) {
      const mask = masks[denominator]!;
      const values = keys.map((key) => [key, add(valuesUnder(random, mask), shapeOf(mask))] as const);
      calls.push({ kind: 'stats', scope, denominator, values: Object.fromEntries(values) });
    }
  };
  const recordScalars = (scope: string, keys: readonly string[]): void => {
    const values = Object.fromEntries(keys.map((key) => [key, random()]));
    calls.push({ kind: 'scalars', scope, values });
  };

  const correct = bernoulli(random, 0.4, everything(rows));
  const rowMasks = {
    n_seqs: everything(rows),
    correct_n_seqs: correct,
    incorrect_n_seqs: correct.map((x) => 1 - x),
  };
  const batchMasks = {
    n_tokens: everything(rows * cols),
    n_valid_tokens: spans(random, rows * cols, () => cols, true),
  };
  record(ACTOR, rowMasks, () => [rows], ROW_STATS);
  record(ACTOR, batchMasks, () => [rows, cols], BATCH_STATS);
  recordScalars(ACTOR, STEP_SCALARS);
  for (let micro = 0; micro < microBatches; micro++) {
    const valid = spans(random, tokens, () => 64 + Math.floor(random() * 1000), false);
    const updateMasks = {
      n_tokens: everything(tokens),
      n_valid_tokens: valid,
      clipped_tokens: bernoulli(random, 0.005, valid),
      dual_clipped_tokens: bernoulli(random, 0.0005, valid),
      unclipped_behave_tokens: bernoulli(random, 0.97, valid),
    };
    record(UPDATE, updateMasks, () => [tokens], UPDATE_STATS);
    recordScalars(UPDATE, ['rs_filtered_fraction']);
    record(LOGP, { n_valid_tokens: valid }, () => [tokens], LOGP_STATS);
    record(VERSIONS, { n_valid_tokens: valid }, () => [tokens], {});
    recordScalars(VERSIONS, VERSION_SCALARS);
  }
  for (let mini = 0; mini < miniBatches; mini++) recordScalars(UPDATE, MINI_BATCH_SCALARS);
  return { tensors, calls };
}

function everything(size: number): Uint8Array {
  return new Uint8Array(size).fill(1);
}

/** Selects with this probability where `within` selects. */
function bernoulli(random: Random, probability: number, within: Uint8Array): Uint8Array {
  return within.map((x) => (x !== 0 && random() < probability ? 1 : 0));
}

/**
 * Sequences of the given lengths one after the other, each a prompt that is not selected and a response that is.
 *
 * @param padded whether responses may end before their sequence does
 */
function spans(random: Random, size: number, lengthOf: () => number, padded: boolean): Uint8Array {
  const mask = new Uint8Array(size);
  for (let start = 0; start < size;) {
    const length = Math.min(lengthOf(), size - start);
    const prompt = Math.floor(length * (padded ? 0.25 : 0.6) * random());
    const response = padded ? 1 + Math.floor(random() * (length - prompt)) : length - prompt;
    mask.fill(1, start + prompt, start + prompt + response);
    start += length;
  }
  return mask;
}

/** Numbers of which some that nobody selects are NaN, as real padding has them. */
function valuesUnder(random: Random, mask: Uint8Array): Float32Array {
  const values = bell(random, mask.length, 0.5);
  for (let i = 0; i < mask.length; i++) if (mask[i] === 0 && random() < 0.01) values[i] = NaN;
  return values;
}
