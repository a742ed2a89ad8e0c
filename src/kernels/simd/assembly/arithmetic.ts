/**
 * Expressions, one operation at a time over a tile: float64 in, float64 out.
 *
 * An operand is an address and a step in bytes per pair of elements: 16 for a buffer, 0 for one pair that stands for
 * all of them, a constant. Buffers have room for a multiple of four elements; what is computed behind the last element
 * is never read.
 */
import { highPair, loadPair, loadQuad, lowPair } from './quads.js';
import { expPair, expm1Pair, expm1ResidualPair, log1pPair, logPair } from './exponentials.js';

/** Writes `n` float32 at `x` to `out` as float64. */
export function widenFloat32(x: usize, n: i32, out: usize): void {
  widen<f32>(x, n, out);
}

/** Writes `n` int32 at `x` to `out` as float64. */
export function widenInt32(x: usize, n: i32, out: usize): void {
  widen<i32>(x, n, out);
}

/** Writes `n` bool at `x`, one byte each, to `out` as float64. */
export function widenBool(x: usize, n: i32, out: usize): void {
  widen<u8>(x, n, out);
}

/* @inline */ function widen<T>(x: usize, n: i32, out: usize): void {
  const end = x + <usize>n * sizeof<T>();
  for (const whole = x + <usize>(n & ~3) * sizeof<T>(); x < whole; x += 4 * sizeof<T>()) {
    const quad = loadQuad<T>(x);
    v128.store(out, lowPair<T>(quad));
    v128.store(out, highPair<T>(quad), 16);
    out += 32;
  }
  for (; x < end; x += sizeof<T>()) {
    store<f64>(out, <f64>load<T>(x));
    out += 8;
  }
}

/** Operations of one operand, for `mapUnary`. */
const NEGATE: i32 = 0;
const ABS: i32 = 1;
const SQUARE: i32 = 2;
const SQRT: i32 = 3;
const EXP: i32 = 4;
const EXPM1: i32 = 5;
const EXPM1_RESIDUAL: i32 = 6;
const LOG: i32 = 7;
const LOG1P: i32 = 8;

export function negate(a: usize, aStep: usize, out: usize, n: i32): void {
  mapUnary(NEGATE, a, aStep, out, n);
}

export function absolute(a: usize, aStep: usize, out: usize, n: i32): void {
  mapUnary(ABS, a, aStep, out, n);
}

export function square(a: usize, aStep: usize, out: usize, n: i32): void {
  mapUnary(SQUARE, a, aStep, out, n);
}

export function squareRoot(a: usize, aStep: usize, out: usize, n: i32): void {
  mapUnary(SQRT, a, aStep, out, n);
}

export function exponential(a: usize, aStep: usize, out: usize, n: i32): void {
  mapUnary(EXP, a, aStep, out, n);
}

export function expm1(a: usize, aStep: usize, out: usize, n: i32): void {
  mapUnary(EXPM1, a, aStep, out, n);
}

/** expm1(a) − a. */
export function expm1Residual(a: usize, aStep: usize, out: usize, n: i32): void {
  mapUnary(EXPM1_RESIDUAL, a, aStep, out, n);
}

export function logarithm(a: usize, aStep: usize, out: usize, n: i32): void {
  mapUnary(LOG, a, aStep, out, n);
}

export function log1p(a: usize, aStep: usize, out: usize, n: i32): void {
  mapUnary(LOG1P, a, aStep, out, n);
}

/* @inline */ function mapUnary(operation: i32, a: usize, aStep: usize, out: usize, n: i32): void {
  for (const end = out + ((<usize>n) << 3); out < end; out += 32) {
    v128.store(out, unaryPair(operation, v128.load(a)));
    a += aStep;
    v128.store(out, unaryPair(operation, v128.load(a)), 16);
    a += aStep;
  }
}

/* @inline */ function unaryPair(operation: i32, a: v128): v128 {
  if (operation == NEGATE) return f64x2.neg(a);
  if (operation == ABS) return f64x2.abs(a);
  if (operation == SQUARE) return f64x2.mul(a, a);
  if (operation == SQRT) return f64x2.sqrt(a);
  if (operation == EXP) return expPair(a);
  if (operation == EXPM1) return expm1Pair(a);
  if (operation == EXPM1_RESIDUAL) return expm1ResidualPair(a);
  if (operation == LOG) return logPair(a);
  return log1pPair(a);
}

/** Operations of two operands, for `mapBinary`. */
const ADD: i32 = 0;
const SUBTRACT: i32 = 1;
const MULTIPLY: i32 = 2;
const DIVIDE: i32 = 3;
const MIN: i32 = 4;
const MAX: i32 = 5;
const LESS: i32 = 6;
const LESS_EQUAL: i32 = 7;
const EQUAL: i32 = 8;
const NOT_EQUAL: i32 = 9;

