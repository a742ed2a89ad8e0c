/** The public functions on samples, and metrics that are merged. Not a test. */
import {
  type Aggregation,
  Metric,
  bootstrapMetric,
  calcMajVal,
  explainMetric,
  passAtK,
  passHatK,
  processValidationMetrics,
  reduceMetrics,
} from '../../../src/index.js';
import { type Parameter, type Rows, count, flag, name, number, options, record } from './row.js';

/** A list with something in it, which the empty one is not. */
const list = (fits: readonly unknown[]): Parameter => ({ fits, takes: [] });
const aggregation: Parameter = { fits: 'mean', takes: [] };
const value: Parameter = { fits: 1, takes: ['number'] };
const uid: Parameter = { fits: 'p', takes: ['text', 'number'] };

export const validationCalls: Rows = {
  explainMetric: () => ({
    parameters: [{ fits: 'critic/vf_explained_var', takes: [] }],
    call: explainMetric,
  }),
  processValidationMetrics: () => ({
    parameters: [list(['s']), list(['p']), record({ acc: [1] }), options()],
    call: processValidationMetrics,
  }),
  'processValidationMetrics{option}': () => ({
    parameters: [{ fits: 'exact', takes: ['undefined'] }, flag, count, count],
    call: (estimator: 'exact', replacement: boolean, seed: number, nBootstrap: number) =>
      processValidationMetrics(['s'], ['p'], {}, { estimator, replacement, seed, nBootstrap }),
  }),
  'processValidationMetrics{column}': () => ({
    parameters: [list([1]), list(['a'])],
    call: (acc: number[], pred: string[]) => processValidationMetrics(['s'], ['p'], { acc, pred }),
  }),
  'processValidationMetrics{sample}': () => ({
    // What is no number is counted, whatever it is; a vote must be something that can be compared.
    parameters: [
      name('s'),
      uid,
      {
        fits: 1,
        takes: [
          'undefined',
          'null',
          'number',
          'text',
          'array',
          'boolean',
          'bigint',
          'symbol',
          'function',
          'object',
        ],
      },
      { fits: 'a', takes: ['undefined', 'null', 'number', 'text', 'boolean', 'bigint'] },
    ],
    call: (source: string, uid: string, acc: unknown, pred: unknown) =>
      processValidationMetrics([source], [uid], { acc: [acc], pred: [pred] }),
  }),
  bootstrapMetric: () => ({
    parameters: [list([1, 2]), number(2), { fits: [], takes: ['array'] }, options()],
    call: bootstrapMetric,
  }),
  'bootstrapMetric{option}': () => ({
    parameters: [count, count, { fits: () => 1, takes: [] }, value],
    call: (nBootstrap: number, seed: number, reduce: () => number, found: number) =>
      bootstrapMetric([1], 1, [reduce, () => found], { nBootstrap, seed }),
  }),
  calcMajVal: () => ({
    parameters: [list([{ pred: 'a', val: 1 }]), { fits: 'pred', takes: [] }, { fits: 'val', takes: [] }],
    call: calcMajVal,
  }),
  'calcMajVal{sample}': () => ({
    parameters: [
      { fits: 'a', takes: ['null', 'number', 'text', 'boolean', 'bigint'] },
      { fits: 1, takes: ['number', 'boolean'] },
    ],
    call: (pred: unknown, val: unknown) => calcMajVal([{ pred, val }], 'pred', 'val'),
  }),
  passAtK: () => ({
    parameters: [number(9), { fits: 3, takes: ['number'] }, number(2)],
    call: passAtK,
  }),
  passHatK: () => ({ parameters: [number(9), number(3), number(2)], call: passHatK }),
  reduceMetrics: () => ({ parameters: [record({ x: [1] }), options()], call: reduceMetrics }),
  'reduceMetrics{value}': () => ({
    parameters: [
      { fits: [1], takes: ['array'] },
      value,
      { fits: {}, takes: ['undefined', 'object'] },
      { fits: 'recommended', takes: ['undefined'] },
      aggregation,
    ],
    call: (
      x: number[],
      element: number,
      aggregations: Record<string, Aggregation>,
      semantics: 'recommended',
      declared: Aggregation,
    ) => {
      reduceMetrics({ x, y: [element] }, { aggregations, semantics });
      reduceMetrics({}, { aggregations: { x: declared } });
    },
  }),
  Metric: () => ({
    parameters: [aggregation, { fits: 1, takes: ['undefined', 'number'] }],
    call: (kind: Aggregation, first: number) => new Metric(kind, first),
  }),
  'Metric#append': () => ({
    parameters: [value, count],
    call: (given: number, weight: number) => new Metric('mean').append(given, weight),
  }),
  'Metric#extend': () => ({
    // A list of letters is not meant, so a text is refused.
    parameters: [{ fits: [1], takes: ['array'] }],
    call: (given: number[]) => new Metric('mean').extend(given),
  }),
  'Metric.merge': () => ({
    parameters: [list([new Metric('mean')])],
    call: (given: Metric[]) => Metric.merge(given),
  }),
  'Metric.aggregateDp': () => ({
    parameters: [list([new Metric('mean')])],
    call: (given: Metric[]) => Metric.aggregateDp(given),
  }),
  'Metric.fromState': () => ({
    parameters: [{ fits: new Metric('mean').state, takes: [] }],
    call: (state: Metric['state']) => Metric.fromState(state),
  }),
  'Metric.fromState{field}': () => ({
    parameters: [aggregation, value],
    call: (kind: Aggregation, sum: number) =>
      Metric.fromState({ ...new Metric('mean', 5).state, aggregation: kind, sum }),
  }),
};
