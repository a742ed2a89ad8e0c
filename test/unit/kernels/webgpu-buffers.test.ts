/** What is kept on a GPU for the next launch: bounded, and forgotten after a fault. */
import { describe, expect, test } from 'vitest';

import { BufferPool } from '../../../src/kernels/webgpu/buffers.js';
import type { GpuBuffer } from '../../../src/kernels/webgpu/internals.js';
import { RecentMap } from '../../../src/kernels/webgpu/launch.js';

function countingPool(): { pool: BufferPool; made: GpuBuffer[]; destroyed: GpuBuffer[] } {
  const made: GpuBuffer[] = [];
  const destroyed: GpuBuffer[] = [];
  const pool = new BufferPool((size) => {
    const buffer = { size, destroy: () => destroyed.push(buffer) } as unknown as GpuBuffer;
    made.push(buffer);
    return buffer;
  });
  return { pool, made, destroyed };
}

describe('BufferPool', () => {
  test('gives a buffer again to whoever needs about as much', () => {
    const { pool, made } = countingPool();
    const first = pool.acquire(1000);
    expect(first.size).toBeGreaterThanOrEqual(1000);
    pool.release(first);
    expect(pool.acquire(900)).toBe(first);
    expect(pool.acquire(900)).not.toBe(first);
    expect(made).toHaveLength(2);
  });

  test('does not round up large sizes, which would be waste', () => {
    const { pool } = countingPool();
    expect(pool.acquire(2 ** 24 + 4).size).toBe(2 ** 24 + 4);
  });

  test('keeps a bounded number of bytes, and the small buffers rather than the large ones', () => {
    const { pool, made, destroyed } = countingPool();
    const sizes = [2 ** 10, ...Array<number>(8).fill(2 ** 23)];
    const buffers = sizes.map((size) => pool.acquire(size));
    for (const buffer of buffers) pool.release(buffer);
    expect(destroyed).toEqual([]); // recorded commands may use them
    pool.trim();
    expect(pool.freeBytes).toBeLessThanOrEqual(2 ** 25);
    expect(pool.freeBytes).toBe(
      made.filter((buffer) => !destroyed.includes(buffer)).reduce((sum, { size }) => sum + size, 0),
    );
    expect(destroyed).not.toContain(buffers[0]);
  });

  test('takes back nothing from before a fault', () => {
    const { pool } = countingPool();
    const waiting = pool.acquire(256);
    const used = pool.acquire(256);
    pool.release(waiting);
    pool.forget();
    pool.release(used);
    expect(pool.freeBytes).toBe(0);
    expect([waiting, used]).not.toContain(pool.acquire(256));
  });
});

describe('RecentMap', () => {
  test('forgets what was not asked for longest', () => {
    const map = new RecentMap<number>(2);
    map.set('a', 1);
    map.set('b', 2);
    expect(map.get('a')).toBe(1);
    map.set('c', 3);
    expect(map.get('b')).toBeUndefined();
    expect([map.get('a'), map.get('c')]).toEqual([1, 3]);
    expect(map.size).toBe(2);
  });
});
