/**
 * Exponentials and logarithms of two float64 at a time, with relative errors of at most 2e-15 (exp, log, log1p), 6e-15
 * (expm1) and 4e-14 (expm1 − x).
 *
 * Special values are those of JavaScript's Math: NaN in, NaN out; the logarithm of 0 is −Infinity, of less NaN.
 *
 * Constants are variables here. An engine builds a constant vector anew wherever it is used, which takes longer than
 * the multiplication that it is for; a global is one load. Exponentials take a third less that way.
 */

let one = f64x2(0, 0);
let two = f64x2(0, 0);
let infinity = f64x2(0, 0);

/** 1.5 · 2^52: added to a small number, the sum is rounded to an integer, which is in its last bits. */
let rounding = f64x2(0, 0);
let log2E = f64x2(0, 0);
/** ln 2 in two parts, the first with 33 bits: its products with an exponent are exact. */
let ln2High = f64x2(0, 0);
let ln2Low = f64x2(0, 0);
let oneBits = i64x2(0, 0);

/** e^x is 0 below and Infinity above, whatever is computed. */
let expLow = f64x2(0, 0);
let expHigh = f64x2(0, 0);
/** e^x no longer counts next to 1 below, and 1 next to e^x above. */
let expm1Low = f64x2(0, 0);
let expm1High = f64x2(0, 0);

/** (e^r − 1 − r) / r² for |r| ≤ ½ ln 2 with a relative error of 1.5e-14, by Remez' exchange. */
let e0 = f64x2(0, 0);
let e1 = f64x2(0, 0);
let e2 = f64x2(0, 0);
let e3 = f64x2(0, 0);
let e4 = f64x2(0, 0);
let e5 = f64x2(0, 0);
let e6 = f64x2(0, 0);
let e7 = f64x2(0, 0);
let e8 = f64x2(0, 0);

/** Bits of √½, rounded down so that they end in zeros: mantissas are taken from there to √2. */
let sqrtHalfBits = i64x2(0, 0);
let oneOverSqrtHalfBits = i64x2(0, 0);
let mantissa = i64x2(0, 0);
/** 2^52 as bits, into which an exponent is or-ed, and what is then subtracted from it. */
let exponentBits = i64x2(0, 0);
let exponentBias = f64x2(0, 0);
let smallestNormal = f64x2(0, 0);

/** (2 artanh s − 2s) / s³ as a series in s² ≤ 0.0295: 2 / (2k + 3), of which the next is below 1e-15. */
let l0 = f64x2(0, 0);
let l1 = f64x2(0, 0);
let l2 = f64x2(0, 0);
let l3 = f64x2(0, 0);
let l4 = f64x2(0, 0);
let l5 = f64x2(0, 0);
let l6 = f64x2(0, 0);
let l7 = f64x2(0, 0);

const SQRT_HALF_BITS: i64 = 0x3fe6a09e00000000;
const ONE_BITS: i64 = 0x3ff0000000000000;

