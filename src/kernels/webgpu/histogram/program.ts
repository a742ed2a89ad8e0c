/**
 * The WGSL programs of the histogram kernel.
 *
 * All buffers are bound as u32 and looked at as bits: WGSL may assume that there is neither NaN nor Infinity, may take
 * subnormal numbers for zeros, and does not say how it rounds integers to floats.
 *
 * A workgroup counts in memory of its own and adds what it found to the table, so that a number which half of the tensor
 * equals is not half of a million additions to one word of device memory. It has counters for ordinary numbers, zero, NaN
 * and Infinity, 16 bits wide, the positive and the negative one of a size in one word: 16 KiB, which every device has.
 * Numbers of other sizes are rare, and counted in the table at once.
 */
import { buckets } from '../../../rows/index.js';

const {
  INFINITY_BITS,
  INFINITY_SLOT,
  LAST_BUCKET,
  NAN_SLOT,
  NEGATIVE,
  NORMAL_BITS,
  ORDINARY,
  base,
  half,
  shift,
} = buckets;

/** Invocations of a workgroup. */
export const WORKGROUP = 256;

/** Elements that a workgroup may count before 16 bits overflow, in whole rounds of the workgroup. */
export const MOST_PER_WORKGROUP = Math.floor((2 ** 16 - 1) / WORKGROUP) * WORKGROUP;

/** Places of ordinary buckets in the memory of a workgroup, behind that of zero; those of NaN and Infinity follow. */
const OWN_BUCKETS = ORDINARY.last - ORDINARY.first + 1;
const OWN_PLACES = OWN_BUCKETS + 3;

/**
 * What is in the buffers behind the tensors: tfjs keeps bool as i32, and casts by looking at the same buffer. A mask may
 * also be packed, with a bit per element.
 */
export type BufferType = 'f32' | 'i32' | 'bits';

/** What the shader text depends on; sizes are uniforms. */
export interface ProgramShape {
  readonly values: Exclude<BufferType, 'bits'>;
  /** Undefined selects everything. */
  readonly mask: BufferType | undefined;
  /** Whether a workgroup counts in memory of its own first. */
  readonly hasOwnTable: boolean;
}

/** Zeros for all words of the tables. Bindings: tables, uniforms. */
export function clearText(): string {
  return `
@group(0) @binding(0) var<storage, read_write> tables: array<u32>;
@group(0) @binding(1) var<uniform> sizes: vec4<u32>;

@compute @workgroup_size(${WORKGROUP})
fn main(
  @builtin(local_invocation_index) lane: u32,
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
) {
  let first = (group.y * groups.x + group.x) * ${WORKGROUP}u + lane;
  for (var word = first; word < sizes.x; word += groups.x * groups.y * ${WORKGROUP}u) { tables[word] = 0u; }
}`;
}

