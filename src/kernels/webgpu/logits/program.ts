/**
 * The WGSL program of the logits kernel: one workgroup per row.
 *
 * Lanes walk the row in tiles of sixteen logits, with a running reference logit instead of the maximum: it follows the
 * maximum only when that has run away by `GAP`, so that rows which rise slowly do not rescale, and round, all the time.
 * Sums of the exponentials are kept in three levels, each adding a few results of the one below, so that their error
 * does not grow with the vocabulary; the lanes then merge in a fixed tree. Exponential and logarithm are our own, since
 * WGSL's may be off by dozens of ulp.
 *
 * Logits are halved (x = (z/2 − m/2) · 2/temperature), so that no difference of two of them overflows: WGSL may assume
 * that there are neither infinities nor NaN. Those of the input are told by their bits, those of the results written
 * as bits.
 */

/** Threads per workgroup: two warps of a GPU. A CPU that plays a GPU gets slow with more, barriers above all. */
const WORKGROUP = 64;

/** Vectors that a lane holds in registers at a time. */
const VECTORS = 4;

/** How far, after the temperature, logits may rise above the reference; e to twice its power is far from overflow. */
const GAP = 4;

/** Where the exponential is 0 below: in float32 it is a denormal there, and no device need have those. */
const REACH = 88;

const FLOAT32_MAX = 2 ** 128 - 2 ** 104;

/** Types of the buffers behind the tensors. tfjs casts int32 to float32 by looking at the same buffer. */
export type BufferType = 'f32' | 'i32';

/** What the shader text depends on: sizes are uniforms, so that one pipeline serves all shapes. */
export interface ProgramShape {
  readonly logits: BufferType;
  readonly labels: BufferType;
  /** Whether every row begins at 16 bytes, so that four logits are one load. */
  readonly isAligned: boolean;
}

/** The part of a matrix that one launch reads. */
export interface Window {
  readonly firstRow: number;
  readonly rows: number;
  readonly cols: number;
  /** Elements of the bound buffer before the window's first row. */
  readonly skip: number;
}

/** The uniforms of a launch, laid out as `Sizes` in the shader. */
export function uniformsOf({ firstRow, rows, cols, skip }: Window, temperature: number): Uint32Array {
  const bytes = new ArrayBuffer(32);
  const quietNaN = 0x7fc00000;
  const words = new Uint32Array(bytes);
  words.set([firstRow, rows, cols, skip, quietNaN]);
  new Float32Array(bytes).set(
    [
      2 / temperature,
      (REACH / 2) * temperature,
      // Differences of half logits beyond this are log-probabilities beyond float32.
      Math.min(FLOAT32_MAX, (FLOAT32_MAX / 2) * temperature),
    ],
    5,
  );
  return words;
}

/**
 * The shader. Bindings: logits, labels, then the results logProbs, entropy, sumPiSquared, maxProb, then the uniforms.
 * Results are indexed by the row of the whole matrix, logits by the row of the window.
 */