/** Sets the constants. `zero` is 0, which the compiler must not know: it would put them back where they are used. */
export function prepareExponentials(zero: f64): void {
  one = f64x2.splat(1 + zero);
  two = f64x2.splat(2 + zero);
  infinity = f64x2.splat(Infinity + zero);
  rounding = f64x2.splat(6755399441055744 + zero);
  log2E = f64x2.splat(1.4426950408889634 + zero);
  ln2High = f64x2.splat(0.6931471803691238 + zero);
  ln2Low = f64x2.splat(1.9082149292705877e-10 + zero);
  oneBits = i64x2.splat(ONE_BITS + <i64>zero);
  expLow = f64x2.splat(-746 + zero);
  expHigh = f64x2.splat(710 + zero);
  expm1Low = f64x2.splat(-60 + zero);
  expm1High = f64x2.splat(40 + zero);
  e0 = f64x2.splat(0.4999999999999994 + zero);
  e1 = f64x2.splat(0.16666666666648322 + zero);
  e2 = f64x2.splat(0.041666666666814865 + zero);
  e3 = f64x2.splat(0.008333333353716792 + zero);
  e4 = f64x2.splat(0.0013888888837834134 + zero);
  e5 = f64x2.splat(0.00019841208737273182 + zero);
  e6 = f64x2.splat(2.4801626978657857e-5 + zero);
  e7 = f64x2.splat(2.7625121074305915e-6 + zero);
  e8 = f64x2.splat(2.757612676330623e-7 + zero);
  sqrtHalfBits = i64x2.splat(SQRT_HALF_BITS + <i64>zero);
  oneOverSqrtHalfBits = i64x2.splat(ONE_BITS - SQRT_HALF_BITS + <i64>zero);
  mantissa = i64x2.splat(0x000fffffffffffff + <i64>zero);
  exponentBits = i64x2.splat(0x4330000000000000 + <i64>zero);
  exponentBias = f64x2.splat(4503599627370496 + 1023 + zero);
  smallestNormal = f64x2.splat(2.2250738585072014e-308 + zero);
  l0 = f64x2.splat(2 / 3 + zero);
  l1 = f64x2.splat(2 / 5 + zero);
  l2 = f64x2.splat(2 / 7 + zero);
  l3 = f64x2.splat(2 / 9 + zero);
  l4 = f64x2.splat(2 / 11 + zero);
  l5 = f64x2.splat(2 / 13 + zero);
  l6 = f64x2.splat(2 / 15 + zero);
  l7 = f64x2.splat(2 / 17 + zero);
}

/** a + b · x. */
/* @inline */ function plus(a: v128, b: v128, x: v128): v128 {
  return f64x2.add(a, f64x2.mul(b, x));
}

/** 2^k for integers −1022 ≤ k ≤ 1023, given in the last 12 bits of a lane. */
/* @inline */ function powerOfTwo(k: v128): v128 {
  return i64x2.add(i64x2.shl(k, 52), oneBits);
}

/** x between two numbers, or NaN. */
/* @inline */ function clampPair(x: v128, low: v128, high: v128): v128 {
  return f64x2.pmin(f64x2.pmax(x, low), high);
}

/** The integer k for which x − k · ln 2 is smallest, plus `rounding`. */
/* @inline */ function exponentOf(x: v128): v128 {
  return f64x2.add(f64x2.mul(x, log2E), rounding);
}

/** x − k · ln 2. */
/* @inline */ function reduced(x: v128, exponent: v128): v128 {
  const k = f64x2.sub(exponent, rounding);
  return f64x2.sub(f64x2.sub(x, f64x2.mul(k, ln2High)), f64x2.mul(k, ln2Low));
}

/** (e^r − 1 − r) / r² of a reduced argument. */
/* @inline */ function tail(r: v128, r2: v128): v128 {
  const r4 = f64x2.mul(r2, r2);
  const low = plus(plus(e0, e1, r), plus(e2, e3, r), r2);
  const high = plus(plus(plus(e4, e5, r), plus(e6, e7, r), r2), e8, r4);
  return plus(low, high, r4);
}

/** e^x. */
/* @inline */ export function expPair(x: v128): v128 {
  const held = clampPair(x, expLow, expHigh);
  const k = exponentOf(held);
  const r = reduced(held, k);
  const r2 = f64x2.mul(r, r);
  const power = plus(f64x2.add(one, r), tail(r, r2), r2);
  // Two factors: 2^k alone leaves the range of normal numbers at both ends.
  const half = i32x4.shr_s(k, 1);
  return f64x2.mul(f64x2.mul(power, powerOfTwo(half)), powerOfTwo(i32x4.sub(k, half)));
}

/** y with the sign of x, for functions that have it: sums lose that of −0. */
/* @inline */ function withSign(y: v128, x: v128): v128 {
  return v128.or(y, v128.and(x, f64x2.splat(-0.0)));
}

