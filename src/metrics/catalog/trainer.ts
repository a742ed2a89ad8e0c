/**
 * Catalogue: what only the trainer knows. Nothing here computes these; they are logged beside the metrics of a step,
 * under the names that verl uses, so that `explain` knows them and `reduceMetrics` averages them.
 */
import { AT_LEAST_0, type CatalogEntry, COUNT, SHARE, ofFamily } from './entry.js';

const GPU_MEMORY = 'the processes of one rank, in 2^30 bytes';

export const trainerEntries: readonly CatalogEntry[] = ofFamily(
  'trainer',
  'verl, trainer/ppo/ray_trainer.py',
  [
    {
      key: 'training/global_step',
      unit: 'steps',
      population: 'the run',
      reduction: 'count',
      range: COUNT,
      formula: 'optimiser steps of the run so far, counted by the trainer',
    },
    {
      key: 'training/epoch',
      unit: 'epochs',
      population: 'the run',
      reduction: 'count',
      range: COUNT,
      formula: 'passes over the training prompts so far',
    },
    {
      key: '{network}/lr',
      placeholders: { network: ['actor', 'critic'] },
      unit: '1',
      population: 'the step',
      reduction: 'mean',
      range: AT_LEAST_0,
      formula: 'learning rate after the scheduler, averaged over the mini-batches of the step',
      source: 'verl, workers/fsdp_workers.py',
    },
    {
      key: '{network}/grad_norm',
      placeholders: { network: ['actor', 'critic'] },
      unit: '1',
      population: 'the step',
      reduction: 'mean',
      range: AT_LEAST_0,
      formula:
        'Euclidean norm of the gradient before clipping, averaged over the mini-batches of the step; the option gradientNorm takes it',
      undefinedWhen: 'a gradient is',
      source: 'verl, workers/actor/dp_actor.py and workers/critic/dp_critic.py',
    },
    {
      key: 'actor/kl_coef',
      unit: '1',
      population: 'the step',
      reduction: 'mean',
      range: AT_LEAST_0,
      formula: 'weight of actor/kl_loss in the loss',
      source: 'verl, workers/actor/dp_actor.py',
    },
    {
      key: 'actor/reward_kl_penalty_coeff',
      unit: '1',
      population: 'the step',
      reduction: 'mean',
      range: AT_LEAST_0,
      formula: 'weight of actor/reward_kl_penalty in the rewards, before the controller updates it',
    },
    {
      key: 'perf/mfu/{stage}',
      placeholders: { stage: 'text' },
      unit: '1',
      population: 'the GPUs of the stage',
      reduction: 'ratio',
      range: SHARE,
      formula: 'estimated floating-point operations / (time · GPUs · what the GPU promises per second)',
      undefinedWhen: 'verl does not know the model or the GPU; verl reports 0 there',
      source: 'verl, utils/flops_counter.py',
    },
    {
      key: 'perf/max_memory_allocated_gb',
      unit: 'GiB',
      population: GPU_MEMORY,
      reduction: 'max',
      range: AT_LEAST_0,
      formula: 'most GPU memory that tensors have held',
      source: 'verl, workers/fsdp_workers.py',
    },
    {
      key: 'perf/max_memory_reserved_gb',
      unit: 'GiB',
      population: GPU_MEMORY,
      reduction: 'max',
      range: AT_LEAST_0,
      formula: 'most GPU memory that the allocator has reserved',
      source: 'verl, workers/fsdp_workers.py',
    },
    {
      key: 'perf/cpu_memory_used_gb',
      unit: 'GiB',
      population: 'the machine of one rank, in 2^30 bytes',
      reduction: 'mean',
      range: AT_LEAST_0,
      formula: 'memory in use on the host',
      source: 'verl, workers/fsdp_workers.py',
    },
  ],
);
