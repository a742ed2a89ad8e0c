/**
 * The WGSL of the masked-moments pass, generated for a list of channels.
 *
 * The work is cut into *units*, one chunk of one row each. A power-of-two number of neighbouring threads, the lanes,
 * share a unit: each lane strides over the chunk in tiles of four elements and the lanes merge in a fixed tree, so
 * equal inputs give equal bits. Every unit leaves one record per channel; the host merges the chunks in float64.
 *
 * What makes it accurate in float32: deviations are taken from a pivot `k` that is an element of the data, so the
 * host can add k and the mean deviation in float64; sums of deviations are kept, not means, so sums of small integers
 * are exact; tiles are reduced in two passes; and both sums carry a binary exponent, `u` for deviations and `e` for
 * their squares, so that neither overflows or vanishes. NaN and ±Infinity are told by their bits, since WGSL may
 * assume neither exists.
 */
import type { Expression } from '../expression.js';
import type { Uniform, WebGpuProgram } from '../webgpu-device.js';

/** Threads per workgroup: two warps of a GPU. A CPU that plays a GPU gets slow with more, barriers above all. */
const WORKGROUP = 64;

/** Elements that a lane holds in registers at a time. */
const TILE = 8;

/** The tile as vectors of four, which processors of every kind handle as one. */
const QUADS = TILE / 4;

/** 32-bit words of one record, see `writeRecord` in the shader and `decodeRecord` on the host. */
export const RECORD_WORDS = 11;

/** Types of the buffers that a pass reads; bool tensors are int32 on the GPU. */
export type BufferType = 'f32' | 'i32';

/** What the shader text depends on: sizes are uniforms, so that one pipeline serves all shapes. */
export interface ProgramShape {
  readonly channels: readonly Expression[];
  /** Inputs in binding order with their types. */
  readonly inputs: readonly { readonly name: string; readonly type: BufferType }[];
  readonly mask: BufferType | undefined;
}

/** The sizes of a pass. */
export interface ProgramSizes {
  /** rows · chunks */
  readonly units: number;
  readonly cols: number;
  /** Units per row. */
  readonly chunks: number;
  readonly chunkLength: number;
  readonly maskStride: number;
  readonly maskOffset: number;
}

/** The type in which a channel is reduced: integer inputs stay integers so that extremes are exact. */
export function channelType(channel: Expression, shape: Pick<ProgramShape, 'inputs'>): BufferType {
  if (channel.kind !== 'input') return 'f32';
  return shape.inputs.find(({ name }) => name === channel.name)!.type;
}

/** Lanes for chunks of `length` elements: as few as keep every lane at work, at most a workgroup. */
function lanesFor(length: number): number {
  const wanted = 2 ** Math.ceil(Math.log2(Math.max(1, length / TILE)));
  return Math.min(WORKGROUP, wanted);
}

/** The program of one pass, and the values of its uniforms. */
export function momentsProgram(
  shape: ProgramShape,
  sizes: ProgramSizes,
  maxWorkgroups: number,
): { program: WebGpuProgram; uniforms: Uniform[] } {
  const lanes = lanesFor(sizes.chunkLength);
  const groups = Math.ceil(sizes.units / (WORKGROUP / lanes));
  const across = Math.min(groups, maxWorkgroups);
  const values = { ...sizes, lanes };
  const names = shape.inputs.map((_, i) => `in${i}`);
  const text = shaderText(shape);
  return {
    program: {
      variableNames: shape.mask === undefined ? names : [...names, 'maskBuffer'],
      uniforms: Object.keys(values)
        .map((name) => `${name} : u32,`)
        .join(' '),
      // The text is the key: whatever changes it, and nothing else, needs another pipeline.
      shaderKey: `tensortally_moments_${text}`,
      dispatchLayout: { x: [0], y: [1], z: [2] },
      dispatch: [across, Math.ceil(groups / across), 1],
      workgroupSize: [WORKGROUP, 1, 1],
      outputShape: [shape.channels.length, sizes.units, RECORD_WORDS],
      getUserCode: () => text,
    },
    uniforms: Object.values(values).map((value) => ({ type: 'uint32', data: [value] })),
  };
}

