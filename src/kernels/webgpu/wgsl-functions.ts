/**
 * The arithmetic of programs in WGSL: four elements at a time, with the NaN and infinities of float64.
 *
 * WGSL lets a compiler assume that neither NaN nor infinities exist, and its `exp` may be off by 3 + 2·|x| units in the
 * last place. So special values are told by their bits and made of bits that the compiler cannot know (they come in a
 * uniform buffer), and the transcendental functions are polynomials after a Cody–Waite reduction, good to two units.
 * Denormals count as zero.
 *
 * A shader that uses these functions declares `uniforms` with the u32 fields of `SPECIAL_UNIFORMS`.
 */

/** Fields that the shader's `uniforms` must have, with what to put there. */
export const SPECIAL_UNIFORMS = { nanBits: 0x7fc00000, infinityBits: 0x7f800000, noBits: 0 } as const;

/** Functions of the library that lowered code may call. */
export type WgslFunction =
  | 'hidden'
  | 'divide4'
  | 'min4'
  | 'max4'
  | 'ordered4'
  | 'sqrt4'
  | 'exp4'
  | 'expm14'
  | 'expm1Residual4'
  | 'log4'
  | 'log1p4';

type Part = WgslFunction | 'nan4' | 'isNan4' | 'power4' | 'nearZero4' | 'logOf4' | 'withSign4';

/** Text of the functions in `names` and of all that they need, each once. */
export function functionsText(names: Iterable<WgslFunction>): string {
  const included = new Set<Part>();
  const include = (part: Part): void => {
    if (included.has(part)) return;
    for (const needed of PARTS[part].needs) include(needed);
    included.add(part);
  };
  for (const name of names) include(name);
  return [...included].map((part) => PARTS[part].text).join('');
}

/** Horner's scheme, highest power first. */
function polynomial(x: string, coefficients: readonly number[]): string {
  return coefficients.map(String).reduce((sum, coefficient) => `(${sum} * ${x} + ${coefficient})`);
}

/** (eˣ − 1 − x) / x² on |x| ≤ ln(2)/2; Chebyshev fit, error 7e-8 of which the result sees an eighth. */
const EXP = [0.00139262680526, 0.00836324666975, 0.0416665541093, 0.166665765832, 0.5];

/** The same on |x| ≤ 1, error 3e-9. */
const NEAR_ZERO = [
  2.80628025823e-6, 2.53585122446e-5, 0.000198381019687, 0.00138853969118, 0.00833333967592, 0.0416667365952,
  0.166666666468, 0.499999997814,
];

/** (ln(1 + f) − f + f²/2) / f³ on √½ ≤ 1 + f ≤ √2; Chebyshev fit, error 3e-8 of which the result sees a sixth. */
const LOG = [
  0.0696825249492, -0.11479854846, 0.116866021725, -0.124257391506, 0.142489552749, -0.166677975883,
  0.200007183436, -0.249999970256, 0.333333311702,
];

/** ln 2 in two parts: multiples of the first, 355/512, are exact for every exponent of a float32. */
const LN2_HIGH = 0.693359375;
const LN2_LOW = -2.12194440055e-4;
/** ln of the largest float32. */
const LARGEST_LOG = 88.72284;

