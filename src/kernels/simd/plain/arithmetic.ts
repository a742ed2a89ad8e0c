/** Operations on tiles by their meaning in the expression language, see ../assembly/arithmetic.ts. */
import { binaryOps, unaryOps } from '../../expression.js';
import type { SimdExports } from '../module.generated.js';
import type { Cells, Stored } from './cells.js';

type Unary = (a: number, aStep: number, out: number, n: number) => void;
type Binary = (a: number, aStep: number, b: number, bStep: number, out: number, n: number) => void;

/** What the module has for expressions. */
type Arithmetic = Pick<
  SimdExports,
  | 'absolute'
  | 'add'
  | 'choose'
  | 'divide'
  | 'equal'
  | 'expm1'
  | 'expm1Residual'
  | 'exponential'
  | 'larger'
  | 'less'
  | 'lessEqual'
  | 'log1p'
  | 'logarithm'
  | 'multiply'
  | 'negate'
  | 'notEqual'
  | 'smaller'
  | 'square'
  | 'squareRoot'
  | 'subtract'
  | 'subtractFloat32'
  | 'widenBool'
  | 'widenFloat32'
  | 'widenInt32'
>;

/** Bytes of a float64. */
const WIDE = 8;

/** Elements that a step in bytes moves by: steps are per pair. */
function strideOf(step: number): number {
  return step / (2 * WIDE);
}

export function arithmetic(cells: Cells): Arithmetic {
  const widen =
    (stored: Stored) =>
    (x: number, n: number, out: number): void => {
      cells.float64.set(cells.elements(stored, x, n), out / WIDE);
    };
  const unary =
    (f: (x: number) => number): Unary =>
    (a, aStep, out, n) => {
      const { float64 } = cells;
      const stride = strideOf(aStep);
      for (let i = 0; i < n; i++) float64[out / WIDE + i] = f(float64[a / WIDE + i * stride]!);
    };
  const binary =
    (f: (x: number, y: number) => number): Binary =>
    (a, aStep, b, bStep, out, n) => {
      const { float64 } = cells;
      const [left, right] = [strideOf(aStep), strideOf(bStep)];
      for (let i = 0; i < n; i++) {
        float64[out / WIDE + i] = f(float64[a / WIDE + i * left]!, float64[b / WIDE + i * right]!);
      }
    };
  return {
    widenFloat32: widen('Float32'),
    widenInt32: widen('Int32'),
    widenBool: widen('Bool'),
    negate: unary(unaryOps.negate),
    absolute: unary(unaryOps.abs),
    square: unary(unaryOps.square),
    squareRoot: unary(unaryOps.sqrt),
    exponential: unary(unaryOps.exp),
    expm1: unary(unaryOps.expm1),
    expm1Residual: unary(expm1Residual),
    logarithm: unary(unaryOps.log),
    log1p: unary(unaryOps.log1p),
    add: binary(binaryOps.add),
    subtract: binary(binaryOps.subtract),
    multiply: binary(binaryOps.multiply),
    divide: binary(binaryOps.divide),
    smaller: binary(binaryOps.min),
    larger: binary(binaryOps.max),
    less: binary(binaryOps.less),
    lessEqual: binary(binaryOps.lessEqual),
    equal: binary(binaryOps.equal),
    notEqual: binary(binaryOps.notEqual),
    subtractFloat32: (a, b, n, out) => {
      const [left, right] = [cells.elements('Float32', a, n), cells.elements('Float32', b, n)];
      const { float64 } = cells;
      for (let i = 0; i < n; i++) float64[out / WIDE + i] = left[i]! - right[i]!;
    },
    choose: (a, aStep, b, bStep, c, cStep, out, n) => {
      const { float64 } = cells;
      const [condition, yes, no] = [strideOf(aStep), strideOf(bStep), strideOf(cStep)];
      for (let i = 0; i < n; i++) {
        float64[out / WIDE + i] =
          float64[a / WIDE + i * condition] !== 0
            ? float64[b / WIDE + i * yes]!
            : float64[c / WIDE + i * no]!;
      }
    },
  };
}

/** Above this, expm1(x) − x has its digits; below, the terms of the series that are left out are under 1e-16 of it. */
const SERIES = 0.5;

/** expm1(x) − x = x²/2! + x³/3! + …, which near 0 has none of its digits as a difference. */
function expm1Residual(x: number): number {
  if (!(Math.abs(x) < SERIES)) return Math.expm1(x) - x;
  let tail = 1;
  for (let k = 16; k > 2; k--) tail = 1 + (x / k) * tail;
  return ((x * x) / 2) * tail;
}
