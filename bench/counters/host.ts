/** Counts where tensors live in host memory (`cpu`, `wasm`): only the memory taken, since nothing else is a cost. */
import type { KernelBackend } from '@tensorflow/tfjs-core';
import { type Counts, Peak } from './counts.js';

/** The heap of tfjs' wasm backend. */
interface Heap {
  _malloc: (bytes: number) => number;
  _free: (address: number) => void;
  /** Of the whole heap; another array after every growth. */
  readonly HEAPU8: Uint8Array;
}

export async function countHost(backend: KernelBackend, body: () => Promise<unknown>): Promise<Counts> {
  const { wasm } = backend as unknown as { readonly wasm?: Heap };
  const peak = new Peak();
  // What is taken from the heap is counted by its allocations: it grows by a fifth of itself for the last of them.
  const elsewhere = (): number => process.memoryUsage().external - (wasm?.HEAPU8.byteLength ?? 0);
  const before = elsewhere();
  const restore = wasm === undefined ? () => undefined : countHeap(wasm, peak);
  let outside: number;
  try {
    await body();
    // Array buffers and WebAssembly memories that were made or grew, and that no garbage collection has taken since.
    outside = elsewhere() - before;
  } finally {
    restore();
  }
  return {
    launches: undefined,
    readBacks: undefined,
    readBackBytes: undefined,
    peakBytes: Math.max(0, outside) + peak.bytes,
  };
}

function countHeap(heap: Heap, peak: Peak): () => void {
  const { _malloc: malloc, _free: free } = heap;
  const bytesAt = new Map<number, number>();
  heap._malloc = (bytes) => {
    const address = malloc(bytes);
    bytesAt.set(address >>> 0, bytes);
    peak.add(bytes);
    return address;
  };
  heap._free = (address) => {
    free(address);
    peak.add(-(bytesAt.get(address >>> 0) ?? 0));
    bytesAt.delete(address >>> 0);
  };
  return () => {
    Object.assign(heap, { _malloc: malloc, _free: free });
  };
}