function shaderText(shape: ProgramShape): string {
  const types = shape.channels.map((channel) => channelType(channel, shape));
  const present = [...new Set(types)];
  return [
    SCALING,
    selectedText(shape.mask),
    ...present.map((type) => loadText(type, shape) + accumulatorText(type)),
    'fn main() {',
    '  let lanes = uniforms.lanes;',
    '  let lane = localIndex % lanes;',
    `  let unit = (workgroupId.y * numWorkgroups.x + workgroupId.x) * (${WORKGROUP}u / lanes) + localIndex / lanes;`,
    '  let live = unit < uniforms.units;',
    '  let row = unit / uniforms.chunks;',
    '  let first = (unit % uniforms.chunks) * uniforms.chunkLength;',
    '  let last = select(first, min(first + uniforms.chunkLength, uniforms.cols), live);',
    '  let base = row * uniforms.cols;',
    '  let maskBase = row * uniforms.maskStride + uniforms.maskOffset;',
    ...present.map(reduceText),
    '}',
  ].join('\n');
}

/** Whether the element at an offset of the mask selects. */
function selectedText(mask: BufferType | undefined): string {
  const test = {
    all: 'true',
    i32: 'maskBuffer[at] != 0',
    f32: '(bitcast<u32>(maskBuffer[at]) & 0x7fffffffu) != 0u',
  }[mask ?? 'all'];
  return `
fn selected(at: u32) -> bool { return ${test}; }
fn selected4(at: vec4<u32>) -> vec4<bool> {
  return vec4<bool>(selected(at.x), selected(at.y), selected(at.z), selected(at.w));
}`;
}

/** The channels of type `t`: how many, which, and their values at an element. */
function loadText(t: BufferType, shape: ProgramShape): string {
  const own = shape.channels.flatMap((channel, index) =>
    channelType(channel, shape) === t ? [{ channel, index }] : [],
  );
  const table = (result: (entry: (typeof own)[number]) => string, otherwise: string): string =>
    `  switch (c) {
${own.map((entry, c) => `    case ${c}u: { return ${result(entry)}; }`).join('\n')}
    default: { return ${otherwise}; }
  }`;
  return `
const CHANNELS_${t} = ${own.length}u;
fn channelOf_${t}(c: u32) -> u32 {
${table(({ index }) => `${index}u`, '0u')}
}
fn load4_${t}(c: u32, at: vec4<u32>) -> vec4<${t}> {
${table(({ channel }) => lower(channel, shape), `vec4<${t}>(0)`)}
}`;
}

/** A channel's values at the four elements `at`. */
function lower(expression: Expression, shape: ProgramShape): string {
  switch (expression.kind) {
    case 'input': {
      const buffer = `in${shape.inputs.findIndex(({ name }) => name === expression.name)}`;
      const type = channelType(expression, shape);
      return `vec4<${type}>(${['x', 'y', 'z', 'w'].map((i) => `${buffer}[at.${i}]`).join(', ')})`;
    }
    case 'constant':
      return `vec4<f32>(${expression.value})`;
    case 'subtract':
      return `(vec4<f32>(${lower(expression.left, shape)}) - vec4<f32>(${lower(expression.right, shape)}))`;
  }
}

/** One line of WGSL per vector of the tile: written out, since arrays of registers are memory to a shader compiler. */
function perQuad(line: (q: number) => string): string {
  return Array.from({ length: QUADS }, (_, q) => line(q)).join('\n');
}

/** Folds the vectors of a tile with `+` or a function, then the four components. */
function foldQuads(name: string, join: (a: string, b: string) => string): string {
  const vector = Array.from({ length: QUADS }, (_, q) => `${name}${q}`).reduce(join);
  return join(join(`(${vector}).x`, `(${vector}).y`), join(`(${vector}).z`, `(${vector}).w`));
}

const plus = (a: string, b: string): string => `(${a} + ${b})`;
const least = (a: string, b: string): string => `min(${a}, ${b})`;
const greatest = (a: string, b: string): string => `max(${a}, ${b})`;

/**
 * Reduces the unit for every channel of type `t` and writes the records.
 *
 * A tile is reduced in two passes about a pivot, the mean of its deviations first, and then merged into `acc`.
 */
