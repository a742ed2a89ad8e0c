/** Limits that the WebGPU device only seems to have: what large tensors and small adapters meet, at sizes that software gets through. */
import * as tf from '@tensorflow/tfjs-core';
import { afterEach } from 'vitest';

/**
 * Lets the device of the active backend seem to have other limits, until the test is over. Call it once per file, when
 * the backend runs.
 *
 * @returns what changes the limits; those that are left out stay
 */
export function pretendedLimits(): (changes: Readonly<Record<string, number>>) => void {
  const { device } = tf.backend() as unknown as { readonly device: { readonly limits: object } };
  const real = device.limits;
  const define = (value: object): void => {
    Object.defineProperty(device, 'limits', { configurable: true, value });
  };
  afterEach(() => {
    define(real);
  });
  return (changes) => {
    const get = (target: object, name: string | symbol): number =>
      changes[name as string] ?? (Reflect.get(target, name, target) as number);
    define(new Proxy(real, { get }));
  };
}
