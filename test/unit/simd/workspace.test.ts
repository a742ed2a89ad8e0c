/** Memories of the SIMD module: one instance for each, scratch that grows, views that survive it. */
import type { KernelBackend } from '@tensorflow/tfjs-core';
import { describe, expect, test } from 'vitest';

import { BackendError } from '../../../src/errors.js';
import { newMemory, simdOn } from '../../../src/kernels/simd/instance.js';
import { heapWorkspace, ownWorkspace } from '../../../src/kernels/simd/workspace.js';

describe('the module', () => {
  test('is instantiated once per memory, and works in that one', () => {
    const [a, b] = [newMemory(1), newMemory(1)];
    expect(simdOn(a)).toBe(simdOn(a));
    expect(simdOn(a)).not.toBe(simdOn(b));
    simdOn(a).clearRecords(64, 1);
    expect(new Float64Array(a.buffer, 64, 8)[6]).toBe(Infinity);
    expect(new Float64Array(b.buffer, 64, 8)[6]).toBe(0);
  });

  test('writes nothing when it is instantiated', () => {
    const memory = newMemory(2);
    new Uint8Array(memory.buffer).fill(0xa5);
    simdOn(memory);
    expect(new Uint8Array(memory.buffer).every((byte) => byte === 0xa5)).toBe(true);
  });
});

describe('a memory of our own', () => {
  test('has scratch at a cache line, never at 0, where it was before unless it has to grow', () => {
    const workspace = ownWorkspace();
    expect(ownWorkspace()).toBe(workspace);
    const first = workspace.scratch(1000);
    expect(first).toBeGreaterThan(0);
    expect(first % 64).toBe(0);
    expect(workspace.scratch(500)).toBe(first);
    const bytes = workspace.bytes;
    const large = workspace.scratch(5_000_000);
    expect(large % 64).toBe(0);
    expect(workspace.bytes.length).toBeGreaterThanOrEqual(large + 5_000_000);
    expect(bytes.length, 'the old view').toBe(0);
    expect(workspace.float64.length * 8).toBe(workspace.bytes.length);
    workspace.float64[large / 8] = 1.5;
    expect(workspace.bytes[large + 7]).toBe(0x3f);
  });

  test('says so when there is no more', () => {
    expect(() => ownWorkspace().scratch(2 ** 33)).toThrow(BackendError);
    // And goes on with what there is.
    expect(ownWorkspace().scratch(1000)).toBeGreaterThan(0);
  });
});

describe('the heap of a backend', () => {
  /** A heap with an allocator that only goes up. */
  function fakeBackend(): { backend: KernelBackend; blocks: Map<number, number>; refuse: () => void } {
    const memory = newMemory(1);
    const blocks = new Map<number, number>();
    let next = 8;
    let isFull = false;
    const wasm = {
      asm: { memory },
      _malloc: (bytes: number) => {
        if (isFull) return 0;
        const address = next;
        next += bytes;
        if (next > memory.buffer.byteLength) memory.grow(Math.ceil(next / 65536));
        blocks.set(address, bytes);
        return address;
      },
      _free: (address: number) => {
        if (address !== 0 && !blocks.delete(address)) throw new Error(`nothing at ${address}`);
      },
    };
    return {
      backend: { wasm } as unknown as KernelBackend,
      blocks,
      refuse: () => {
        isFull = true;
      },
    };
  }

  test('gives one block of scratch, and takes the old one back when it needs a larger one', () => {
    const { backend, blocks } = fakeBackend();
    const workspace = heapWorkspace(backend);
    expect(heapWorkspace(backend)).toBe(workspace);
    expect(blocks.size).toBe(0);
    for (const bytes of [100, 5000, 2000, 200_000]) {
      const address = workspace.scratch(bytes);
      expect(address % 64).toBe(0);
      const [block] = blocks;
      expect(blocks.size).toBe(1);
      expect(address).toBeGreaterThanOrEqual(block![0]);
      expect(address + bytes).toBeLessThanOrEqual(block![0] + block![1]);
      expect(workspace.bytes.length).toBeGreaterThanOrEqual(address + bytes);
    }
  });

  test('that is full is an error with a remedy', () => {
    const { backend, refuse } = fakeBackend();
    const workspace = heapWorkspace(backend);
    workspace.scratch(100);
    refuse();
    expect(() => workspace.scratch(1000)).toThrow(/1064 bytes .*; dispose of tensors/);
    // The old block is gone, so a small one needs the allocator, too.
    expect(() => workspace.scratch(10)).toThrow(BackendError);
  });
});
