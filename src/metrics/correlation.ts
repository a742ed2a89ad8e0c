/**
 * Pearson correlation of the probabilities of two policies from moments of one pass, whatever their size.
 *
 * A float32 holds p near 1 to 6e-8 and near 0 to its own last digit; p − 1 is the other way round. A correlation is the
 * same of either, so a pass takes the moments of both, of the difference of the probabilities, and of the products of
 * either form with either. Which of them have their digits is decided when the rows are finished, so that rows of
 * micro-batches and ranks still merge.
 */
import { type Expression, exp, expm1, input, max, multiply, subtract } from '../kernels/expression.js';
import { Moments, type MomentsTable } from '../kernels/index.js';
import { isOneNumber } from './rounding.js';

/**
 * Probabilities are kept times 2⁹⁶: those of e⁻¹³⁰ are then within float32, and so are densities up to e²¹. An exact
 * factor, to which correlations are blind.
 */
const SCALE = 2 ** 96;

/** What is computed of every token. */
export interface CorrelationChannels<T> {
  /** e^a − 1 and e^b − 1 */
  readonly actor: T;
  readonly rollout: T;
  /** e^a and e^b, scaled */
  readonly actorScaled: T;
  readonly rolloutScaled: T;
  /** e^a − e^b, scaled */
  readonly difference: T;
  /** e^a · e^b, scaled once */
  readonly product: T;
  /** e^a · (e^b − 1) and (e^a − 1) · e^b, scaled */
  readonly actorByLess: T;
  readonly rolloutByLess: T;
  /** (e^a − 1) · (e^b − 1) */
  readonly lessByLess: T;
}

/** A log-probability whose exponential is 0 even in float64. */
const LOG_OF_NOTHING = -1000;

/** e^x · 2⁹⁶: by halves, so that no factor leaves float32. */
function scaledExp(x: Expression): Expression {
  const half = exp(multiply(0.5, x));
  return multiply(multiply(half, SCALE), half);
}

/** The larger of the two log-probabilities; the floor keeps −Infinity − −Infinity out. */
function larger(a: Expression, b: Expression): Expression {
  return max(max(a, b), LOG_OF_NOTHING);
}

/** (e^(a−m) − 1) − (e^(b−m) − 1) for m the larger of the two: one of the brackets is exactly 0, so nothing cancels. */
function gap(a: Expression, b: Expression): Expression {
  const m = larger(a, b);
  return subtract(expm1(subtract(a, m)), expm1(subtract(b, m)));
}

/** e^a − e^b without cancellation. */
export function probabilityDifference(a: string, b: string): Expression {
  const [x, y] = [input(a), input(b)];
  return multiply(exp(larger(x, y)), gap(x, y));
}

/** The channels of the log-probabilities `a` and `b`. */
export function correlationChannels(a: string, b: string): CorrelationChannels<Expression> {
  const [x, y] = [input(a), input(b)];
  const [halfX, halfY] = [exp(multiply(0.5, x)), exp(multiply(0.5, y))];
  const halves = multiply(halfX, halfY);
  const [actor, rollout] = [expm1(x), expm1(y)];
  const [actorScaled, rolloutScaled] = [scaledExp(x), scaledExp(y)];
  return {
    ...{ actor, rollout, actorScaled, rolloutScaled },
    difference: multiply(scaledExp(larger(x, y)), gap(x, y)),
    product: multiply(multiply(halves, SCALE), halves),
    actorByLess: multiply(actorScaled, rollout),
    rolloutByLess: multiply(actor, rolloutScaled),
    lessByLess: multiply(actor, rollout),
  };
}