export function add(a: usize, aStep: usize, b: usize, bStep: usize, out: usize, n: i32): void {
  mapBinary(ADD, a, aStep, b, bStep, out, n);
}

export function subtract(a: usize, aStep: usize, b: usize, bStep: usize, out: usize, n: i32): void {
  mapBinary(SUBTRACT, a, aStep, b, bStep, out, n);
}

export function multiply(a: usize, aStep: usize, b: usize, bStep: usize, out: usize, n: i32): void {
  mapBinary(MULTIPLY, a, aStep, b, bStep, out, n);
}

export function divide(a: usize, aStep: usize, b: usize, bStep: usize, out: usize, n: i32): void {
  mapBinary(DIVIDE, a, aStep, b, bStep, out, n);
}

/** The smaller; NaN if either is. */
export function smaller(a: usize, aStep: usize, b: usize, bStep: usize, out: usize, n: i32): void {
  mapBinary(MIN, a, aStep, b, bStep, out, n);
}

/** The larger; NaN if either is. */
export function larger(a: usize, aStep: usize, b: usize, bStep: usize, out: usize, n: i32): void {
  mapBinary(MAX, a, aStep, b, bStep, out, n);
}

/** a − b of `n` float32 each, which would take twice as long if they were widened first. */
export function subtractFloat32(a: usize, b: usize, n: i32, out: usize): void {
  const end = out + ((<usize>n) << 3);
  for (const whole = out + ((<usize>(n & ~3)) << 3); out < whole; out += 32) {
    v128.store(out, f64x2.sub(loadPair<f32>(a), loadPair<f32>(b)));
    v128.store(out, f64x2.sub(loadPair<f32>(a + 8), loadPair<f32>(b + 8)), 16);
    a += 16;
    b += 16;
  }
  for (; out < end; out += 8) {
    store<f64>(out, <f64>load<f32>(a) - <f64>load<f32>(b));
    a += 4;
    b += 4;
  }
}

/** 1 where a < b, else 0. */
export function less(a: usize, aStep: usize, b: usize, bStep: usize, out: usize, n: i32): void {
  mapBinary(LESS, a, aStep, b, bStep, out, n);
}

/** 1 where a ≤ b, else 0. */
export function lessEqual(a: usize, aStep: usize, b: usize, bStep: usize, out: usize, n: i32): void {
  mapBinary(LESS_EQUAL, a, aStep, b, bStep, out, n);
}

/** 1 where a = b, else 0. */
export function equal(a: usize, aStep: usize, b: usize, bStep: usize, out: usize, n: i32): void {
  mapBinary(EQUAL, a, aStep, b, bStep, out, n);
}

/** 1 where a ≠ b or either is NaN, else 0. */
export function notEqual(a: usize, aStep: usize, b: usize, bStep: usize, out: usize, n: i32): void {
  mapBinary(NOT_EQUAL, a, aStep, b, bStep, out, n);
}

/* @inline */ function mapBinary(
  operation: i32,
  a: usize,
  aStep: usize,
  b: usize,
  bStep: usize,
  out: usize,
  n: i32,
): void {
  for (const end = out + ((<usize>n) << 3); out < end; out += 32) {
    v128.store(out, binaryPair(operation, v128.load(a), v128.load(b)));
    a += aStep;
    b += bStep;
    v128.store(out, binaryPair(operation, v128.load(a), v128.load(b)), 16);
    a += aStep;
    b += bStep;
  }
}

/* @inline */ function binaryPair(operation: i32, a: v128, b: v128): v128 {
  if (operation == ADD) return f64x2.add(a, b);
  if (operation == SUBTRACT) return f64x2.sub(a, b);
  if (operation == MULTIPLY) return f64x2.mul(a, b);
  if (operation == DIVIDE) return f64x2.div(a, b);
  if (operation == MIN) return f64x2.min(a, b);
  if (operation == MAX) return f64x2.max(a, b);
  if (operation == LESS) return oneWhere(f64x2.lt(a, b));
  if (operation == LESS_EQUAL) return oneWhere(f64x2.le(a, b));
  if (operation == EQUAL) return oneWhere(f64x2.eq(a, b));
  return oneWhere(f64x2.ne(a, b));
}

/* @inline */ function oneWhere(condition: v128): v128 {
  return v128.and(condition, f64x2.splat(1));
}

/** b where a is not 0 (NaN is not), else c. */
export function choose(
  a: usize,
  aStep: usize,
  b: usize,
  bStep: usize,
  c: usize,
  cStep: usize,
  out: usize,
  n: i32,
): void {
  for (const end = out + ((<usize>n) << 3); out < end; out += 16) {
    const condition = f64x2.ne(v128.load(a), f64x2.splat(0));
    v128.store(out, v128.bitselect(v128.load(b), v128.load(c), condition));
    a += aStep;
    b += bStep;
    c += cStep;
  }
}