function reduceText(t: BufferType): string {
  return `
  for (var c = 0u; c < CHANNELS_${t}; c++) {
    var acc = empty_${t}();
    for (var start = first + lane; start < last; start += lanes * ${TILE}u) {
${perQuad(
  (q) => `
      let at${q} = start + vec4<u32>(${4 * q}u, ${4 * q + 1}u, ${4 * q + 2}u, ${4 * q + 3}u) * lanes;
      // Beyond the end the last element is read again and left out.
      let near${q} = min(at${q}, vec4<u32>(last - 1u));
      let x${q} = load4_${t}(c, base + near${q});
      let chosen${q} = (at${q} < vec4<u32>(last)) & selected4(maskBase + near${q});
      let ok${q} = chosen${q} & isFinite_${t}(x${q});
      if (any(chosen${q} & !ok${q})) { reject_${t}(&acc, x${q}, chosen${q} & !ok${q}); }
      let n${q} = vec4<u32>(ok${q});
      let lo${q} = select(vec4<${t}>(HIGHEST_${t}), x${q}, ok${q});
      let hi${q} = select(vec4<${t}>(LOWEST_${t}), x${q}, ok${q});`,
)}
      let n = ${foldQuads('n', plus)};
      if (n == 0u) { continue; }
      let lo = ${foldQuads('lo', least)};
      let hi = ${foldQuads('hi', greatest)};
      let u = max(acc.u, unitOf_${t}(lo, hi));
      var k = acc.k;
      if (acc.n == 0u) {
        // The first pivot is the element nearest to the mean of the tile, so that an outlier is none.
${perQuad((q) => `        let far${q} = select(vec4<f32>(0.0), deviation4_${t}(x${q}, lo, u), ok${q});`)}
        let middle = ${foldQuads('far', plus)} / f32(n);
        k = lo;
        var nearest = middle;
${perQuad((q) =>
  ['x', 'y', 'z', 'w']
    .map(
      (i) => `
        if (ok${q}.${i} && abs(far${q}.${i} - middle) < nearest) {
          nearest = abs(far${q}.${i} - middle);
          k = x${q}.${i};
        }`,
    )
    .join(''),
)}
      }
${perQuad((q) => `      let d${q} = select(vec4<f32>(0.0), deviation4_${t}(x${q}, k, u), ok${q});`)}
      let sum = ${foldQuads('d', plus)};
      let mean = sum / f32(n);
      let reach = max(abs(deviation_${t}(lo, k, u) - mean), abs(deviation_${t}(hi, k, u) - mean));
      let e = exponentOf(reach);
      let down = powerOfTwo(-(e / 2));
      let rest = powerOfTwo(e / 2 - e);
${perQuad(
  (q) => `
      let s${q} = select(vec4<f32>(0.0), (d${q} - mean) * down * rest, ok${q});
      let square${q} = s${q} * s${q};`,
)}
      let m2 = ${foldQuads('square', plus)};
      acc = merge_${t}(acc, Acc_${t}(n, 0u, 0u, 0u, k, u, sum, e + u, m2, lo, hi));
    }
    shared_${t}[localIndex] = acc;
    workgroupBarrier();
    for (var width = lanes / 2u; width > 0u; width /= 2u) {
      if (lane < width) {
        shared_${t}[localIndex] = merge_${t}(shared_${t}[localIndex], shared_${t}[localIndex + width]);
      }
      workgroupBarrier();
    }
    if (live && lane == 0u) {
      writeRecord_${t}((channelOf_${t}(c) * uniforms.units + unit) * ${RECORD_WORDS}u, shared_${t}[localIndex]);
    }
    workgroupBarrier();
  }`;
}

