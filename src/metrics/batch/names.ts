/** Names of columns of verl's batches that no metric reads. */

/** Tensors of verl's batches that no metric reads. */
export const UNREAD_TENSORS = [
  'responses',
  'prompts',
  'input_ids',
  'position_ids',
  'routed_experts',
  'rm_scores',
  'reward_baselines',
  'teacher_log_probs',
  'dummy_tensor',
] as const;

/** Lists of verl's batches that no metric reads. */
export const UNREAD_LISTS = [
  'uid',
  'index',
  'data_source',
  'ability',
  'reward_model',
  'extra_info',
  'raw_prompt',
  'raw_prompt_ids',
  'full_prompts',
  'tools_kwargs',
  'interaction_kwargs',
  'agent_name',
  'request_id',
  'multi_modal_data',
  'multi_modal_inputs',
  'acc',
  'pred',
  'score',
] as const;
