/** All metrics of a step at once. Not a test. */
import { type StepMetricsOptions, computeStepMetrics } from '../../../src/index.js';
import { batch } from './batch.js';
import { count, flag, options, type Parameter, type Rows } from './row.js';

const anObject: Parameter = { fits: {}, takes: ['undefined', 'object'] };

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
};
