/**
 * Pearson correlation of the probabilities of two policies from moments of one pass, whatever their size.
 *
 * A float32 holds p near 1 to 6e-8 and near 0 to its own last digit; p − 1 is the other way round. A correlation is the
 * same of either, and of p times any factor. So a pass takes the moments of p − 1, of p times two fixed factors, of the
 * difference of the probabilities, and of the products of any of these forms with any. Which of them have their digits is
 * decided when the rows are finished, so that rows of micro-batches and ranks still merge.
 *
 * The factors are fixed, because a pass reads every tensor once: the largest probability is known only when it is over, and
 * totals that were taken with different factors could not be merged.
 */
import {
  type Expression,
  exp,
  expm1,
  input,
  max,
  min,
  multiply,
  square,
  subtract,
} from '../../kernels/expression.js';
import { Moments, type MomentsTable } from '../../rows/index.js';
import { isOneNumber } from './rounding.js';

/**
 * How a probability is kept: less 1, times 2^96 or times 2^320, by the exponent of the factor. Within float32 the second
 * form has those from e⁻¹³⁵ to e²¹, the third those from e⁻²⁹⁰ on; larger ones are cut in it, to a number that says so.
 */
const EXPONENTS = { less: 0, scaled: 96, fine: 320 } as const;
type Form = keyof typeof EXPONENTS;

/** The factors of e^(a + b), as exponents of 2, in the order of the channels `product…`. */
const PRODUCT_EXPONENTS = [96, 320, 544, 768] as const;

/** Numbers are cut at 2^124, of which this is the fourth root; not those with the smallest factors. */
const FOURTH_ROOT_OF_MOST = 2 ** 31;
const MOST = FOURTH_ROOT_OF_MOST ** 4;

/** What is computed of every token. */
export interface CorrelationChannels<T> {
  /** e^a − 1 and e^b − 1 */
  readonly actor: T;
  readonly rollout: T;
  /** e^a and e^b, times 2^96 */
  readonly actorScaled: T;
  readonly rolloutScaled: T;
  /** e^a and e^b, times 2^320 */
  readonly actorFine: T;
  readonly rolloutFine: T;
  /** e^a − e^b, times 2^96 */
  readonly difference: T;
  /** e^a · e^b, times 2 to the `PRODUCT_EXPONENTS` */
  readonly product: T;
  readonly product320: T;
  readonly product544: T;
  readonly product768: T;
  /** e^a · (e^b − 1) and (e^a − 1) · e^b, times 2^96 */
  readonly actorByLess: T;
  readonly rolloutByLess: T;
  /** The same, times 2^320 */
  readonly actorFineByLess: T;
  readonly rolloutFineByLess: T;
  /** (e^a − 1) · (e^b − 1) */
  readonly lessByLess: T;
}

/** A log-probability whose exponential is 0 even in float64. */
const LOG_OF_NOTHING = -1000;

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
  // The fourth roots of probabilities stay within float32 until the factor is multiplied in.
  const [rootX, rootY] = [exp(multiply(0.25, x)), exp(multiply(0.25, y))];
  const fourth = (root: Expression): Expression => square(square(root));
  const cut = (root: Expression): Expression => fourth(min(root, FOURTH_ROOT_OF_MOST));
  const scaled = (root: Expression): Expression => fourth(multiply(root, 2 ** (EXPONENTS.scaled / 4)));
  const fine = (root: Expression): Expression => cut(multiply(root, 2 ** (EXPONENTS.fine / 4)));
  const rootOfProduct = (exponent: number): Expression =>
    multiply(multiply(rootX, 2 ** (exponent / 8)), multiply(rootY, 2 ** (exponent / 8)));
  const [actor, rollout] = [expm1(x), expm1(y)];
  const [actorScaled, rolloutScaled] = [scaled(rootX), scaled(rootY)];
  const [actorFine, rolloutFine] = [fine(rootX), fine(rootY)];
  return {
    ...{ actor, rollout, actorScaled, rolloutScaled, actorFine, rolloutFine },
    difference: multiply(scaled(max(rootX, rootY)), gap(x, y)),
    product: fourth(rootOfProduct(PRODUCT_EXPONENTS[0])),
    product320: cut(rootOfProduct(PRODUCT_EXPONENTS[1])),
    product544: cut(rootOfProduct(PRODUCT_EXPONENTS[2])),
    product768: cut(rootOfProduct(PRODUCT_EXPONENTS[3])),
    actorByLess: multiply(actorScaled, rollout),
    rolloutByLess: multiply(actor, rolloutScaled),
    actorFineByLess: multiply(actorFine, rollout),
    rolloutFineByLess: multiply(actor, rolloutFine),
    lessByLess: multiply(actor, rollout),
  };
}

