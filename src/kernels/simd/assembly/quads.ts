/**
 * Four elements at a time: loading them from each of the types that tensors have, and widening them to float64.
 *
 * A quad is four lanes of 32 bits, `f32` or `i32`; a bool (one byte) becomes an `i32`. Type parameters name the
 * elements in memory: `f32`, `i32` or `u8`.
 */

/** The quad at `x`. */
/* @inline */ export function loadQuad<T>(x: usize): v128 {
  if (sizeof<T>() == 1) return widenBytes(v128.load32_zero(x));
  return v128.load(x);
}

/** The `n` < 4 elements at `x` in the first lanes of a quad, and zeros behind them; reads nothing beyond. */
/* @inline */ export function loadRest<T>(x: usize, n: i32): v128 {
  let quad = i32x4.splat(0);
  if (sizeof<T>() == 1) {
    quad = i32x4.replace_lane(quad, 0, load<u8>(x));
    if (n > 1) quad = i32x4.replace_lane(quad, 1, load<u8>(x, 1));
    if (n > 2) quad = i32x4.replace_lane(quad, 2, load<u8>(x, 2));
  } else {
    quad = v128.load32_zero(x);
    if (n > 1) quad = v128.load32_lane(x, quad, 1, 4);
    if (n > 2) quad = v128.load32_lane(x, quad, 2, 8);
  }
  return quad;
}

/** The element at `x` in all lanes. */
/* @inline */ export function splatQuad<T>(x: usize): v128 {
  if (sizeof<T>() == 1) return i32x4.splat(load<u8>(x));
  return v128.load32_splat(x);
}

/* @inline */ function widenBytes(bytes: v128): v128 {
  return i32x4.extend_low_i16x8_u(i16x8.extend_low_i8x16_u(bytes));
}

/** −1 in the first `n` lanes, 0 in the others. */
/* @inline */ export function firstLanes(n: i32): v128 {
  return i32x4.lt_s(i32x4(0, 1, 2, 3), i32x4.splat(n));
}

/** The first two lanes as float64. */
/* @inline */ export function lowPair<T>(quad: v128): v128 {
  if (isFloat<T>()) return f64x2.promote_low_f32x4(quad);
  return f64x2.convert_low_i32x4_s(quad);
}

/** The last two lanes as float64. */
/* @inline */ export function highPair<T>(quad: v128): v128 {
  return lowPair<T>(v128.shuffle<i32>(quad, quad, 2, 3, 2, 3));
}

/** The two elements at `x` as float64. To load them once more is cheaper than to move lanes. */
/* @inline */ export function loadPair<T>(x: usize): v128 {
  if (sizeof<T>() == 8) return v128.load(x);
  if (sizeof<T>() == 1) return lowPair<T>(widenBytes(i32x4.splat(load<u16>(x))));
  return lowPair<T>(v128.load64_zero(x));
}

/** The smaller of each two lanes; the left one if either is NaN. */
/* @inline */ export function minQuad<T>(a: v128, b: v128): v128 {
  if (isFloat<T>()) return f32x4.pmin(a, b);
  return i32x4.min_s(a, b);
}

/** The larger of each two lanes; the left one if either is NaN. */
/* @inline */ export function maxQuad<T>(a: v128, b: v128): v128 {
  if (isFloat<T>()) return f32x4.pmax(a, b);
  return i32x4.max_s(a, b);
}
