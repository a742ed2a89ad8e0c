/**
 * Compact masks in the memory of the host: runs of selected elements, or a bit per element where there are many.
 *
 * Responses are a run each, so a mask of them takes a few bytes per row.
 */
import { type KernelBackend, type Tensor, engine } from '@tensorflow/tfjs-core';
import { type Host, storageOf, viewOf } from '../hosts.js';
import { holdTensor } from '../residency.js';
import type { MaskKernel } from './request.js';

const WORD_BITS = 32;

/** Bits that the module packs at once. */
const BLOCK_BITS = 64;

/** Elements that are packed in one call, a multiple of that. */
const TILE = 2 ** 15;

/** The kernel of such a backend. */
export function hostMask(host: Host): MaskKernel {
  return (backend, mask) => {
    const { words, selected } = pack(host, backend, mask);
    const runs = runsOf(words, mask.size);
    const ints = runs ?? words;
    const held = holdTensor(engine().makeTensor(ints, [ints.length], 'int32', backend));
    return { held, form: runs === undefined ? 'bits' : 'runs', bytes: ints.byteLength, selected };
  };
}

/** The runs of a mask of bits; undefined if they would not be fewer bytes. */
function runsOf(words: Int32Array, size: number): Int32Array | undefined {
  const bounds: number[] = [];
  let last = 0;
  for (let i = 0; i < words.length; i++) {
    const word = words[i]!;
    // A bit is set where an element is not what the one before it is.
    let changes = word ^ ((word << 1) | (last >>> 31));
    last = word;
    while (changes !== 0) {
      const bit = 31 - Math.clz32(changes & -changes);
      bounds.push(i * WORD_BITS + bit);
      changes &= changes - 1;
    }
    if (bounds.length >= words.length) return undefined;
  }
  if (bounds.length === 0) bounds.push(0, 0);
  // Behind the last element are zeros, so a run that ends with it has an end.
  return Int32Array.from(bounds, (bound) => Math.min(bound, size));
}

function pack(
  host: Host,
  backend: KernelBackend,
  mask: Tensor,
): { readonly words: Int32Array; readonly selected: number } {
  const workspace = host.workspace(backend);
  const blocks = Math.ceil(mask.size / BLOCK_BITS);
  const elements = Math.min(TILE, blocks * BLOCK_BITS);
  const bits = workspace.scratch((elements / WORD_BITS + (host.holdsTensors ? 0 : elements)) * 4);
  // Only now: what was allocated may have moved the tensor.
  const array = host.array(backend, mask);
  const storage = storageOf(array);
  const packed = new Int32Array(workspace.buffer, bits, elements / WORD_BITS);
  const address = host.holdsTensors ? array.byteOffset : bits + packed.byteLength;
  const copies = host.holdsTensors ? undefined : viewOf(storage, workspace.buffer, address, elements);
  const packTile = workspace.simd[`pack${storage}`];
  // One block more, because passes load vectors from where the last element is.
  const words = new Int32Array((blocks + 1) * (BLOCK_BITS / WORD_BITS));
  let selected = 0;
  for (let start = 0; start < mask.size; start += elements) {
    const count = Math.min(elements, mask.size - start);
    copies?.set(array.subarray(start, start + count));
    const from = copies === undefined ? address + start * array.BYTES_PER_ELEMENT : address;
    selected += packTile(from, count, bits);
    words.set(
      packed.subarray(0, Math.ceil(count / BLOCK_BITS) * (BLOCK_BITS / WORD_BITS)),
      start / WORD_BITS,
    );
  }
  return { words, selected };
}