/** The correlation; NaN where one side does not vary but for float32 rounding of its log-probabilities. */
export function correlationOf(tables: CorrelationChannels<MomentsTable>): number {
  const of = (table: MomentsTable): Moments => new Moments(table.total());
  const x = sideOf(of(tables.actor), of(tables.actorScaled));
  const y = sideOf(of(tables.rollout), of(tables.rolloutScaled));
  if (x === undefined || y === undefined) return NaN;
  const withX = x.isPlain ? tables.actorByLess : tables.lessByLess;
  const withY = x.isPlain ? tables.product : tables.rolloutByLess;
  const product = of(y.isPlain ? withY : withX);
  const found = [byDifference(x, y, of(tables.difference)), byProduct(x, y, product)];
  const [best] = found.filter(({ r }) => !Number.isNaN(r)).sort((a, b) => a.error - b.error);
  return best === undefined ? NaN : Math.min(1, Math.max(-1, best.r));
}

/** One side: statistics of the form of its probabilities that has their digits. */
interface Side {
  /** Whether that is p, scaled, and not p − 1. */
  readonly isPlain: boolean;
  readonly mean: number;
  /** Population std. */
  readonly std: number;
  /** √E[p²] / std of that form: how many times the rounding of an element counts. */
  readonly condition: number;
}

/** Undefined for a side that does not vary. */
function sideOf(lessOne: Moments, scaled: Moments): Side | undefined {
  const isPlain = isWithinRange(scaled) && !(rootMeanSquare(lessOne) * SCALE < rootMeanSquare(scaled));
  const log = (p: number): number => (isPlain ? Math.log(p / SCALE) : Math.log1p(p));
  const form = isPlain ? scaled : lessOne;
  const { min, max: most, mean } = form;
  const std = form.std(0);
  if (isOneNumber(log(min), log(most)) || !(std > 0 && std < Infinity)) return undefined;
  return { isPlain, mean, std, condition: rootMeanSquare(form) / std };
}

function rootMeanSquare(moments: Moments): number {
  return Math.hypot(moments.mean, moments.std(0));
}

/** A correlation, and how many times the rounding of an element it may be off. */
interface Estimate {
  readonly r: number;
  readonly error: number;
}

/**
 * Since Var(x − y) = σx² + σy² − 2·cov,  r = 1 − (Var(x − y) − (σx − σy)²) / (2·σx·σy). What is computed is the distance
 * from 1, where the correlation of two computations of one policy lies, and no large variances cancel in it.
 */
function byDifference(x: Side, y: Side, difference: Moments): Estimate {
  const d = difference.std(0);
  const [sx, sy] = [scaledStd(x), scaledStd(y)];
  const apart = sx - sy;
  const r = 1 - ((d / sx) * (d / sy) - (apart / sx) * (apart / sy)) / 2;
  const ofStds = (Math.abs(apart) / sy) * x.condition + (Math.abs(apart) / sx) * y.condition;
  return { r, error: (d / sx) * (d / sy) + ofStds };
}

function scaledStd({ isPlain, std }: Side): number {
  return isPlain ? std : std * SCALE;
}

/** cov = E[xy] − E[x]·E[y], for sides of which one is far smaller than the other. */
function byProduct(x: Side, y: Side, product: Moments): Estimate {
  const areBothPlain = x.isPlain && y.isPlain;
  if (areBothPlain && !isWithinRange(product)) return { r: NaN, error: Infinity };
  // xy is scaled once, x and y each.
  const mean = areBothPlain ? (product.mean / x.std) * SCALE : product.mean / x.std;
  const r = mean / y.std - (x.mean / x.std) * (y.mean / y.std);
  return { r, error: x.condition * y.condition + x.condition + y.condition };
}

/** Below it, relative to the largest number, what float32 flushes to 0 would show. */
const LEAST = 2 ** -100;
/** Below it no float32 is; what is smaller was computed in float64, and has its digits. */
const LEAST_FLOAT32 = 2 ** -149;

/** Whether scaled numbers, which are not negative, have not left the range of the numbers of their backend. */
function isWithinRange({ max: most }: Moments): boolean {
  return most < Infinity && (most >= LEAST || (most > 0 && most < LEAST_FLOAT32));
}
