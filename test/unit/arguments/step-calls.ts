/** All metrics of a step at once. Not a test. */
import {
  type StepMetricsOptions,
  StepState,
  type StepStateOptions,
  computeStepMetrics,
  computeStepState,
  batchFromVerl,
  correctedStep,
  type RolloutBatch,
} from '../../../src/index.js';
import { batch, columns, tensor } from './batch.js';
import { count, flag, options, type Parameter, type Rows } from './row.js';

const anObject: Parameter = { fits: {}, takes: ['undefined', 'object'] };

function withLogProbs(): RolloutBatch {
  return batchFromVerl({ ...columns(), old_log_probs: tensor(), rollout_log_probs: tensor() });
}

export const stepCalls: Rows = {
  computeStepMetrics: () => ({
    parameters: [{ fits: batch(), takes: [] }, options()],
    isAsync: true,
    call: computeStepMetrics,
  }),
  'computeStepMetrics{option}': () => ({
    parameters: [
      { fits: { step: 1 }, takes: ['undefined', 'object'] },
      { fits: 2, takes: ['undefined', 'number'] },
      count,
      flag,
      anObject,
      anObject,
      { fits: 'recommended', takes: ['undefined'] },
      { fits: () => undefined, takes: ['undefined', 'function'] },
    ],
    isAsync: true,
    call: (
      timing: StepMetricsOptions['timing'],
      nGpus: number,
      gradientNorm: number,
      useCritic: boolean,
      rolloutCorrection: object,
      policy: object,
      semantics: 'recommended',
      onSkipped: () => void,
    ) =>
      computeStepMetrics(batch(), {
        timing,
        nGpus,
        gradientNorm,
        useCritic,
        rolloutCorrection,
        policy,
        semantics,
        onSkipped,
      }),
  }),
  correctedStep: () => ({
    parameters: [
      { fits: withLogProbs(), takes: [] },
      { fits: { rolloutCorrection: {} }, takes: ['object'] },
    ],
    isAsync: true,
    call: correctedStep,
  }),
  computeStepState: () => ({
    parameters: [{ fits: batch(), takes: [] }, options()],
    isAsync: true,
    call: computeStepState,
  }),
  'computeStepState{option}': () => ({
    parameters: [
      count,
      flag,
      anObject,
      anObject,
      count,
      { fits: ['data', 'groups'], takes: ['undefined'] },
      { fits: ['a', 'b'], takes: ['undefined'] },
      { fits: 'recommended', takes: ['undefined'] },
    ],
    isAsync: true,
    call: (
      maxResponseLength: number,
      useCritic: boolean,
      rolloutCorrection: object,
      policy: object,
      rightAbove: number,
      families: StepStateOptions['families'],
      groups: string[],
      semantics: 'recommended',
    ) => {
      const asked = { maxResponseLength, useCritic, rolloutCorrection, policy, rightAbove };
      return computeStepState(batch(), { ...asked, families, groups, semantics });
    },
  }),
  'StepState.merge': () => ({
    parameters: [{ fits: [state()], takes: [] }],
    call: (states: StepState[]) => StepState.merge(states),
  }),
  'StepState.fromBytes': () => ({
    parameters: [{ fits: state().toBytes(), takes: [] }],
    call: (bytes: Uint8Array) => StepState.fromBytes(bytes),
  }),
  'StepState#metrics': () => ({
    parameters: [options()],
    call: (facts: object) => state().metrics(facts),
  }),
  'StepState#metrics{fact}': () => ({
    parameters: [{ fits: { step: 1 }, takes: ['undefined', 'object'] }, count, count],
    call: (timing: Record<string, number>, nGpus: number, gradientNorm: number) =>
      state().metrics({ timing, nGpus, gradientNorm }),
  }),
};

/** Of no rows, as a rank without work has it. */
function state(): StepState {
  return new StepState({
    options: {},
    rows: 0,
    tables: {},
    skipped: {},
    families: undefined,
    lengths: { prompt: new Float64Array(), response: new Float64Array() },
    responseWidth: 0,
    promptWidth: 0,
    isFullSequence: undefined,
    numTurns: undefined,
    toolCallCounts: undefined,
    groups: undefined,
    globalTokenNum: undefined,
  });
}
