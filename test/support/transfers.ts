/**
 * Counts how often a backend brings data from its device to the host.
 *
 * Only webgpu and tensorflow have a device apart: there, a read-back is a mapped staging buffer or a native tensor
 * read. On cpu and wasm the memory is the host's own; what is counted there is reads through the backend interface,
 * which a kernel needs for its inputs when it launches, but which awaiting a result must not cause.
 */

import * as tf from '@tensorflow/tfjs-core';
import { vi } from 'vitest';

import type { BackendName } from '../../src/kernels/index.js';

/** A buffer of the device that the host can read. */
interface Mappable {
  mapAsync: (this: Mappable, ...args: unknown[]) => Promise<void>;
}

interface NodeBinding {
  tensorDataSync(id: number): unknown;
}

/** Runs `body`; resolves to the number of read-backs that it caused. */
export async function countReadBacks(backend: BackendName, body: () => Promise<unknown>): Promise<number> {
  let reads = 0;
  const spies: { mockRestore(): void }[] = [];
  const active = tf.backend();
  if (backend === 'webgpu') {
    // On the prototype: buffers to read into are used again, so one may be older than the spy.
    const { GPUBuffer } = globalThis as unknown as { GPUBuffer: { prototype: Mappable } };
    const { mapAsync } = GPUBuffer.prototype;
    GPUBuffer.prototype.mapAsync = function (...args) {
      reads++;
      return mapAsync.apply(this, args);
    };
    spies.push({ mockRestore: () => (GPUBuffer.prototype.mapAsync = mapAsync) });
  } else if (backend === 'tensorflow') {
    // The functions of a native module cannot be replaced, but the backend's handle on the module can.
    const node = active as unknown as { binding: NodeBinding };
    const { binding } = node;
    node.binding = Object.create(binding, {
      tensorDataSync: {
        value: (id: number) => {
          reads++;
          return binding.tensorDataSync(id);
        },
      },
    }) as NodeBinding;
    spies.push({ mockRestore: () => (node.binding = binding) });
  } else {
    const read = active.read.bind(active);
    const readSync = active.readSync.bind(active);
    spies.push(
      vi.spyOn(active, 'read').mockImplementation((id) => {
        reads++;
        return read(id);
      }),
      vi.spyOn(active, 'readSync').mockImplementation((id) => {
        reads++;
        return readSync(id);
      }),
    );
  }
  try {
    await body();
  } finally {
    for (const spy of spies) spy.mockRestore();
  }
  return reads;
}