/** The correlation; NaN where one side does not vary but for float32 rounding of its log-probabilities. */
export function correlationOf(tables: CorrelationChannels<MomentsTable>): number {
  const of = (table: MomentsTable): Moments => new Moments(table.total());
  const x = sideOf(of(tables.actor), of(tables.actorScaled), of(tables.actorFine));
  const y = sideOf(of(tables.rollout), of(tables.rolloutScaled), of(tables.rolloutFine));
  if (x === undefined || y === undefined) return NaN;
  const found = [byDifference(x, y, of(tables.difference)), byProduct(x, y, productOf(x, y, tables))];
  const [best] = found.filter(({ r }) => !Number.isNaN(r)).sort((a, b) => a.error - b.error);
  return best === undefined ? NaN : Math.min(1, Math.max(-1, best.r));
}

/** One side: statistics of the form of its probabilities that has their digits. */
interface Side {
  readonly form: Form;
  readonly mean: number;
  /** Population std. */
  readonly std: number;
  /** √E[p²] / std of that form: how many times the rounding of an element counts. */
  readonly condition: number;
}

/** Undefined for a side that does not vary, or that no form has the digits of. */
function sideOf(less: Moments, scaled: Moments, fine: Moments): Side | undefined {
  const isFine = !hasDigits(scaled) && (hasDigits(fine, MOST) || isFloat64(fine));
  const [plain, exponent] = isFine ? [fine, EXPONENTS.fine] : [scaled, EXPONENTS.scaled];
  const isPlain =
    (isFine || hasDigits(scaled)) && !(rootMeanSquare(less) * 2 ** exponent < rootMeanSquare(plain));
  const log = (p: number): number => (isPlain ? Math.log(p) - exponent * Math.LN2 : Math.log1p(p));
  const moments = isPlain ? plain : less;
  const std = moments.std(0);
  if (isOneNumber(log(moments.min), log(moments.max)) || !(std > 0 && std < Infinity)) return undefined;
  const form = !isPlain ? 'less' : isFine ? 'fine' : 'scaled';
  return { form, mean: moments.mean, std, condition: rootMeanSquare(moments) / std };
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

/** In the unit of the difference; NaN for a side that is too small to have digits there. */
function scaledStd({ form, std }: Side): number {
  return form === 'fine' ? NaN : std * 2 ** (EXPONENTS.scaled - EXPONENTS[form]);
}

/** Mean of the product of the forms of two sides, and the exponent of its factor. */
interface Product {
  readonly mean: number;
  readonly exponent: number;
}

function productOf(x: Side, y: Side, tables: CorrelationChannels<MomentsTable>): Product {
  const of = (table: MomentsTable): Moments => new Moments(table.total());
  if (x.form === 'less' || y.form === 'less') {
    const byLess = { less: tables.lessByLess, scaled: tables.actorByLess, fine: tables.actorFineByLess };
    const lessBy = { ...byLess, scaled: tables.rolloutByLess, fine: tables.rolloutFineByLess };
    const { mean } = of(y.form === 'less' ? byLess[x.form] : lessBy[y.form]);
    return { mean, exponent: EXPONENTS[x.form] + EXPONENTS[y.form] };
  }
  const products = [tables.product, tables.product320, tables.product544, tables.product768].map(of);
  const found = products.findIndex((product, i) => hasDigits(product, i === 0 ? Infinity : MOST));
  // What lacks digits times the largest factor is nothing beside the product of the means: these are within range.
  const chosen = found === -1 ? products.length - 1 : found;
  const { mean, max: largest } = products[chosen]!;
  return { mean: found === -1 && !(largest < LEAST) ? NaN : mean, exponent: PRODUCT_EXPONENTS[chosen]! };
}

/** cov = E[xy] − E[x]·E[y], for sides of which one is far smaller than the other. */
function byProduct(x: Side, y: Side, product: Product): Estimate {
  const toForms = 2 ** (EXPONENTS[x.form] + EXPONENTS[y.form] - product.exponent);
  const r = (product.mean / x.std / y.std) * toForms - (x.mean / x.std) * (y.mean / y.std);
  return { r, error: x.condition * y.condition + x.condition + y.condition };
}

/** Below it float32 flushes to 0 what would show beside the largest number; half a bit is for rounding. */
const LEAST = 2 ** -100.5;

/** Whether numbers that are not negative have the digits of float32. */
function hasDigits({ max: largest }: Moments, most = Infinity): boolean {
  return largest >= LEAST && largest < most;
}

/** Whether they were computed in float64, since the largest is no float32: they have digits far below its range. */
function isFloat64({ max: largest }: Moments): boolean {
  return largest > 0 && largest < MOST && largest !== Math.fround(largest);
}