const PARTS: Readonly<Record<Part, { readonly needs: readonly Part[]; readonly text: string }>> = {
  hidden: {
    needs: [],
    text: `
// The same number, but the compiler cannot know: x - x is not to become 0, nor 0 * x, since x may be infinite.
fn hidden(x: vec4<f32>) -> vec4<f32> {
  return bitcast<vec4<f32>>(bitcast<vec4<u32>>(x) ^ vec4<u32>(uniforms.noBits));
}`,
  },
  nan4: {
    needs: [],
    text: `
fn nan4() -> vec4<f32> { return bitcast<vec4<f32>>(vec4<u32>(uniforms.nanBits)); }`,
  },
  isNan4: {
    needs: [],
    text: `
fn isNan4(x: vec4<f32>) -> vec4<bool> {
  return (bitcast<vec4<u32>>(x) & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f800000u);
}`,
  },
  ordered4: {
    needs: ['isNan4'],
    text: `
fn ordered4(a: vec4<f32>, b: vec4<f32>) -> vec4<bool> { return !(isNan4(a) | isNan4(b)); }`,
  },
  power4: {
    needs: [],
    text: `
// x * 2^e for |e| <= 254: in two factors, so that neither overflows.
fn power4(x: vec4<f32>, e: vec4<i32>) -> vec4<f32> {
  let half = e >> vec4<u32>(1u);
  let bias = vec4<i32>(127);
  let bits = vec4<u32>(23u);
  return x * bitcast<vec4<f32>>((half + bias) << bits) * bitcast<vec4<f32>>((e - half + bias) << bits);
}`,
  },
  divide4: {
    needs: ['nan4', 'power4'],
    text: `
// Both are brought to 1 <= |x| < 2 first: WGSL promises nothing for very large or small divisors.
fn divide4(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
  let infinite = vec4<u32>(0x7f800000u);
  let least = vec4<u32>(0x00800000u);
  let bitsA = bitcast<vec4<u32>>(a);
  let bitsB = bitcast<vec4<u32>>(b);
  let sizeA = bitsA & vec4<u32>(0x7fffffffu);
  let sizeB = bitsB & vec4<u32>(0x7fffffffu);
  let sign = (bitsA ^ bitsB) & vec4<u32>(0x80000000u);
  let mantissaA = bitcast<vec4<f32>>((bitsA & vec4<u32>(0x807fffffu)) | vec4<u32>(0x3f800000u));
  let mantissaB = bitcast<vec4<f32>>((bitsB & vec4<u32>(0x807fffffu)) | vec4<u32>(0x3f800000u));
  let e = vec4<i32>(sizeA >> vec4<u32>(23u)) - vec4<i32>(sizeB >> vec4<u32>(23u));
  var q = power4(mantissaA / mantissaB, e);
  q = select(q, bitcast<vec4<f32>>(sign | vec4<u32>(uniforms.infinityBits)), sizeA == infinite);
  q = select(q, bitcast<vec4<f32>>(sign), (sizeA < least) | (sizeB == infinite));
  q = select(q, bitcast<vec4<f32>>(sign | vec4<u32>(uniforms.infinityBits)), (sizeB < least) & (sizeA >= least));
  let undefinedRatio = ((sizeA < least) & (sizeB < least)) | ((sizeA == infinite) & (sizeB == infinite));
  return select(q, nan4(), undefinedRatio | (sizeA > infinite) | (sizeB > infinite));
}`,
  },
  min4: {
    needs: ['nan4', 'ordered4'],
    text: `
// Of zeros, −0 is the smaller.
fn min4(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
  let either = bitcast<vec4<f32>>(bitcast<vec4<u32>>(a) | bitcast<vec4<u32>>(b));
  return select(nan4(), select(select(b, a, a < b), either, a == b), ordered4(a, b));
}`,
  },
  max4: {
    needs: ['nan4', 'ordered4'],
    text: `
fn max4(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
  let both = bitcast<vec4<f32>>(bitcast<vec4<u32>>(a) & bitcast<vec4<u32>>(b));
  return select(nan4(), select(select(b, a, a > b), both, a == b), ordered4(a, b));
}`,
  },
  sqrt4: {
    needs: ['nan4'],
    text: `
fn sqrt4(x: vec4<f32>) -> vec4<f32> {
  let bits = bitcast<vec4<u32>>(x);
  let size = bits & vec4<u32>(0x7fffffffu);
  // Zeros and +Infinity are their own roots; the square root of a stand-in is taken and dropped.
  let isOwnRoot = (size < vec4<u32>(0x00800000u)) | (bits == vec4<u32>(0x7f800000u));
  let isUsable = (bits - vec4<u32>(0x00800000u)) < vec4<u32>(0x7f000000u);
  let root = sqrt(select(vec4<f32>(1.0), x, isUsable));
  return select(select(nan4(), root, isUsable), x, isOwnRoot);
}`,
  },
  exp4: {
    needs: ['nan4', 'isNan4', 'power4'],
    text: `
fn exp4(x: vec4<f32>) -> vec4<f32> {
  let bits = bitcast<vec4<u32>>(x);
  let isInfinite = (bits & vec4<u32>(0x7fffffffu)) == vec4<u32>(0x7f800000u);
  let isNegative = bits >= vec4<u32>(0x80000000u);
  let isNan = isNan4(x);
  let held = clamp(select(x, vec4<f32>(0.0), isInfinite | isNan), vec4<f32>(-110.0), vec4<f32>(100.0));
  let k = round(held * 1.44269504);
  let r = (held - k * ${LN2_HIGH}) - k * ${LN2_LOW};
  let p = ${polynomial('r', EXP)};
  let finite = power4((r * r * p + r) + 1.0, vec4<i32>(k));
  let isHuge = (held > vec4<f32>(${LARGEST_LOG})) | (isInfinite & !isNegative);
  let y = select(finite, bitcast<vec4<f32>>(vec4<u32>(uniforms.infinityBits)), isHuge);
  return select(select(y, vec4<f32>(0.0), isInfinite & isNegative), nan4(), isNan);
}`,
  },
  nearZero4: {
    needs: [],
    text: `
// expm1(x) - x for |x| <= 1.
fn nearZero4(x: vec4<f32>) -> vec4<f32> {
  return x * x * ${polynomial('x', NEAR_ZERO)};
}`,
  },
  withSign4: {
    needs: [],
    text: `
// y with the sign of x, for functions that have it: sums lose that of −0.
fn withSign4(y: vec4<f32>, x: vec4<f32>) -> vec4<f32> {
  return bitcast<vec4<f32>>(bitcast<vec4<u32>>(y) | (bitcast<vec4<u32>>(x) & vec4<u32>(0x80000000u)));
}`,
  },
  expm14: {
    needs: ['exp4', 'nearZero4', 'withSign4'],
    text: `
fn expm14(x: vec4<f32>) -> vec4<f32> {
  return withSign4(select(exp4(x) - 1.0, x + nearZero4(x), abs(x) <= vec4<f32>(1.0)), x);
}`,
  },
  expm1Residual4: {
    needs: ['exp4', 'nan4', 'nearZero4'],
    text: `
fn expm1Residual4(x: vec4<f32>) -> vec4<f32> {
  let y = select((exp4(x) - 1.0) - x, nearZero4(x), abs(x) <= vec4<f32>(1.0));
  return select(y, nan4(), bitcast<vec4<u32>>(x) == vec4<u32>(0x7f800000u)); // Infinity - Infinity
}`,
  },
  logOf4: {
    needs: [],
    text: `
// ln(2^k * (1 + f)) + rest for 1 + f between the square roots of 1/2 and 2, and a small rest.
fn logOf4(f: vec4<f32>, k: vec4<f32>, rest: vec4<f32>) -> vec4<f32> {
  let square = f * f;
  let low = square * f * ${polynomial('f', LOG)} - 0.5 * square;
  return (low + (k * ${LN2_LOW} + rest) + f) + k * ${LN2_HIGH};
}`,
  },
  log4: {
    needs: ['nan4', 'logOf4'],
    text: `
fn log4(x: vec4<f32>) -> vec4<f32> {
  let bits = bitcast<vec4<u32>>(x);
  let isUsable = (bits - vec4<u32>(0x00800000u)) < vec4<u32>(0x7f000000u);
  let root = vec4<u32>(0x3f3504f3u); // the square root of 1/2
  let above = select(vec4<u32>(0x3f800000u), bits, isUsable) - root;
  let k = bitcast<vec4<i32>>(above) >> vec4<u32>(23u);
  let f = bitcast<vec4<f32>>((above & vec4<u32>(0x007fffffu)) + root) - 1.0;
  let y = select(nan4(), logOf4(f, vec4<f32>(k), vec4<f32>(0.0)), isUsable);
  let infinity = vec4<u32>(uniforms.infinityBits);
  let isZero = (bits & vec4<u32>(0x7fffffffu)) < vec4<u32>(0x00800000u);
  let ofZero = bitcast<vec4<f32>>(infinity | vec4<u32>(0x80000000u));
  return select(select(y, ofZero, isZero), bitcast<vec4<f32>>(infinity), bits == vec4<u32>(0x7f800000u));
}`,
  },
  log1p4: {
    needs: ['hidden', 'nan4', 'logOf4', 'withSign4'],
    text: `
fn log1p4(x: vec4<f32>) -> vec4<f32> {
  let bits = bitcast<vec4<u32>>(x);
  let isInfinity = bits == vec4<u32>(0x7f800000u);
  // Not so for NaN, Infinity and all from -1 down; the rest is finite and above -1.
  let isUsable = ((bits < vec4<u32>(0x7f800000u)) | ((bits >= vec4<u32>(0x80000000u)) & (bits < vec4<u32>(0xbf800000u))));
  let held = select(vec4<f32>(0.0), x, isUsable);
  let isSmall = (held > vec4<f32>(-0.2928)) & (held < vec4<f32>(0.4142));
  let u = 1.0 + hidden(held);
  let root = vec4<u32>(0x3f3504f3u); // the square root of 1/2
  let above = bitcast<vec4<u32>>(u) - root;
  let exponent = vec4<f32>(bitcast<vec4<i32>>(above) >> vec4<u32>(23u));
  let mantissa = bitcast<vec4<f32>>((above & vec4<u32>(0x007fffffu)) + root) - 1.0;
  // What was lost when 1 was added.
  let lost = select(held - (hidden(u) - 1.0), 1.0 - (hidden(u) - held), held >= vec4<f32>(1.0)) / u;
  let f = select(mantissa, held, isSmall);
  let k = select(exponent, vec4<f32>(0.0), isSmall);
  let y = select(nan4(), withSign4(logOf4(f, k, select(lost, vec4<f32>(0.0), isSmall)), x), isUsable);
  let infinity = vec4<u32>(uniforms.infinityBits);
  let ofMinusOne = bitcast<vec4<f32>>(infinity | vec4<u32>(0x80000000u));
  return select(select(y, ofMinusOne, bits == vec4<u32>(0xbf800000u)), bitcast<vec4<f32>>(infinity), isInfinity);
}`,
  },
};