export function logitsShader({ logits, labels, isAligned }: ProgramShape): string {
  return `
struct Sizes {
  firstRow: u32, rows: u32, cols: u32, skip: u32, nan: u32,
  scale: f32, reach: f32, limit: f32,
};
@group(0) @binding(0) var<storage, read> logits: array<${isAligned ? `vec4<${logits}>` : logits}>;
@group(0) @binding(1) var<storage, read> labels: array<${labels}>;
@group(0) @binding(2) var<storage, read_write> logProbs: array<u32>;
@group(0) @binding(3) var<storage, read_write> entropy: array<u32>;
@group(0) @binding(4) var<storage, read_write> sumPiSquared: array<u32>;
@group(0) @binding(5) var<storage, read_write> maxProb: array<u32>;
@group(0) @binding(6) var<uniform> sizes: Sizes;

const INFINITE = 0x7f800000u;
const NEGATIVE_INFINITE = 0xff800000u;
const LOWEST_HALF = -0x1.fffffep+126f;

// Pivot (the reference) and peak (the largest) are half logits; s holds the sums of e^x, e^2x and x e^x, where x is
// relative to the pivot.
struct Acc { pivot: f32, peak: f32, s: vec3<f32>, broken: u32, present: u32 };
var<workgroup> lanes: array<Acc, ${WORKGROUP}>;

${EXPONENTIAL}
${logitAt(isAligned)}
${validity(labels)}

fn exponent(half: f32, pivot: f32) -> f32 { return max(half - pivot, -sizes.reach) * sizes.scale; }

fn rescaled(s: vec3<f32>, x: f32) -> vec3<f32> {
  let w = exponential(vec4<f32>(x)).x;
  return vec3<f32>(w * s.x, w * w * s.y, w * (s.z + x * s.x));
}

fn merged(a: Acc, b: Acc) -> Acc {
  let pivot = max(a.pivot, b.pivot);
  let s = rescaled(a.s, exponent(a.pivot, pivot)) + rescaled(b.s, exponent(b.pivot, pivot));
  return Acc(pivot, max(a.peak, b.peak), s, a.broken | b.broken, a.present | b.present);
}

@compute @workgroup_size(${WORKGROUP})
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32,
) {
  let row = group.y * groups.x + group.x;
  if (row >= sizes.rows) { return; }
  let base = sizes.skip + row * sizes.cols;
  let units = ${isAligned ? 'sizes.cols / 4u' : 'sizes.cols'};

  var acc = Acc(LOWEST_HALF, LOWEST_HALF, vec3<f32>(0.0), 0u, 0u);
  var low = vec3<f32>(0.0);
  var middle = vec3<f32>(0.0);
  var high = vec3<f32>(0.0);
  var step = 0u;
  for (var first = lane; first < units; first += ${WORKGROUP * VECTORS * (isAligned ? 1 : 4)}u) {
${perVector((k) => load(k, isAligned, logits))}
    let top = highest(${foldVectors((k) => `h${k}`, 'max')});
    acc.peak = max(acc.peak, top);
    acc.broken |= u32(any(${foldVectors((k) => `broken${k}`, '|')}));
    acc.present |= u32(any(${foldVectors((k) => `present${k}`, '|')}));
    if (top - acc.pivot > sizes.reach * ${GAP / REACH}) {
      let x = exponent(acc.pivot, top);
      low = rescaled(low, x);
      middle = rescaled(middle, x);
      high = rescaled(high, x);
      acc.pivot = top;
    }
${perVector(
  (k) => `
    let x${k} = max(h${k} - acc.pivot, vec4<f32>(-sizes.reach)) * sizes.scale;
    let e${k} = select(vec4<f32>(0.0), exponential(x${k}), present${k});`,
)}
    low += vec3<f32>(
      total(${foldVectors((k) => `e${k}`, '+')}),
      total(${foldVectors((k) => `e${k} * e${k}`, '+')}),
      total(${foldVectors((k) => `x${k} * e${k}`, '+')}),
    );
    step++;
    if (step % 8u == 0u) { middle += low; low = vec3<f32>(0.0); }
    if (step % 128u == 0u) { high += middle; middle = vec3<f32>(0.0); }
  }
  acc.s = high + (middle + low);

  lanes[lane] = acc;
  workgroupBarrier();
  for (var width = ${WORKGROUP / 2}u; width > 0u; width /= 2u) {
    if (lane < width) { lanes[lane] = merged(lanes[lane], lanes[lane + width]); }
    workgroupBarrier();
  }
  if (lane != 0u) { return; }

  let all = lanes[0];
  let s = rescaled(all.s, exponent(all.pivot, all.peak));
  // The largest logit alone adds 1.
  let s1 = max(s.x, 1.0);
  let logSum = logarithm(s1);
  let broken = all.broken == 1u || all.present == 0u;
  let at = sizes.firstRow + row;
  let isColumn = labelFits(at);
  let raw = logitAt(base, select(0u, u32(labels[at]), isColumn));
  let below = all.peak - f32(raw) * 0.5;
  var logProb = bitcast<u32>(min(-below * sizes.scale - logSum, 0.0));
  if (bitcast<u32>(raw) == NEGATIVE_INFINITE${logits === 'i32' ? ' && false' : ''}) { logProb = NEGATIVE_INFINITE; }
  else if (below > sizes.limit) { logProb = NEGATIVE_INFINITE; }
  logProbs[at] = select(logProb, sizes.nan, broken || !isColumn);
  entropy[at] = select(bitcast<u32>(max(logSum - s.z / s1, 0.0)), sizes.nan, broken);
  sumPiSquared[at] = select(bitcast<u32>(s.y / (s1 * s1)), sizes.nan, broken);
  maxProb[at] = select(bitcast<u32>(1.0 / s1), sizes.nan, broken);
}
`;
}

/** Vectors of a tile, written out, since arrays of registers are memory to a shader compiler. */
function perVector(text: (k: number) => string): string {
  return Array.from({ length: VECTORS }, (_, k) => text(k)).join('\n');
}

