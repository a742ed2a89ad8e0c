/** What a `Metric` keeps, as it travels to another process, and what must hold of it there. */
import { assertNamed, kindOf } from '../../arguments.js';
import { ValueError } from '../../errors.js';

/** How the values of a metric become one. */
export const aggregationNames = ['mean', 'sum', 'min', 'max'] as const;
export type Aggregation = (typeof aggregationNames)[number];

/** What a `Metric` knows: enough for every aggregation, and to go on from elsewhere. */
export interface MetricState {
  readonly aggregation: Aggregation;
  /** Values that were appended. */
  readonly count: number;
  /** Sum of their weights, halved `halvings` times. */
  readonly weight: number;
  /** Sum of weight · value, halved as often. */
  readonly sum: number;
  /** Of the values with a weight; Infinity if there are none. */
  readonly min: number;
  /** −Infinity if there are none. */
  readonly max: number;
  /** How often both sums were halved to stay within float64, so that their ratio keeps its digits; left out for 0. */
  readonly halvings?: number;
}

/** Those of a product of the largest numbers, and of sums of as many as can be counted. */
const MOST_HALVINGS = 1100;

/** What may be left of each value where sums are made in different orders. */
const ROUNDING = 2 ** -40;
/** Below it, products of a weight and a value lose digits to the end of the range of float64. */
const DENORMAL = 2 ** -960;

export function assertAggregation(where: string, input: string, aggregation: unknown): void {
  if ((aggregationNames as readonly unknown[]).includes(aggregation)) return;
  throw new ValueError({
    where,
    input,
    expected: `one of ${aggregationNames.join(', ')}`,
    received: kindOf(aggregation),
    remedy: 'name the way in which the values become one',
  });
}

/** @throws ValueError for what is no state of a metric, and for numbers that no values can have */
export function assertMetricState(where: string, state: MetricState): void {
  const remedy = 'pass the `state` of a metric; JSON has no infinities, structured clones have';
  const refuse = (input: string, expected: string, received: string): never => {
    throw new ValueError({ where, input, expected, received, remedy });
  };
  assertNamed(where, 'state', state, { expected: 'the state of a metric', remedy });
  assertAggregation(where, 'state.aggregation', state.aggregation);
  for (const field of ['count', 'weight', 'sum', 'min', 'max'] as const) {
    if (typeof state[field] !== 'number') refuse(`state.${field}`, 'a number', kindOf(state[field]));
  }
  const { halvings = 0 } = state;
  if (!(Number.isInteger(halvings) && halvings >= 0 && halvings <= MOST_HALVINGS))
    refuse('state.halvings', `a whole number up to ${MOST_HALVINGS}`, kindOf(halvings));
  const fault = faultOf(state, halvings);
  if (fault !== undefined) refuse(`state.${fault.field}`, fault.expected, String(state[fault.field]));
}

interface Fault {
  readonly field: 'count' | 'weight' | 'sum' | 'min' | 'max';
  readonly expected: string;
}

/** Which number contradicts the others: one wrong part would spoil all that it is merged into. */
function faultOf(state: MetricState, halvings: number): Fault | undefined {
  const { aggregation, count, weight, sum, min, max } = state;
  if (!Number.isSafeInteger(count) || count < 0) return { field: 'count', expected: 'a whole number from 0' };
  if (!(weight >= 0 && weight < Infinity)) return { field: 'weight', expected: 'a finite number from 0' };
  if (count === 0 && weight !== 0) return { field: 'weight', expected: '0 for no values' };
  if (aggregation !== 'mean' && halvings === 0 && weight !== count)
    return { field: 'weight', expected: `${count}, which is the count` };
  if (weight === 0 && halvings === 0) {
    if (min !== Infinity) return { field: 'min', expected: 'Infinity for no weight' };
    if (max !== -Infinity) return { field: 'max', expected: '-Infinity for no weight' };
    return sum === 0 ? undefined : { field: 'sum', expected: '0 for no weight' };
  }
  if (Number.isNaN(min) || Number.isNaN(max)) {
    if (Number.isNaN(min) !== Number.isNaN(max)) return { field: 'max', expected: 'NaN if min is' };
    return Number.isNaN(sum) ? undefined : { field: 'sum', expected: 'NaN for values with NaN among them' };
  }
  if (min > max) return { field: 'max', expected: `a number from min, ${min}` };
  const expected = `a sum of values from ${min} to ${max} of the weight ${weight}`;
  return isSum(sum, weight, min, max) ? undefined : { field: 'sum', expected };
}

function isSum(sum: number, weight: number, min: number, max: number): boolean {
  if (min === -Infinity && max === Infinity) return Number.isNaN(sum);
  if (min === -Infinity || max === Infinity) return sum === (min === -Infinity ? -Infinity : Infinity);
  const slack = Math.max(ROUNDING * weight * Math.max(Math.abs(min), Math.abs(max)), DENORMAL);
  return Number.isFinite(sum) && sum >= weight * min - slack && sum <= weight * max + slack;
}
