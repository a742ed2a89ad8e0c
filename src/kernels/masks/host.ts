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

/** Bits that the module packs at once, and the words that they are. */
const BLOCK_BITS = 64;
const BLOCK_WORDS = BLOCK_BITS / WORD_BITS;

/** Elements that are packed in one call, a multiple of that. */
const TILE = 2 ** 15;

/** The kernel of such a backend. */
export function hostMask(host: Host): MaskKernel {
  return (backend, mask) => {
    const { words, runs, selected } = pack(host, backend, mask);
    const ints = runs ?? words;
    const held = holdTensor(engine().makeTensor(ints, [ints.length], 'int32', backend));
    return { held, form: runs === undefined ? 'bits' : 'runs', bytes: ints.byteLength, selected };
  };
}

interface Packed {
  readonly words: Int32Array;
  /** Undefined if they would not be fewer than the words. */
  readonly runs: Int32Array | undefined;
  readonly selected: number;
}

function pack(host: Host, backend: KernelBackend, mask: Tensor): Packed {
  const workspace = host.workspace(backend);
  const { simd } = workspace;
  const { size } = mask;
  const blocks = Math.ceil(size / BLOCK_BITS);
  const elements = Math.min(TILE, blocks * BLOCK_BITS);
  // A tile's bits, the elements at which they change, and the elements themselves where they have to be copied.
  const tileWords = elements / WORD_BITS;
  const bits = workspace.scratch(4 * (2 * tileWords + (host.holdsTensors ? 0 : elements)));
  // Only now: what was allocated may have moved the tensor.
  const array = host.array(backend, mask);
  const storage = storageOf(array);
  const packed = new Int32Array(workspace.buffer, bits, tileWords);
  const changes = new Int32Array(workspace.buffer, bits + packed.byteLength, tileWords);
  const block = changes.byteOffset + changes.byteLength;
  const copies = host.holdsTensors ? undefined : viewOf(storage, workspace.buffer, block, elements);
  const packTile = simd[`pack${storage}`];

  // One block more, because passes load vectors from where the last element is. It also ends the last run.
  const words = new Int32Array((blocks + 1) * BLOCK_WORDS);
  const bounds = new Int32Array(words.length);
  let found = 0;
  let selected = 0;
  for (let start = 0; start < size; start += elements) {
    const count = Math.min(elements, size - start);
    copies?.set(array.subarray(start, start + count));
    const address = copies === undefined ? array.byteOffset + start * array.BYTES_PER_ELEMENT : block;
    selected += packTile(address, count, bits);
    const tileBlocks = Math.ceil(count / BLOCK_BITS);
    words.set(
      tileBlocks === blocks ? packed : packed.subarray(0, tileBlocks * BLOCK_WORDS),
      start / WORD_BITS,
    );
    if (found < 0) continue;
    const room = Math.min(bounds.length - found, tileWords);
    const more = simd.findChanges(bits, tileBlocks, start, found % 2, changes.byteOffset, room);
    if (more > 0) bounds.set(changes.subarray(0, more), found);
    found = more < 0 ? more : found + more;
  }
  // A run that ends with the last block. Others end in one, behind the last element if need be.
  if (found % 2 === 1) bounds[found++] = size;
  const areRuns = found >= 0 && found < words.length;
  // A tensor of no elements is none: a run of none instead.
  return { words, runs: areRuns ? bounds.slice(0, Math.max(found, 2)) : undefined, selected };
}
