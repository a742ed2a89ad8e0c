/**
 * The accumulator of the WGSL moments pass: how it takes a tile of elements, and how two merge.
 *
 * What makes it accurate in float32: the sum of the elements is kept in two parts, the second of which holds what
 * rounding took off the first, so that it is as good as one in float64 whatever cancels. For the squares, deviations are
 * taken from a pivot `k` that is an element of the data, and tiles are reduced in two passes. All of these carry a binary
 * exponent, `u` for sums and deviations and `e` for squares, so that none overflows or vanishes. NaN and ±Infinity are
 * told by their bits, since WGSL may assume neither exists.
 *
 * The sum in two parts: Knuth 1969, "The Art of Computer Programming", volume 2, 4.2.2, theorem B.
 */
import type { WgslType } from '../wgsl.js';

/** 32-bit words of `struct Moments`, which is also the record that a pass leaves; see webgpu-records.ts. */
export const RECORD_WORDS = 14;

/** Elements that one call of `add_f32` or `add_i32` takes: two vectors of four. */
export const TILE = 8;

/** What `kind` of the accumulator is for elements of each type. */
export const KINDS: Readonly<Record<WgslType, number>> = { f32: 0, i32: 1 };

/**
 * `struct Moments`, `empty`, `merge`, and `add_…` for the element types that a shader reduces. The shader declares
 * `uniforms` with a u32 `noBits`, which is 0.
 */
export function accumulatorText(types: readonly WgslType[]): string {
  return [
    BASIS,
    ...VECTORS.map(lostText),
    ...types.map((type) => (type === 'f32' ? FLOAT_RULES : INTEGER_RULES)),
    ...types.map(addText),
    differenceText(types),
    MERGE,
  ].join('\n');
}

/** Members of `Moments`, for moving one between invocations. */
export const MEMBERS = [
  'n',
  'nan',
  'posInf',
  'negInf',
  'k',
  'u',
  'sum',
  'e',
  'm2',
  'lo',
  'hi',
  'kind',
  'total',
  'rest',
] as const;

/** Powers of two are made by exponent bits: exact, and split in two factors where one could overflow. */
const BASIS = `
// k, lo and hi are the bits of elements: float32, or int32 where kind is 1.
struct Moments {
  n: u32, nan: u32, posInf: u32, negInf: u32,
  k: u32, u: i32, sum: f32, e: i32, m2: f32, lo: u32, hi: u32, kind: u32,
  // The sum of the elements in units of 2^u, and what rounding took off it. \`sum\` is that of the deviations from k.
  total: f32, rest: f32
};
fn empty(kind: u32) -> Moments {
  return Moments(0u, 0u, 0u, 0u, 0u, -64, 0.0, 0, 0.0, 0u, 0u, kind, 0.0, 0.0);
}
fn exponentOf(x: f32) -> i32 {
  return i32((bitcast<u32>(x) >> 23u) & 0xffu) - 127;
}
fn powerOfTwo(e: i32) -> f32 {
  return bitcast<f32>(u32(clamp(e, -126, 127) + 127) << 23u);
}
fn scaleDown(x: f32, e: i32) -> f32 {
  let half = e / 2;
  return x * powerOfTwo(-half) * powerOfTwo(half - e);
}
fn total(x: vec4<f32>) -> f32 { return (x.x + x.y) + (x.z + x.w); }`;

/** The vectors in which sums are taken, by the names of the functions for them. */
const VECTORS = [
  { n: 1, float: 'f32', word: 'u32' },
  { n: 2, float: 'vec2<f32>', word: 'vec2<u32>' },
  { n: 4, float: 'vec4<f32>', word: 'vec4<u32>' },
] as const;

/** What rounding takes off a sum. A compiler may take (a + b) − a for b, so it is kept from seeing what is subtracted. */
function lostText({ n, float, word }: (typeof VECTORS)[number]): string {
  return `
fn rounded${n}(x: ${float}) -> ${float} {
  return bitcast<${float}>(bitcast<${word}>(x) ^ ${word}(uniforms.noBits));
}
// a + b - s, for s = rounded${n}(a + b).
fn lost${n}(a: ${float}, b: ${float}, s: ${float}) -> ${float} {
  let part = rounded${n}(s - a);
  return (a - rounded${n}(s - part)) + (b - part);
}`;
}

