/** Where the semantics differ from each other, with the reasons. */
import type { Semantics } from '../semantics.js';

/** A case in which a preset reports another number than `recommended`. */
export interface SemanticDifference {
  readonly id: string;
  /** Keys of catalogue entries; `*` stands for any characters. */
  readonly keys: readonly string[];
  /** Functions whose result, which has no key, differs in the same way. */
  readonly functions?: readonly string[];
  /** What the batch or the options have where it shows. */
  readonly when: string;
  /** What each semantics reports; the same words mean the same number. */
  readonly reported: Readonly<Record<Semantics, string>>;
  readonly reason: string;
  /** Reports of the defect, in verl and elsewhere in the field; empty if none is known. */
  readonly upstream: readonly string[];
}

/** What both revisions of verl report. */
function both(text: string): Pick<SemanticDifference['reported'], 'verl-2026-08' | 'verl-2026-01'> {
  return { 'verl-2026-08': text, 'verl-2026-01': text };
}

/** Means over rows that count rows without a token. */
const ROW_MEANS = ['training', 'rollout'].flatMap((side) => [
  `rollout_corr/${side}_ppl`,
  `rollout_corr/${side}_log_ppl`,
]);

/** What `lossAggMode` is about. */
const LOSSES = ['actor/pg_loss', 'actor/entropy', 'actor/kl_loss', 'critic/vf_loss'];

