/**
 * Compact masks on the `webgpu` backend: one bit per element, where tfjs keeps four bytes of every bool.
 *
 * The words are an int32 tensor, so that tfjs' pool lends their buffer and tfjs' counters show it.
 */
import { type KernelBackend, type Tensor, type TensorInfo, engine } from '@tensorflow/tfjs-core';
import { WORD_BITS } from '../masks/forms.js';
import type { MaskKernel } from '../masks/request.js';
import { type RetainedTensor, holdTensor, retainTensor } from '../residency.js';
import { type GpuLimits, type WebGpuDevice, webGpuDevice } from './device.js';

/** Bytes of an element of a tensor, bool ones included, and of a word. */
const ELEMENT_BYTES = 4;
const WORKGROUP = 64;

/** Masks of up to so many elements stay as they are: a launch would cost more than all passes over them save. */
const FEW_ELEMENTS = 4096;

export const webgpuMask: MaskKernel = (backend, mask) => {
  if (mask.size <= FEW_ELEMENTS) {
    return { held: retainTensor(mask), form: 'elements', bytes: ELEMENT_BYTES * mask.size };
  }
  const device = webGpuDevice(backend);
  const held = newWords(backend, Math.ceil(mask.size / WORD_BITS));
  try {
    device.making([held.tensor], () => {
      for (const part of partsOf(mask.size, device.limits)) pack(device, mask, held.tensor, part);
    });
  } catch (error) {
    held.release();
    throw error;
  }
  return { held, form: 'bits', bytes: ELEMENT_BYTES * held.tensor.size };
};

/** Words with any contents. */
function newWords(backend: KernelBackend, length: number): RetainedTensor {
  const dataId = backend.write(null as never, [length], 'int32');
  return holdTensor(engine().makeTensorFromTensorInfo({ dataId, shape: [length], dtype: 'int32' }, backend));
}

/** Elements that one launch packs. */
interface Part {
  /** A multiple of the elements in a word, at which a binding may begin. */
  readonly first: number;
  readonly elements: number;
}

/** As few parts as the device can bind: one in ordinary cases. */
function partsOf(size: number, limits: GpuLimits): Part[] {
  const { maxStorageBufferBindingSize: limit, minStorageBufferOffsetAlignment: alignment } = limits;
  const unit = Math.max(alignment / ELEMENT_BYTES, WORD_BITS);
  const most = size * ELEMENT_BYTES <= limit ? size : Math.floor(limit / ELEMENT_BYTES / unit) * unit;
  return Array.from({ length: Math.ceil(size / most) }, (_, i) => ({
    first: i * most,
    elements: Math.min(most, size - i * most),
  }));
}

function pack(device: WebGpuDevice, mask: Tensor, words: TensorInfo, { first, elements }: Part): void {
  const isFloat = device.bufferDtype(mask) === 'float32';
  const isVector = mask.size % 4 === 0;
  const count = Math.ceil(elements / WORD_BITS);
  // Bindings begin at multiples of some bytes; what comes before the words of this part is skipped.
  const alignment = device.limits.minStorageBufferOffsetAlignment / ELEMENT_BYTES;
  const firstWord = first / WORD_BITS;
  const skipped = firstWord % alignment;
  device.launch({
    key: `tensortally mask ${isFloat ? 'float32' : 'int32'}${isVector ? ' vectors' : ''}`,
    text: () => packText(isFloat, isVector),
    bindings: [
      {
        source: words,
        offset: ELEMENT_BYTES * (firstWord - skipped),
        size: ELEMENT_BYTES * (skipped + count),
      },
      { source: mask, offset: ELEMENT_BYTES * first, size: ELEMENT_BYTES * elements },
    ],
    uniforms: Uint32Array.of(elements, count, skipped, 0),
    workgroups: device.gridOf(Math.ceil(count / WORKGROUP)),
  });
}

/** One word per invocation. It binds the words, the mask and the uniforms. Bits behind the last element mean nothing. */
function packText(isFloat: boolean, isVector: boolean): string {
  // Bits, not values: NaN selects, and so does what counts as zero in arithmetic only.
  const magnitude = isFloat ? '0x7fffffffu' : '0xffffffffu';
  const place = (i: number): string => `mask[min(at + ${i}u, uniforms.elements - 1u)]`;
  return `
struct Uniforms { elements: u32, words: u32, skipped: u32, unused: u32 };
@group(0) @binding(0) var<storage, read_write> words: array<u32>;
@group(0) @binding(1) var<storage, read> mask: array<${isVector ? 'vec4<u32>' : 'u32'}>;
@group(0) @binding(2) var<uniform> uniforms: Uniforms;
@compute @workgroup_size(${WORKGROUP})
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) thread: u32
) {
  let word = (group.y * groups.x + group.x) * ${WORKGROUP}u + thread;
  if (word >= uniforms.words) { return; }
  let first = word * ${WORD_BITS}u;
  let last = min(first + ${WORD_BITS}u, uniforms.elements);
  var selected = 0u;
  for (var at = first; at < last; at += 4u) {
    let quad = ${isVector ? 'mask[at >> 2u]' : `vec4<u32>(${[0, 1, 2, 3].map(place).join(', ')})`};
    let bits = vec4<u32>((quad & vec4<u32>(${magnitude})) != vec4<u32>(0u));
    selected |= dot(bits, vec4<u32>(1u, 2u, 4u, 8u)) << (at - first);
  }
  words[uniforms.skipped + word] = selected;
}`;
}
