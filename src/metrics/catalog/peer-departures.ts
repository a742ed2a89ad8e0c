/** Where every semantics differs from verl, with the reports behind it. */

/** Where every semantics reports something, and verl does something else. */
export interface PeerDeparture {
  /** Keys of catalogue entries; `*` stands for any characters. */
  readonly keys: readonly string[];
  readonly when: string;
  readonly verl: string;
  readonly here: string;
  readonly upstream: readonly string[];
}

export const peerDepartures: readonly PeerDeparture[] = [
  {
    keys: ['critic/*'],
    when: 'every row is aborted, or no token is selected',
    verl: '2026-01 raises RuntimeError',
    here: 'NaN',
    upstream: ['microsoft/agent-lightning #446'],
  },
  {
    keys: ['timing_per_token_ms/*'],
    when: 'there are no tokens',
    verl: '2026-01 raises ZeroDivisionError',
    here: 'NaN (0 under verl-2026-08)',
    upstream: ['verl PR6675'],
  },
  {
    keys: ['perf/throughput'],
    when: 'the step took no time, or there are no GPUs',
    verl: 'raises ZeroDivisionError',
    here: 'NaN',
    upstream: [],
  },
  {
    keys: ['rollout_corr/*'],
    when: 'no token is selected',
    verl: 'raises ValueError',
    here: 'NaN',
    upstream: ['microsoft/agent-lightning #446'],
  },
  {
    keys: ['training/rollout_*'],
    when: 'no token is selected',
    verl: '2026-01 raises RuntimeError',
    here: 'rollout_probs_diff_valid 0, the others NaN',
    upstream: ['verl #5859', 'verl PR5860'],
  },
  {
    keys: ['variance_proxy/*'],
    when: 'the batch lacks an input',
    verl: 'reports nothing, in silence',
    here: 'MissingInputError under recommended, an empty record under the presets',
    upstream: ['verl PR6153'],
  },
  {
    keys: ['val-core/*', 'val-aux/*'],
    when: 'best, worst and majority of n values',
    verl: 'means of 1000 draws, the same draws for every prompt',
    here: "exact expectations of such draws; estimator: 'bootstrap' draws anew for every prompt",
    upstream: ['verl PR7240', 'huggingface/lighteval #408', 'PrimeIntellect-ai/prime-rl PR1834'],
  },
  {
    keys: ['val-core/*', 'val-aux/*'],
    when: 'a sample has no value, or one that is no number',
    verl: 'raises TypeError',
    here: 'the sample is left out, n shrinks, and the report counts it',
    upstream: ['verl #6830'],
  },
];
