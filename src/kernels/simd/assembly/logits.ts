/**
 * Sums over the softmax of a row of logits, block by block with a running maximum.
 *
 * The state of a row is four float64 numbers: the largest logit m so far, and with x = (z − m) / (temperature · ln 2)
 * the sums s₁ = Σ 2ˣ, s₂ = Σ 4ˣ, s₃ = Σ x 2ˣ. Powers of 2 save the division of every exponent by ln 2. They are
 * float32, four at a time; a few of them are summed in float32, everything else in float64.
 */

// In globals and not literals for the reason that exponentials.ts gives.
/** The lowest exponent: 2^x is 0 there and below. */
let lowest = f32x4(0, 0, 0, 0);
/** 1.5 · 2^23: added to a small number, the sum is rounded to an integer, which is in its last bits. */
let rounding = f32x4(0, 0, 0, 0);
let oneBits = i32x4(0, 0, 0, 0);

/** 2^r on |r| ≤ ½, exact at 0, by minimax: its relative error is below 1e-7 before rounding. */
let one = f32x4(0, 0, 0, 0);
let p1 = f32x4(0, 0, 0, 0);
let p2 = f32x4(0, 0, 0, 0);
let p3 = f32x4(0, 0, 0, 0);
let p4 = f32x4(0, 0, 0, 0);
let p5 = f32x4(0, 0, 0, 0);

/** Sets the constants. `zero` is 0, which the compiler must not know. */
export function prepareLogits(zero: f32): void {
  lowest = f32x4.splat(-127 + zero);
  rounding = f32x4.splat(12582912 + zero);
  oneBits = i32x4.splat(0x3f800000 + <i32>zero);
  one = f32x4.splat(1 + zero);
  p1 = f32x4.splat(0.693147 + zero);
  p2 = f32x4.splat(0.24022242 + zero);
  p3 = f32x4.splat(0.055507336 + zero);
  p4 = f32x4.splat(0.009671513 + zero);
  p5 = f32x4.splat(0.0013264728 + zero);
}

/** Logits between two looks at the maximum: 8 KiB, which the second look finds in the first-level cache. */
const BLOCK: i32 = 2048;

/** Vectors that are summed in float32: few enough for the sum to be as good as its terms. */
const RUN: i32 = 16;

/** The lowest finite float32: stands in for the maximum as long as there are only −Infinity, since ∞ − ∞ is NaN. */
const LOWEST: f32 = -3.4028234663852886e38;

/** Largest of `n` float32 at `x`; passes over NaN, which the sums will not. */
function largest(x: usize, n: i32): f32 {
  let a = f32x4.splat(-Infinity);
  let b = a;
  const pairs = x + ((<usize>(n & ~7)) << 2);
  const end = x + ((<usize>n) << 2);
  for (; x < pairs; x += 32) {
    a = f32x4.pmax(a, v128.load(x));
    b = f32x4.pmax(b, v128.load(x, 16));
  }
  a = f32x4.pmax(a, b);
  a = f32x4.pmax(a, v128.shuffle<f32>(a, a, 2, 3, 2, 3));
  a = f32x4.pmax(a, v128.shuffle<f32>(a, a, 1, 1, 1, 1));
  let top = f32x4.extract_lane(a, 0);
  for (; x < end; x += 4) {
    const z = load<f32>(x);
    if (z > top) top = z;
  }
  return top;
}

/** 2^x for x ≤ 0 in float64: 0 below −1021, a relative error of about 1e-15 above. */
function powerOfTwo(x: f64): f64 {
  if (x < -1021) return 0;
  const n = nearest(x);
  const r = (x - n) * 0.6931471805599453;
  // Taylor's series of e^r on |r| ≤ 0.347, where its 14th term is below 1e-17.
  let p: f64 = 1;
  for (let k: f64 = 13; k > 0; k -= 1) p = 1 + (p * r) / k;
  return p * reinterpret<f64>((<i64>n + 1023) << 52);
}