/** Adds the counts of a window to a table, or to the part of it that is bound. Bindings: table, values, the mask if there is one, uniforms. */
export function histogramText({ values, mask, hasOwnTable }: ProgramShape): string {
  const addToTable = `add(slot + select(0u, ${NEGATIVE}u, is_negative), 1u);`;
  const add = hasOwnTable
    ? `let place = own_place(slot);
    if (place < ${OWN_PLACES}u) { atomicAdd(&own[place], select(1u, 0x10000u, is_negative)); } else { ${addToTable} }`
    : addToTable;
  return `
struct Sizes { length: u32, share: u32, first_slot: u32 };
@group(0) @binding(0) var<storage, read_write> table: array<atomic<u32>>;
@group(0) @binding(1) var<storage, read> values: array<u32>;
${mask ? '@group(0) @binding(2) var<storage, read> selection: array<u32>;' : ''}
@group(0) @binding(${mask ? 3 : 2}) var<uniform> sizes: Sizes;
${hasOwnTable ? OWN : ''}
/** Adds to a slot, if it is among those that are bound. */
fn add(slot: u32, count: u32) {
  let at = slot - sizes.first_slot;
  if (at < arrayLength(&table)) { atomicAdd(&table[at], count); }
}
${BITS[values]}
/** The slot of the positive float32 with these bits. */
fn slot_of(magnitude: u32) -> u32 {
  if (magnitude == 0u) { return 0u; }
  if (magnitude > ${INFINITY_BITS}u) { return ${NAN_SLOT}u; }
  if (magnitude == ${INFINITY_BITS}u) { return ${INFINITY_SLOT}u; }
  if (magnitude >= ${NORMAL_BITS}u) { return u32(i32((magnitude + ${half}u) >> ${shift}u) - (${base})); }
  // A subnormal number is an integer of the smallest one: its bits as a float, with an exponent that begins at 0.
  let exponent = firstLeadingBit(magnitude);
  let aligned = (magnitude << (23u - exponent)) - ${NORMAL_BITS}u + (exponent << 23u);
  return ((aligned + ${half}u) >> ${shift}u) + 1u;
}

@compute @workgroup_size(${WORKGROUP})
fn main(
  @builtin(local_invocation_index) lane: u32,
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
) {
  let start = min((group.y * groups.x + group.x) * sizes.share, sizes.length);
  let end = min(start + sizes.share, sizes.length);
  for (var i = start + lane; i < end; i += ${WORKGROUP}u) {
    ${mask ? `if ((${SELECTING_BITS[mask]}) == 0u) { continue; }` : ''}
    let bits = float_bits(values[i]);
    let is_negative = (bits >> 31u) == 1u;
    let slot = slot_of(bits & 0x7fffffffu);
    ${add}
  }
${hasOwnTable ? ADD_UP : ''}}`;
}

/** What of the mask makes element i selected: −0 is zero. */
const SELECTING_BITS: Readonly<Record<BufferType, string>> = {
  f32: 'selection[i] & 0x7fffffffu',
  i32: 'selection[i]',
  bits: '(selection[i >> 5u] >> (i & 31u)) & 1u',
};

/** The bits of an element as float32; of integers those of the nearest one. */
const BITS: Readonly<Record<ProgramShape['values'], string>> = {
  f32: 'fn float_bits(word: u32) -> u32 { return word; }',
  i32: `fn float_bits(word: u32) -> u32 {
  if (word == 0u) { return 0u; }
  let sign = word & 0x80000000u;
  let magnitude = select(word, 0u - word, sign != 0u);
  let exponent = firstLeadingBit(magnitude);
  let aligned = magnitude << (31u - exponent);
  // 24 bits, rounded. Of two floats as near it may be either: an edge of a bucket is even, so both give the same bucket.
  let rounded = (aligned >> 8u) + ((aligned >> 7u) & 1u);
  // The leading one of what is kept adds to the exponent, and so does what is carried.
  return sign | (((126u + exponent) << 23u) + rounded);
}`,
};

const OWN = `
var<workgroup> own: array<atomic<u32>, ${OWN_PLACES}>;
/** Where a workgroup counts a slot; nowhere if that is beyond its memory. */
fn own_place(slot: u32) -> u32 {
  if (slot == 0u) { return 0u; }
  if (slot > ${LAST_BUCKET}u) { return slot - ${LAST_BUCKET}u + ${OWN_BUCKETS}u; }
  return select(${OWN_PLACES}u, slot - ${ORDINARY.first - 1}u, slot >= ${ORDINARY.first}u && slot <= ${ORDINARY.last}u);
}
/** The slot that is counted at a place. */
fn slot_at(place: u32) -> u32 {
  if (place == 0u) { return 0u; }
  return place + select(${ORDINARY.first - 1}u, ${LAST_BUCKET - OWN_BUCKETS}u, place > ${OWN_BUCKETS}u);
}`;

const ADD_UP = `
  workgroupBarrier();
  for (var place = lane; place < ${OWN_PLACES}u; place += ${WORKGROUP}u) {
    let both = atomicLoad(&own[place]);
    let positive = both & 0xffffu;
    let negative = both >> 16u;
    if (positive > 0u) { add(slot_at(place), positive); }
    if (negative > 0u) { add(slot_at(place) + ${NEGATIVE}u, negative); }
  }
`;