/** Joins the vectors of a tile pairwise with an operator, or with `max`. */
function foldVectors(vector: (k: number) => string, join: '+' | '|' | 'max'): string {
  let level = Array.from({ length: VECTORS }, (_, k) => vector(k));
  while (level.length > 1) {
    level = Array.from({ length: level.length / 2 }, (_, i) => {
      const [a, b] = [level[2 * i]!, level[2 * i + 1]!];
      return join === 'max' ? `max(${a}, ${b})` : `(${a} ${join} ${b})`;
    });
  }
  return level[0]!;
}

/** Half logits of vector `k` of a tile, which of them count, and whether one of them rules out a distribution. */
function load(k: number, isAligned: boolean, type: BufferType): string {
  const scalars = ['x', 'y', 'z', 'w'].map((i) => `logits[base + near${k}.${i}]`).join(', ');
  const [from, inside] = isAligned
    ? [
        `let at${k} = first + ${WORKGROUP * k}u;
    let raw${k} = logits[base / 4u + min(at${k}, units - 1u)];`,
        `vec4<bool>(at${k} < units)`,
      ]
    : [
        // Neighbouring lanes read neighbouring logits; beyond the end the last one is read again and left out.
        `let at${k} = first + ${WORKGROUP}u * vec4<u32>(${[0, 1, 2, 3].map((i) => `${4 * k + i}u`).join(', ')});
    let near${k} = min(at${k}, vec4<u32>(units - 1u));
    let raw${k} = vec4<${type}>(${scalars});`,
        `(at${k} < vec4<u32>(units))`,
      ];
  const bits =
    type === 'f32'
      ? `
    let bits${k} = bitcast<vec4<u32>>(raw${k});
    let present${k} = ${inside} & (bits${k} != vec4<u32>(NEGATIVE_INFINITE));
    let broken${k} = present${k} & ((bits${k} & vec4<u32>(INFINITE)) == vec4<u32>(INFINITE));`
      : `
    let present${k} = ${inside};
    let broken${k} = vec4<bool>(false);`;
  return `    ${from}${bits}
    let h${k} = select(vec4<f32>(LOWEST_HALF), vec4<f32>(raw${k}) * 0.5, present${k});`;
}

/** The logit in column `c` of the row at `base`. */
function logitAt(isAligned: boolean): string {
  const at = isAligned ? 'logits[(base + c) / 4u][c % 4u]' : 'logits[base + c]';
  return `fn logitAt(base: u32, c: u32) -> f32 { return f32(${at}); }`;
}

/** Whether the label at an index is a column. */
function validity(labels: BufferType): string {
  const test =
    labels === 'i32'
      ? 'label >= 0 && u32(label) < sizes.cols'
      : `(bitcast<u32>(label) & INFINITE) != INFINITE && label >= 0.0 && label < 4294967040.0
    && label == floor(label) && u32(label) < sizes.cols`;
  return `fn labelFits(at: u32) -> bool { let label = labels[at]; return ${test}; }`;
}

const EXPONENTIAL = `
fn highest(v: vec4<f32>) -> f32 { return max(max(v.x, v.y), max(v.z, v.w)); }
fn total(v: vec4<f32>) -> f32 { return (v.x + v.y) + (v.z + v.w); }

// e^x for x from -88 to 88: 2^n times a minimax polynomial of e^r, |r| <= ln 2 / 2, exact at 0 and good to 1e-7.
// ln 2 is split in two, the first part with trailing zeros, so that n times it is exact. At x = -88, 2^n is 0.
fn exponential(x: vec4<f32>) -> vec4<f32> {
  let n = round(x * 1.4426950408889634);
  let r = (x - n * 0.693359375) - n * -2.1219444e-4;
  var p = r * 0.008290272 + 0.04189816;
  p = r * p + 0.16667639;
  p = r * p + 0.49999148;
  p = r * p + 0.9999997;
  p = r * p + 1.0;
  return p * bitcast<vec4<f32>>((vec4<i32>(n) + vec4<i32>(127)) << vec4<u32>(23u));
}

// ln s for s >= 1: the exponent, and the series of artanh on the mantissa, which is from sqrt(1/2) to sqrt(2).
fn logarithm(s: f32) -> f32 {
  let bits = bitcast<u32>(s);
  var n = f32(bits >> 23u) - 127.0;
  var m = bitcast<f32>((bits & 0x7fffffu) | 0x3f800000u);
  if (m > 1.4142135) { m *= 0.5; n += 1.0; }
  let f = (m - 1.0) / (m + 1.0);
  let q = f * f;
  let series = 2.0 * f * (1.0 + q * (0.33333333 + q * (0.2 + q * (0.14285714 + q * 0.11111111))));
  return n * 0.693359375 + (n * -2.1219444e-4 + series);
}`;