const FLOAT_RULES = `
// Deviations are kept in units of 2^u: 1 for all ordinary data, 2^64 once an element is so large that a sum of
// deviations could overflow, 2^-64 as long as all are so small that a deviation could be flushed to zero.
const HIGHEST_f32 = 0x1.fffffep+127f;
const LOWEST_f32 = -HIGHEST_f32;
fn unitOf_f32(lo: f32, hi: f32) -> i32 {
  let largest = max(abs(lo), abs(hi));
  return select(select(0, -64, largest < 0x1p-60f), 64, largest > 0x1p90f);
}
fn deviation_f32(x: vec4<f32>, k: f32, u: i32) -> vec4<f32> {
  let unit = powerOfTwo(-u);
  return x * unit - k * unit;
}
// The sum of eight elements in units of 2^u, and what rounding took off it.
fn sum_f32(x0: vec4<f32>, x1: vec4<f32>, u: i32) -> vec2<f32> {
  let unit = powerOfTwo(-u);
  let a = x0 * unit;
  let b = x1 * unit;
  let four = rounded4(a + b);
  let two = rounded2(four.xy + four.zw);
  let one = rounded1(two.x + two.y);
  let pairs = lost2(four.xy, four.zw, two);
  return vec2<f32>(one, lost1(two.x, two.y, one) + ((pairs.x + pairs.y) + total(lost4(a, b, four))));
}
fn isFinite_f32(x: vec4<f32>) -> vec4<bool> {
  return (bitcast<vec4<u32>>(x) & vec4<u32>(0x7f800000u)) != vec4<u32>(0x7f800000u);
}
fn reject_f32(acc: ptr<function, Moments>, x: vec4<f32>, which: vec4<bool>) {
  let bits = bitcast<vec4<u32>>(x);
  let one = vec4<u32>(1u);
  (*acc).nan += dot(vec4<u32>(which & ((bits & vec4<u32>(0x007fffffu)) != vec4<u32>(0u))), one);
  (*acc).posInf += dot(vec4<u32>(which & (bits == vec4<u32>(0x7f800000u))), one);
  (*acc).negInf += dot(vec4<u32>(which & (bits == vec4<u32>(0xff800000u))), one);
}`;

const INTEGER_RULES = `
const HIGHEST_i32 = 2147483647;
const LOWEST_i32 = -HIGHEST_i32 - 1;
fn unitOf_i32(lo: i32, hi: i32) -> i32 { return 0; }
// The difference of two int32 may need 33 bits: the halves are subtracted as integers and joined in float32.
fn deviation_i32(x: vec4<i32>, k: i32, u: i32) -> vec4<f32> {
  let high = vec4<f32>((x >> vec4<u32>(16u)) - vec4<i32>(k >> 16u));
  return high * 65536.0 + vec4<f32>((x & vec4<i32>(0xffff)) - vec4<i32>(k & 0xffff));
}
// The sums of the halves are exact.
fn sum_i32(x0: vec4<i32>, x1: vec4<i32>, u: i32) -> vec2<f32> {
  let half = vec4<i32>(0xffff);
  let high = total(vec4<f32>((x0 >> vec4<u32>(16u)) + (x1 >> vec4<u32>(16u)))) * 65536.0;
  let low = total(vec4<f32>((x0 & half) + (x1 & half)));
  let sum = rounded1(high + low);
  return vec2<f32>(sum, lost1(high, low, sum));
}`;