/** The accumulator of channels of type `t`, its deviations, its merge and its record. */
function accumulatorText(t: BufferType): string {
  return `
struct Acc_${t} {
  n: u32, nan: u32, posInf: u32, negInf: u32,
  k: ${t}, u: i32, sum: f32, e: i32, m2: f32, lo: ${t}, hi: ${t}
};
var<workgroup> shared_${t}: array<Acc_${t}, ${WORKGROUP}>;

fn empty_${t}() -> Acc_${t} {
  return Acc_${t}(0u, 0u, 0u, 0u, ${t}(0), -64, 0.0, 0, 0.0, ${t}(0), ${t}(0));
}
${t === 'f32' ? FLOAT_RULES : INTEGER_RULES}
fn merge_${t}(a: Acc_${t}, b: Acc_${t}) -> Acc_${t} {
  let nan = a.nan + b.nan;
  let posInf = a.posInf + b.posInf;
  let negInf = a.negInf + b.negInf;
  if (b.n == 0u) { return Acc_${t}(a.n, nan, posInf, negInf, a.k, a.u, a.sum, a.e, a.m2, a.lo, a.hi); }
  if (a.n == 0u) { return Acc_${t}(b.n, nan, posInf, negInf, b.k, b.u, b.sum, b.e, b.m2, b.lo, b.hi); }
  let n = a.n + b.n;
  let na = f32(a.n);
  let nb = f32(b.n);
  let u = max(a.u, b.u);
  let sumA = scaleDown(a.sum, u - a.u);
  let sumB = scaleDown(b.sum, u - b.u);
  let shift = deviation_${t}(b.k, a.k, u);
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
  return Acc_${t}(n, nan, posInf, negInf, k, u, sum, e, m2, min(a.lo, b.lo), max(a.hi, b.hi));
}

fn writeRecord_${t}(at: u32, a: Acc_${t}) {
  result[at] = i32(a.n);
  result[at + 1u] = i32(a.nan);
  result[at + 2u] = i32(a.posInf);
  result[at + 3u] = i32(a.negInf);
  result[at + 4u] = bitcast<i32>(a.k);
  result[at + 5u] = a.u;
  result[at + 6u] = bitcast<i32>(a.sum);
  result[at + 7u] = a.e;
  result[at + 8u] = bitcast<i32>(a.m2);
  result[at + 9u] = bitcast<i32>(a.lo);
  result[at + 10u] = bitcast<i32>(a.hi);
}`;
}

/** Powers of two by exponent bits: exact, and split in two factors so that neither overflows. */
const SCALING = `
fn exponentOf(x: f32) -> i32 {
  return i32((bitcast<u32>(x) >> 23u) & 0xffu) - 127;
}
fn powerOfTwo(e: i32) -> f32 {
  return bitcast<f32>(u32(clamp(e, -126, 127) + 127) << 23u);
}
fn scaleDown(x: f32, e: i32) -> f32 {
  let half = e / 2;
  return x * powerOfTwo(-half) * powerOfTwo(half - e);
}`;

const FLOAT_RULES = `
// Deviations are kept in units of 2^u: 1 for all ordinary data, 2^64 once an element is so large that a sum of
// deviations could overflow, 2^-64 as long as all are so small that a deviation could be flushed to zero.
const HIGHEST_f32 = 0x1.fffffep+127f;
const LOWEST_f32 = -HIGHEST_f32;
fn unitOf_f32(lo: f32, hi: f32) -> i32 {
  let largest = max(abs(lo), abs(hi));
  return select(select(0, -64, largest < 0x1p-60f), 64, largest > 0x1p90f);
}
fn deviation_f32(x: f32, k: f32, u: i32) -> f32 { return deviation4_f32(vec4<f32>(x), k, u).x; }
fn deviation4_f32(x: vec4<f32>, k: f32, u: i32) -> vec4<f32> {
  let unit = powerOfTwo(-u);
  return x * unit - k * unit;
}
fn isFinite_f32(x: vec4<f32>) -> vec4<bool> {
  return (bitcast<vec4<u32>>(x) & vec4<u32>(0x7f800000u)) != vec4<u32>(0x7f800000u);
}
fn reject_f32(acc: ptr<function, Acc_f32>, x: vec4<f32>, which: vec4<bool>) {
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
fn deviation_i32(x: i32, k: i32, u: i32) -> f32 { return deviation4_i32(vec4<i32>(x), k, u).x; }
// The difference of two int32 may need 33 bits: the halves are subtracted as integers and joined in float32.
fn deviation4_i32(x: vec4<i32>, k: i32, u: i32) -> vec4<f32> {
  let high = vec4<f32>((x >> vec4<u32>(16u)) - vec4<i32>(k >> 16u));
  return high * 65536.0 + vec4<f32>((x & vec4<i32>(0xffff)) - vec4<i32>(k & 0xffff));
}
fn isFinite_i32(x: vec4<i32>) -> vec4<bool> { return vec4<bool>(true); }
fn reject_i32(acc: ptr<function, Acc_i32>, x: vec4<i32>, which: vec4<bool>) {}`;