/** e^x − 1. */
/* @inline */ export function expm1Pair(x: v128): v128 {
  const held = clampPair(x, expm1Low, expm1High);
  const k = exponentOf(held);
  const r = reduced(held, k);
  const r2 = f64x2.mul(r, r);
  const scale = powerOfTwo(k);
  const near = withSign(f64x2.add(f64x2.mul(scale, plus(r, tail(r, r2), r2)), f64x2.sub(scale, one)), x);
  const isLarge = f64x2.gt(x, expm1High);
  return v128.any_true(isLarge) ? v128.bitselect(farExp(x), near, isLarge) : near;
}

/** e^x out of line: rarely needed where it is used. */
function farExp(x: v128): v128 {
  return expPair(x);
}

/** e^x − 1 − x. */
/* @inline */ export function expm1ResidualPair(x: v128): v128 {
  const isSmall = f64x2.lt(f64x2.abs(x), f64x2.splat(0.34));
  const x2 = f64x2.mul(x, x);
  const small = f64x2.mul(x2, tail(x, x2));
  return i64x2.all_true(isSmall) ? small : v128.bitselect(small, farResidual(x), isSmall);
}

/** e^x − 1 − x where that is not the difference of two almost equal numbers. */
function farResidual(x: v128): v128 {
  return f64x2.sub(expm1Pair(x), x);
}

/** ln x of positive normal numbers, minus `shift` · ln 2. */
/* @inline */ function normalLog(x: v128, shift: v128): v128 {
  const bits = i64x2.add(x, oneOverSqrtHalfBits);
  const e = f64x2.sub(f64x2.sub(v128.or(i64x2.shr_u(bits, 52), exponentBits), exponentBias), shift);
  const m = i64x2.add(v128.and(bits, mantissa), sqrtHalfBits);
  // ln m = 2 artanh s.
  const f = f64x2.sub(m, one);
  const s = f64x2.div(f, f64x2.add(two, f));
  const z = f64x2.mul(s, s);
  const z2 = f64x2.mul(z, z);
  const low = plus(plus(l0, l1, z), plus(l2, l3, z), z2);
  const high = plus(plus(l4, l5, z), plus(l6, l7, z), z2);
  const series = plus(low, high, f64x2.mul(z2, z2));
  // Small parts first: the logarithm of a number near 1 has e = 0 and keeps its digits.
  const small = plus(f64x2.mul(f64x2.mul(s, z), series), e, ln2Low);
  return f64x2.add(f64x2.mul(e, ln2High), f64x2.add(f64x2.add(s, s), small));
}

/** ln x. */
/* @inline */ export function logPair(x: v128): v128 {
  const isNormal = v128.and(f64x2.ge(x, smallestNormal), f64x2.lt(x, infinity));
  return i64x2.all_true(isNormal) ? normalLog(x, f64x2.splat(0)) : specialLog(x);
}

/** ln x of any numbers. */
function specialLog(x: v128): v128 {
  const isSubnormal = f64x2.lt(x, smallestNormal);
  const scaled = v128.bitselect(f64x2.mul(x, f64x2.splat(18014398509481984)), x, isSubnormal); // 2^54
  let log = normalLog(scaled, v128.and(isSubnormal, f64x2.splat(54)));
  log = v128.bitselect(x, log, f64x2.eq(x, infinity));
  log = v128.bitselect(f64x2.splat(-Infinity), log, f64x2.eq(x, f64x2.splat(0)));
  return v128.bitselect(log, f64x2.splat(NaN), f64x2.ge(x, f64x2.splat(0)));
}

/** ln(1 + x). */
/* @inline */ export function log1pPair(x: v128): v128 {
  const u = f64x2.add(one, x);
  const log = logPair(u);
  // What rounding took from 1 + x, to first order; 0 and Infinity have lost nothing.
  const lost = f64x2.div(f64x2.sub(x, f64x2.sub(u, one)), u);
  const isProper = v128.and(f64x2.ne(u, f64x2.splat(0)), f64x2.ne(u, infinity));
  return withSign(f64x2.add(log, v128.and(lost, isProper)), x);
}
