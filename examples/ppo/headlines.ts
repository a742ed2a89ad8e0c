/** The metrics that say how a step went: some fifteen of the two hundred that there are. */

/** Names, or what the name of a validation's metric looks like, in the order of importance. */
const HEADLINES: readonly (string | RegExp)[] = [
  'critic/score/mean',
  /^val-core\/.*\/mean@\d+$/,
  /^val-core\/.*\/best@\d+\/mean$/,
  'response_length/mean',
  'response_length/clip_ratio',
  'critic/vf_explained_var',
  'ppo_actor/update/actor_loss/avg',
  'ppo_actor/update/approx_kl/avg',
  'ppo_actor/update/clip_ratio/avg',
  'ppo_actor/update/entropy/avg',
  'ppo_actor/update/grad_norm',
  'ppo_critic/update/critic_loss/avg',
  'ppo_critic/update/grad_norm',
  'training/rollout_probs_diff_mean',
  'perf/throughput',
  'timing_s/step',
];

/** Those of `metrics` that are headlines, of each pattern the last one: the most samples. */
export function headlines(metrics: Readonly<Record<string, number>>): Record<string, number> {
  const names = Object.keys(metrics);
  const found = HEADLINES.map((wanted) =>
    names.findLast((name) => (typeof wanted === 'string' ? name === wanted : wanted.test(name))),
  );
  return Object.fromEntries(found.flatMap((name) => (name === undefined ? [] : [[name, metrics[name]!]])));
}