/** Sum of the lanes of a float32 vector, in float64. */
/* @inline */ function total(v: v128): f64 {
  const pairs = f64x2.add(
    f64x2.promote_low_f32x4(v),
    f64x2.promote_low_f32x4(v128.shuffle<f32>(v, v, 2, 3, 2, 3)),
  );
  return f64x2.extract_lane(pairs, 0) + f64x2.extract_lane(pairs, 1);
}

/** Fills the 16 bytes at `to` with the `n`, 1 to 3, float32 at `x` and with −Infinity, which adds nothing to a sum. */
function pad(x: usize, n: i32, to: usize): void {
  v128.store(to, f32x4.splat(-Infinity));
  for (let i = 0; i < n; i++) store<f32>(to + ((<usize>i) << 2), load<f32>(x + ((<usize>i) << 2)));
}

/**
 * Adds `n` logits at `x` to the state of their row at `state`, 32 bytes that 16 bytes of scratch follow.
 *
 * `factor` is 1 / (temperature · ln 2). A fresh state is −Infinity, 0, 0, 0. NaN or +Infinity among the logits leave s₁ NaN. m stays −Infinity, and the sums
 * 0, where every logit is −Infinity.
 */
export function foldLogits(x: usize, n: i32, factor: f32, state: usize): void {
  let m = <f32>load<f64>(state);
  let s1 = load<f64>(state, 8);
  let s2 = load<f64>(state, 16);
  let s3 = load<f64>(state, 24);
  const scale = f32x4.splat(factor);
  const low = lowest;
  const magic = rounding;
  const bits = oneBits;
  const c0 = one;
  const c1 = p1;
  const c2 = p2;
  const c3 = p3;
  const c4 = p4;
  const c5 = p5;

  while (n > 0) {
    const length = min(n, BLOCK);
    const top = largest(x, length);
    if (top > m) {
      if (m >= LOWEST) {
        const shift = (<f64>m - <f64>top) * <f64>factor;
        const w = powerOfTwo(shift);
        s3 = w * (s3 + shift * s1);
        s2 *= w * w;
        s1 *= w;
      }
      m = top;
    }
    const base = f32x4.splat(max(m, LOWEST));

    // Whole vectors first, then what is left of the row as a vector of its own.
    const odd = length & 3;
    if (odd != 0) pad(x + ((<usize>(length - odd)) << 2), odd, state + 32);
    let at = x;
    let left = length >> 2;
    for (let part = odd == 0 ? 1 : 0; part < 2; part++) {
      while (left > 0) {
        const end = at + ((<usize>min(left, RUN)) << 4);
        left -= RUN;
        let t1 = f32x4.splat(0);
        let t2 = t1;
        let t3 = t1;
        for (; at < end; at += 16) {
          // NaN passes the lower bound, since NaN < y is false.
          const y = f32x4.pmax(f32x4.mul(f32x4.sub(v128.load(at), base), scale), low);
          // The low bits of `shifted` are y rounded to an integer. Shifted left, they are the exponent of its power.
          const shifted = f32x4.add(y, magic);
          const r = f32x4.sub(y, f32x4.sub(shifted, magic));
          let p = f32x4.add(f32x4.mul(r, c5), c4);
          p = f32x4.add(f32x4.mul(r, p), c3);
          p = f32x4.add(f32x4.mul(r, p), c2);
          p = f32x4.add(f32x4.mul(r, p), c1);
          p = f32x4.add(f32x4.mul(r, p), c0);
          // A product, not a sum of exponents, which would turn a NaN into a number.
          const e = f32x4.mul(p, i32x4.add(i32x4.shl(shifted, 23), bits));
          t1 = f32x4.add(t1, e);
          t2 = f32x4.add(t2, f32x4.mul(e, e));
          t3 = f32x4.add(t3, f32x4.mul(e, y));
        }
        s1 += total(t1);
        s2 += total(t2);
        s3 += total(t3);
      }
      at = state + 32;
      left = 1;
    }
    x += (<usize>length) << 2;
    n -= length;
  }

  store<f64>(state, m);
  store<f64>(state, s1, 8);
  store<f64>(state, s2, 16);
  store<f64>(state, s3, 24);
}