/** Merges a tile into an accumulator; \`in0\` and \`in1\` tell which of the elements \`x0\` and \`x1\` are selected. */
function addText(t: WgslType): string {
  const refuse =
    t === 'i32'
      ? `
  let ok0 = in0;
  let ok1 = in1;`
      : `
  let ok0 = in0 & isFinite_f32(x0);
  let ok1 = in1 & isFinite_f32(x1);
  if (any(in0 & !ok0) || any(in1 & !ok1)) {
    reject_f32(acc, x0, in0 & !ok0);
    reject_f32(acc, x1, in1 & !ok1);
  }`;
  const picks = ['x0.x', 'x0.y', 'x0.z', 'x0.w', 'x1.x', 'x1.y', 'x1.z', 'x1.w'].map(
    (x) => `  k = select(k, ${x}, ${x.replace('x', 'gap')} == nearest);`,
  );
  return `
// The element nearest to the mean of the tile, so that an outlier is none; of n > 0 elements.
fn pivot_${t}(x0: vec4<${t}>, x1: vec4<${t}>, ok0: vec4<bool>, ok1: vec4<bool>, n: u32) -> ${t} {
  let low = min(select(vec4<${t}>(HIGHEST_${t}), x0, ok0), select(vec4<${t}>(HIGHEST_${t}), x1, ok1));
  let high = max(select(vec4<${t}>(LOWEST_${t}), x0, ok0), select(vec4<${t}>(LOWEST_${t}), x1, ok1));
  let lo = min(min(low.x, low.y), min(low.z, low.w));
  let u = unitOf_${t}(lo, max(max(high.x, high.y), max(high.z, high.w)));
  let far0 = select(vec4<f32>(0.0), deviation_${t}(x0, lo, u), ok0);
  let far1 = select(vec4<f32>(0.0), deviation_${t}(x1, lo, u), ok1);
  let middle = total(far0 + far1) / f32(n);
  let gap0 = select(vec4<f32>(0x1p127f), abs(far0 - middle), ok0);
  let gap1 = select(vec4<f32>(0x1p127f), abs(far1 - middle), ok1);
  let gap = min(gap0, gap1);
  let nearest = min(min(gap.x, gap.y), min(gap.z, gap.w));
  var k = lo;
${picks.join('\n')}
  return k;
}
fn add_${t}(acc: ptr<function, Moments>, x0: vec4<${t}>, x1: vec4<${t}>, in0: vec4<bool>, in1: vec4<bool>) {${refuse}
  let n = dot(vec4<u32>(ok0) + vec4<u32>(ok1), vec4<u32>(1u));
  if (n == 0u) { return; }
  let isFirst = (*acc).n == 0u;
  var k = bitcast<${t}>((*acc).k);
  if (isFirst) { k = pivot_${t}(x0, x1, ok0, ok1, n); }
  // The pivot is an element, so it may stand for those that do not count: it deviates by nothing and is no extreme.
  let y0 = select(vec4<${t}>(k), x0, ok0);
  let y1 = select(vec4<${t}>(k), x1, ok1);
  let low = min(y0, y1);
  let high = max(y0, y1);
  let lo = min(min(low.x, low.y), min(low.z, low.w));
  let hi = max(max(high.x, high.y), max(high.z, high.w));
  let u = max((*acc).u, unitOf_${t}(lo, hi));
  let d0 = deviation_${t}(y0, k, u);
  let d1 = deviation_${t}(y1, k, u);
  let sum = total(d0 + d1);
  let parts = sum_${t}(select(vec4<${t}>(0), x0, ok0), select(vec4<${t}>(0), x1, ok1), u);
  let nb = f32(n);
  let mean = sum / nb;
  let ends = abs(deviation_${t}(vec4<${t}>(lo, hi, lo, hi), k, u) - mean);
  let reach = clamp(exponentOf(max(ends.x, ends.y)), -126, 126);
  let down = powerOfTwo(-reach);
  let none = vec4<f32>(0.0);
  let s0 = select(none, (d0 - mean) * down, ok0);
  let s1 = select(none, (d1 - mean) * down, ok1);
  let squares = total(s0 * s0 + s1 * s1);
  if (isFirst) {
    (*acc).n = n;
    (*acc).k = bitcast<u32>(k);
    (*acc).u = u;
    (*acc).sum = sum;
    (*acc).e = reach + u;
    (*acc).m2 = squares;
    (*acc).lo = bitcast<u32>(lo);
    (*acc).hi = bitcast<u32>(hi);
    (*acc).total = parts.x;
    (*acc).rest = parts.y;
    return;
  }
  // As \`merge\`, but with one pivot, and with exponents that one power of two can bridge.
  let na = f32((*acc).n);
  var before = (*acc).sum;
  var soFar = vec2<f32>((*acc).total, (*acc).rest);
  if (u != (*acc).u) {
    let by = u - (*acc).u;
    before = scaleDown(before, by);
    soFar = vec2<f32>(scaleDown(soFar.x, by), scaleDown(soFar.y, by));
  }
  let all = rounded1(soFar.x + parts.x);
  let d = mean - before / na;
  let e = max(max((*acc).e, reach + u), clamp(exponentOf(abs(d)), -126, 126) + u);
  let s = d * powerOfTwo(u - e);
  (*acc).n += n;
  (*acc).u = u;
  (*acc).sum = before + sum;
  (*acc).rest = soFar.y + parts.y + lost1(soFar.x, parts.x, all);
  (*acc).total = all;
  (*acc).m2 = (*acc).m2 * powerOfTwo(2 * ((*acc).e - e)) + squares * powerOfTwo(2 * (reach + u - e))
    + s * s * na * (nb / (na + nb));
  (*acc).e = e;
  (*acc).lo = bitcast<u32>(min(bitcast<${t}>((*acc).lo), lo));
  (*acc).hi = bitcast<u32>(max(bitcast<${t}>((*acc).hi), hi));
}`;
}

