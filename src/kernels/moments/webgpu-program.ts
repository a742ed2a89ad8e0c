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

/** Threads per workgroup; 256 is the guaranteed maximum of WebGPU. */
const WORKGROUP = 256;

/** Elements that a lane holds in registers at a time. */
const TILE = 16;

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
  return `fn selected(at: u32) -> bool { return ${test}; }`;
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
fn load_${t}(c: u32, at: u32) -> ${t} {
${table(({ channel }) => lower(channel, shape), `${t}(0)`)}
}`;
}

/** A channel's value at the element `at`. */
function lower(expression: Expression, shape: ProgramShape): string {
  switch (expression.kind) {
    case 'input':
      return `in${shape.inputs.findIndex(({ name }) => name === expression.name)}[at]`;
    case 'constant':
      return `f32(${expression.value})`;
    case 'subtract':
      return `(f32(${lower(expression.left, shape)}) - f32(${lower(expression.right, shape)}))`;
  }
}

/** Reduces the unit for every channel of type `t` and writes the records. */
function reduceText(t: BufferType): string {
  return `
  for (var c = 0u; c < CHANNELS_${t}; c++) {
    var acc = empty_${t}();
    for (var start = first + lane; start < last; start += lanes * ${TILE}u) {
      var v: array<${t}, ${TILE}>;
      var ok: array<bool, ${TILE}>;
      var n = 0u;
      for (var j = 0u; j < ${TILE}u; j++) {
        let at = start + j * lanes;
        ok[j] = false;
        if (at < last && selected(maskBase + at)) {
          v[j] = load_${t}(c, base + at);
          ok[j] = isFinite_${t}(v[j]);
          if (ok[j]) { n += 1u; } else { reject_${t}(&acc, v[j]); }
        }
      }
      if (n > 0u) { accumulate_${t}(&acc, v, ok, n); }
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
  return Acc_${t}(0u, 0u, 0u, 0u, ${t}(0), 0, 0.0, 0, 0.0, ${t}(0), ${t}(0));
}
${t === 'f32' ? FLOAT_RULES : INTEGER_RULES}
// Adds the n elements of a tile that are ok: two passes about a pivot, then Chan's merge into acc.
fn accumulate_${t}(acc: ptr<function, Acc_${t}>, v: array<${t}, ${TILE}>, ok: array<bool, ${TILE}>, n: u32) {
  var lo: ${t} = HIGHEST_${t};
  var hi: ${t} = LOWEST_${t};
  for (var j = 0u; j < ${TILE}u; j++) {
    lo = select(lo, min(lo, v[j]), ok[j]);
    hi = select(hi, max(hi, v[j]), ok[j]);
  }
  // Any element serves as the first pivot; the lowest is at hand.
  let k = select(lo, (*acc).k, (*acc).n > 0u);
  let u = max((*acc).u, unitOf_${t}(lo, hi));
  var d: array<f32, ${TILE}>;
  var sum = 0.0;
  for (var j = 0u; j < ${TILE}u; j++) {
    d[j] = select(0.0, deviation_${t}(v[j], k, u), ok[j]);
    sum += d[j];
  }
  let mean = sum / f32(n);
  let e = exponentOf(max(abs(deviation_${t}(lo, k, u) - mean), abs(deviation_${t}(hi, k, u) - mean)));
  let down = powerOfTwo(-(e / 2));
  let rest = powerOfTwo(e / 2 - e);
  var m2 = 0.0;
  for (var j = 0u; j < ${TILE}u; j++) {
    let s = select(0.0, (d[j] - mean) * down * rest, ok[j]);
    m2 += s * s;
  }
  *acc = merge_${t}(*acc, Acc_${t}(n, 0u, 0u, 0u, k, u, sum, e + u, m2, lo, hi));
}

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
  return Acc_${t}(n, nan, posInf, negInf, a.k, u, sumA + (sumB + shift * nb), e, m2, min(a.lo, b.lo), max(a.hi, b.hi));
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
// deviations could overflow.
const HIGHEST_f32 = 0x1.fffffep+127f;
const LOWEST_f32 = -HIGHEST_f32;
fn unitOf_f32(lo: f32, hi: f32) -> i32 { return select(0, 64, max(-lo, hi) > 0x1p90f); }
fn deviation_f32(x: f32, k: f32, u: i32) -> f32 {
  let unit = powerOfTwo(-u);
  return x * unit - k * unit;
}
fn isFinite_f32(x: f32) -> bool { return (bitcast<u32>(x) & 0x7f800000u) != 0x7f800000u; }
fn reject_f32(acc: ptr<function, Acc_f32>, x: f32) {
  let bits = bitcast<u32>(x);
  if ((bits & 0x007fffffu) != 0u) { (*acc).nan += 1u; }
  else if (bits == 0x7f800000u) { (*acc).posInf += 1u; }
  else { (*acc).negInf += 1u; }
}`;

const INTEGER_RULES = `
const HIGHEST_i32 = 2147483647;
const LOWEST_i32 = -HIGHEST_i32 - 1;
fn unitOf_i32(lo: i32, hi: i32) -> i32 { return 0; }
// The difference of two int32 may need 33 bits: the halves are subtracted as integers and joined in float32.
fn deviation_i32(x: i32, k: i32, u: i32) -> f32 {
  return f32((x >> 16u) - (k >> 16u)) * 65536.0 + f32((x & 0xffff) - (k & 0xffff));
}
fn isFinite_i32(x: i32) -> bool { return true; }
fn reject_i32(acc: ptr<function, Acc_i32>, x: i32) {}`;
