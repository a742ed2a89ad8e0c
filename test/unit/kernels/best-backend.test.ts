/** The order in which `initBackend('auto')` takes what a machine has. */
import { expect, test } from 'vitest';

import type { BackendName } from '../../../src/kernels/backends/names.js';
import { type BackendChoice, bestBackend } from '../../../src/kernels/backends/start.js';

type Machine = Readonly<Partial<Record<BackendName, 'gpu' | 'cpu'>>>;

/** What is chosen on a machine, and which backends were looked at. */
async function choose(machine: Machine): Promise<{ chosen: string; looked: string[] }> {
  const looked: string[] = [];
  const { backend } = await bestBackend((name): Promise<BackendChoice> => {
    looked.push(name);
    const kind = machine[name];
    const choice = { backend: name, available: kind !== undefined, isGpu: kind === 'gpu', reason: 'test' };
    return Promise.resolve(choice);
  });
  return { chosen: backend, looked };
}

test.each<[string, Machine, BackendName]>([
  ['everything', { tensorflow: 'gpu', webgpu: 'gpu', wasm: 'cpu', cpu: 'cpu' }, 'tensorflow'],
  ['a GPU that only webgpu reaches', { tensorflow: 'cpu', webgpu: 'gpu', wasm: 'cpu', cpu: 'cpu' }, 'webgpu'],
  ['a GPU and no TensorFlow', { webgpu: 'gpu', wasm: 'cpu', cpu: 'cpu' }, 'webgpu'],
  ['a software GPU', { tensorflow: 'cpu', webgpu: 'cpu', wasm: 'cpu', cpu: 'cpu' }, 'tensorflow'],
  ['a software GPU and no TensorFlow', { webgpu: 'cpu', wasm: 'cpu', cpu: 'cpu' }, 'wasm'],
  ['no GPU', { tensorflow: 'cpu', wasm: 'cpu', cpu: 'cpu' }, 'tensorflow'],
  ['wasm', { wasm: 'cpu', cpu: 'cpu' }, 'wasm'],
  ['nothing but cpu', { cpu: 'cpu' }, 'cpu'],
])('with %s', async (_what, machine, expected) => {
  expect((await choose(machine)).chosen).toBe(expected);
});

test('looks no further than it has to', async () => {
  expect((await choose({ tensorflow: 'gpu' })).looked).toEqual(['tensorflow']);
  expect((await choose({ tensorflow: 'cpu' })).looked).toEqual(['tensorflow', 'webgpu']);
});