export const semanticDifferences: readonly SemanticDifference[] = [
  {
    id: 'score-padding',
    keys: ['critic/score/*', 'critic/rewards/*'],
    when: 'scores or rewards are not 0 outside of the response part of attention_mask',
    reported: {
      recommended: 'tokens are summed that are in attention_mask or before the column response_length',
      ...both('the whole row is summed, so that a NaN in the padding poisons it'),
    },
    reason: 'what the padding holds is no reward',
    upstream: ['verl PR2377', 'OpenRLHF PR1240'],
  },
  {
    id: 'explained-variance-epsilon',
    keys: ['critic/vf_explained_var'],
    when: 'always; it shows where returns vary by less than about 0.01',
    reported: {
      recommended: '1 − Var(error) / Var(returns)',
      ...both('1 − Var(error) / (Var(returns) + 1e-5): 0.9 of a constant predictor where returns are ±1e-3'),
    },
    reason: 'a number without a unit must not depend on the unit of the rewards',
    upstream: [],
  },
  {
    id: 'constant-returns',
    keys: ['critic/vf_explained_var'],
    when: 'all returns are equal, or equal but for float32 rounding: their range is at most 2⁻²¹ of the largest',
    reported: { recommended: 'NaN', ...both('1 − Var(error) / 1e-5, e.g. −69999') },
    reason: 'there is no variance to explain; the number measures the epsilon',
    upstream: ['DLR-RM/stable-baselines3 #816', 'DLR-RM/stable-baselines3 PR1942'],
  },
  {
    id: 'length-columns',
    keys: [
      ...['prompt_length/*', 'response_length*', 'response/aborted_ratio', 'timing_per_token_ms/*'],
      ...['perf/total_num_tokens', 'perf/throughput'],
      // Over the rows that responded.
      ...['critic/score/*', 'critic/rewards/*'],
    ],
    when: 'columns prompt_length or response_length differ from attention_mask; perf/* in computeStepMetrics, without global_token_num',
    reported: {
      recommended: 'the columns count',
      'verl-2026-08': 'the columns count',
      'verl-2026-01': 'attention_mask counts',
    },
    reason: 'masks of truncated or rejected rows no longer tell how long the rows were',
    upstream: ['huggingface/trl #3476'],
  },
  {
    id: 'time-of-no-tokens',
    keys: ['timing_per_token_ms/*'],
    when: 'there are no tokens',
    reported: {
      recommended: 'NaN',
      'verl-2026-08': '0',
      'verl-2026-01': 'NaN',
    },
    reason: 'a time per token of 0 reads as infinitely fast',
    upstream: ['verl PR6675'],
  },
  {
    id: 'rows-without-tokens',
    keys: [
      ...ROW_MEANS,
      ...['log_ppl_diff', 'log_ppl_abs_diff', 'log_ppl_diff_max', 'log_ppl_diff_min', 'ppl_ratio', 'chi2_seq']
        .concat(
          ['seq_mean', 'seq_std', 'seq_min', 'seq_max_deviation', 'seq_fraction_*'].map(
            (key) => `rollout_is_${key}`,
          ),
        )
        .concat(['rollout_is_max', 'rollout_is_min', 'rollout_is_ratio_fraction_*'])
        .concat(['rollout_rs_seq_masked_fraction'])
        .map((key) => `rollout_corr/${key}`),
      ...['proxy2_total_power', 'proxy3_pure_noise', 'expected_a_squared', 'expected_w'].map(
        (key) => `variance_proxy/${key}`,
      ),
      'actor/reward_kl_penalty',
      '*/seq_mean',
    ],
    when: 'a row has no token in response_mask; rollout_is_{max,min,ratio_*} only of sequence weights',
    reported: {
      recommended: 'the row is left out',
      ...both('the row counts as 0, as log-weight 0 and as perplexity 1'),
    },
    reason: 'an aborted or rejected row says nothing, and must not pull a mean towards 0',
    upstream: ['OpenRLHF PR1239', 'NVIDIA-NeMo/RL #230'],
  },
  {
    id: 'mean-of-nothing',
    keys: [
      ...['actor/ppo_kl', 'actor/pg_clipfrac', 'actor/pg_clipfrac_lower', 'actor/reward_kl_penalty'],
      ...[
        'critic/vpred_mean',
        'critic/vf_clipfrac',
        '*/seq_mean',
        'k1/mean',
        'abs/mean',
        'k2/mean',
        'k3/mean',
      ],
    ],
    when: 'no token is selected',
    reported: { recommended: 'NaN', ...both('0') },
    reason: 'a KL of 0 reads as a policy that did not move',
    upstream: ['verl PR782', 'huggingface/trl PR6861'],
  },
  {
    id: 'loss-outside-mask',
    keys: LOSSES,
    functions: ['aggLoss'],
    when: 'lossAggMode is a sequence mode, and the padding holds a NaN or an infinity',
    reported: {
      recommended: 'tokens are selected',
      ...both('tokens are multiplied by the mask: NaN'),
    },
    reason: 'NaN · 0 is NaN: the mask must select',
    upstream: ['verl PR2377', 'OpenRLHF PR1240', 'NovaSky-AI/SkyRL #1633'],
  },
  {
    id: 'sequence-norm',
    keys: LOSSES,
    functions: ['aggLoss'],
    when: "lossAggMode is 'seq-mean-token-sum-norm'",
    reported: {
      recommended: 'the sum over tokens / (rows with a token · scale)',
      'verl-2026-08': 'the sum over tokens / (rows with a token · scale)',
      'verl-2026-01': 'the sum over tokens / scale',
    },
    reason: 'the mode is named a mean over sequences, and the loss must not grow with the batch',
    upstream: [],
  },
  {
    id: 'weights-before-truncation',
    keys: [
      ...['mean', 'std', 'max', 'min', 'eff_sample_size', 'seq_mean', 'seq_std', 'seq_max', 'seq_min']
        .concat(['seq_max_deviation'])
        .map((key) => `rollout_corr/rollout_is_${key}`),
    ],
    when: 'weights are truncated; rollout_is_{max,min} only of token weights',
    reported: {
      recommended: 'of the weights that are applied',
      'verl-2026-08': 'of the weights that are applied',
      'verl-2026-01': 'of the weights before truncation; std and sample size of those held in [1/C, C]',
    },
    reason: 'what the loss is multiplied by is what matters; shares beyond the threshold tell the rest',
    upstream: ['verl PR6806'],
  },
  {
    id: 'sample-size-epsilon',
    keys: ['rollout_corr/rollout_is_eff_sample_size'],
    when: 'weights are tiny',
    reported: {
      recommended: '(Σw)² / (n·Σw²), at most 1',
      ...both('(mean + 1e-8)² / mean of squares, which exceeds 1'),
    },
    reason: 'a share cannot be above 1',
    upstream: ['radixark/miles PR3230'],
  },
  {
    id: 'comparison-with-nan',
    keys: [
      ...['actor/pg_clipfrac', 'actor/pg_clipfrac_lower', 'critic/vf_clipfrac'],
      ...['rollout_is_ratio_fraction_*', 'rollout_is_seq_fraction_*', 'rollout_is_oob_ratio']
        .concat(['rollout_rs_{criterion}_fraction_*', 'rollout_rs_{criterion}_seq_fraction_high'])
        .concat(['rollout_rs_{k1_criterion}_seq_fraction_low'])
        .map((key) => `rollout_corr/${key}`),
    ],
    when: 'a NaN is among the tokens that are compared with a bound',
    reported: { recommended: 'NaN', ...both('the token is within the bound, as IEEE arithmetic has it') },
    reason: 'a comparison with NaN has no answer; the mean beside the fraction is NaN, too',
    upstream: ['verl #498'],
  },
  {
    id: 'held-log-ratio',
    keys: ['actor/ppo_kl'],
    when: 'log_probs and old_log_probs of a token differ by more than 20',
    reported: { recommended: 'the difference as it is', ...both('the difference clamped to ±20') },
    reason: 'the bound keeps the exponential in the loss finite; a difference needs none',
    upstream: [],
  },
  {
    id: 'held-criteria',
    keys: [
      ...['mean', 'max', 'min', 'seq_mean', 'seq_max', 'seq_min'].flatMap((suffix) =>
        ['k1', 'k2_k3'].map((of) => `rollout_corr/rollout_rs_{${of}_criterion}_${suffix}`),
      ),
      ...['seq_std', 'seq_max_deviation'].map((suffix) => `rollout_corr/rollout_rs_{criterion}_${suffix}`),
    ],
    when: 'log-probabilities differ by more than 20; thresholds of that size then also reject otherwise',
    reported: {
      recommended: 'k1 and k2 of x as it is, k3 of x at most 20',
      ...both('all of x clamped to ±20'),
    },
    reason: 'only an exponential overflows, and only above',
    upstream: [],
  },
  {
    id: 'unheld-k3',
    keys: ['rollout_corr/k3_kl'],
    when: 'log_probs exceed rollout_log_probs by more than 20',
    reported: { recommended: 'x is at most 20', ...both('x is not cut; one token makes it infinite') },
    reason: 'the exponential of one broken token must not hide all others',
    upstream: ['verl #891', 'verl #751', 'huggingface/trl #3015'],
  },
  {
    id: 'std-of-one-row',
    keys: ['rollout_corr/rollout_is_seq_std', 'rollout_corr/rollout_rs_{criterion}_seq_std'],
    when: 'the batch has one row; rollout_rs_* also if one row of several has tokens',
    reported: { recommended: 'NaN', ...both('0') },
    reason: 'one number has no spread to estimate',
    upstream: ['DLR-RM/stable-baselines3 #325', 'rllm-org/rllm #497'],
  },
  {
    id: 'unheld-least-weight',
    keys: ['rollout_corr/rollout_is_min'],
    when: 'weights are shared by sequence, and the log-ratios of a row add up to less than −20',
    reported: { recommended: 'the weight that is applied, e^−20', ...both('e^Σx, however small') },
    reason: 'no weight below e^−20 is ever applied',
    upstream: [],
  },
  {
    id: 'least-norm-factor',
    keys: ['rollout_corr/rollout_is_batch_norm_factor'],
    when: 'the mean weight is at most 1e-8, as it is where weights are e^−20',
    reported: { recommended: 'the mean weight', ...both('1: weights are not divided') },
    reason: 'weights of any size are brought to a mean of 1',
    upstream: [],
  },
  {
    id: 'unknown-norm-factor',
    keys: ['rollout_corr/rollout_is_batch_norm_factor'],
    when: 'a weight is NaN, or tokens are rejected',
    reported: {
      recommended: 'the mean of the finite weights that are not rejected; NaN if there are none',
      ...both('the mean of all weights; 1 if it is NaN'),
    },
    reason: 'weights that are applied must have mean 1; one NaN must not end that, and is counted',
    upstream: ['verl #498'],
  },
  {
    id: 'unknown-noise',
    keys: ['variance_proxy/proxy1_signal_strength', 'variance_proxy/proxy3_pure_noise'],
    when: 'there is no gradientNorm; for proxy3 also if there is one row, or a NaN inside',
    reported: { recommended: 'NaN', ...both('0') },
    reason: 'what is not known is not 0',
    upstream: ['verl PR6153'],
  },
  {
    id: 'negative-w',
    keys: [
      'variance_proxy/proxy2_total_power',
      'variance_proxy/proxy3_pure_noise',
      'variance_proxy/expected_w',
    ],
    when: 'Σπ² is below π², by rounding or because it was computed otherwise than log π',
    reported: {
      recommended: 'w is at least (1 − π)²',
      ...both('w may be negative, and lowers the sum of its row'),
    },
    reason: 'w is a squared norm',
    upstream: [],
  },
  {
    id: 'small-weights',
    keys: ['variance_proxy/proxy2_total_power', 'variance_proxy/proxy3_pure_noise'],
    when: 'rollout_is_weights below 1e-5, e.g. 0',
    reported: {
      recommended: 'w of the token counts whatever its weight',
      ...both('w·ρ² / max(ρ², 1e-10) loses the token'),
    },
    reason: 'dividing by a clamped number does not undo the multiplication',
    upstream: [],
  },
  {
    id: 'reduction-by-name',
    keys: [],
    functions: ['reduceMetrics'],
    when: 'max or min is in a key, but is no word of it: minibatch_loss, softmax_entropy',
    reported: { recommended: 'the mean', ...both('the minimum or maximum') },
    reason: 'the letters of a name are no declaration; the option aggregations is one',
    upstream: ['verl PR1497', 'verl PR7361'],
  },
  {
    id: 'whitening-epsilon',
    keys: [],
    functions: ['maskedWhiten'],
    when: 'always; it shows where values vary by less than about 1e-3',
    reported: {
      recommended: '(x − μ) / σ; 0 where all values are equal but for float32 rounding',
      ...both('(x − μ) / √(σ² + 1e-8), hardly whitened where σ is below 1e-4'),
    },
    reason: 'a number without a unit must not depend on the unit of the rewards',
    upstream: [],
  },
  {
    id: 'unknown-loss-mode',
    keys: [],
    functions: ['aggLoss', 'computePolicyMetrics'],
    when: "lossAggMode is 'token-sum'",
    reported: {
      recommended: 'the sum over tokens',
      'verl-2026-08': 'the sum over tokens',
      'verl-2026-01': 'ValueError: the revision does not know it',
    },
    reason: 'a later addition',
    upstream: [],
  },
  {
    id: 'unknown-global-count',
    keys: [],
    functions: ['aggLoss', 'computePolicyMetrics'],
    when: 'dpSize is above 1, and the count that the mode divides by is not given',
    reported: {
      recommended: 'MissingInputError',
      'verl-2026-08': 'MissingInputError',
      'verl-2026-01': 'a result by the local count',
    },
    reason: 'ranks with few tokens must not weigh as much as those with many',
    upstream: ['verl #7321', 'verl PR906'],
  },
];

/** Whether a key of the catalogue is among `keys`, in which `*` stands for any characters. */
export function concerns(keys: readonly string[], key: string): boolean {
  return keys.some((pattern) => {
    const [start, ...rest] = pattern.split('*');
    const end = rest.at(-1);
    if (end === undefined) return pattern === key;
    return key.length >= start!.length + end.length && key.startsWith(start!) && key.endsWith(end);
  });
}