/** `difference`, `lower` and `higher` of elements by their bits, whichever of the `types` they are. */
function differenceText(types: readonly WgslType[]): string {
  const byKind = (of: (t: WgslType) => string): string => {
    const [only] = types;
    if (types.length === 1) return `return ${of(only!)};`;
    return `if (kind == ${KINDS.i32}u) { return ${of('i32')}; } return ${of('f32')};`;
  };
  const number = (t: WgslType, bits: string): string => `bitcast<${t}>(${bits})`;
  return `
fn difference(x: u32, k: u32, u: i32, kind: u32) -> f32 {
  ${byKind((t) => `deviation_${t}(vec4<${t}>(${number(t, 'x')}), ${number(t, 'k')}, u).x`)}
}
fn lower(a: u32, b: u32, kind: u32) -> u32 {
  ${byKind((t) => `bitcast<u32>(min(${number(t, 'a')}, ${number(t, 'b')}))`)}
}
fn higher(a: u32, b: u32, kind: u32) -> u32 {
  ${byKind((t) => `bitcast<u32>(max(${number(t, 'a')}, ${number(t, 'b')}))`)}
}`;
}

const MERGE = `
fn merge(a: Moments, b: Moments) -> Moments {
  let nan = a.nan + b.nan;
  let posInf = a.posInf + b.posInf;
  let negInf = a.negInf + b.negInf;
  if (b.n == 0u) { return Moments(a.n, nan, posInf, negInf, a.k, a.u, a.sum, a.e, a.m2, a.lo, a.hi, a.kind, a.total, a.rest); }
  if (a.n == 0u) { return Moments(b.n, nan, posInf, negInf, b.k, b.u, b.sum, b.e, b.m2, b.lo, b.hi, b.kind, b.total, b.rest); }
  let n = a.n + b.n;
  let na = f32(a.n);
  let nb = f32(b.n);
  let u = max(a.u, b.u);
  let sumA = scaleDown(a.sum, u - a.u);
  let sumB = scaleDown(b.sum, u - b.u);
  let shift = difference(b.k, a.k, u, a.kind);
  let d = shift + (sumB / nb - sumA / na);
  let e = max(max(a.e, b.e), exponentOf(abs(d)) + u);
  let s = scaleDown(d, e - u);
  let m2 = scaleDown(a.m2, 2 * (e - a.e)) + scaleDown(b.m2, 2 * (e - b.e)) + s * s * na * (nb / f32(n));
  // Of the two pivots the one nearer to the common mean stays: sums of small deviations lose least.
  let aboutA = sumA + (sumB + shift * nb);
  let aboutB = sumB + (sumA - shift * na);
  let useA = abs(aboutA) <= abs(aboutB);
  let k = select(b.k, a.k, useA);
  let sum = select(aboutB, aboutA, useA);
  let lo = lower(a.lo, b.lo, a.kind);
  let hi = higher(a.hi, b.hi, a.kind);
  let totalA = scaleDown(a.total, u - a.u);
  let totalB = scaleDown(b.total, u - b.u);
  let all = rounded1(totalA + totalB);
  let rest = scaleDown(a.rest, u - a.u) + scaleDown(b.rest, u - b.u) + lost1(totalA, totalB, all);
  return Moments(n, nan, posInf, negInf, k, u, sum, e, m2, lo, hi, a.kind, all, rest);
}`;
