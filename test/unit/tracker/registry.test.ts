/** Named trackers: one per name, exported together. */
import * as tf from '@tensorflow/tfjs-core';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { KeyConflictError, ValueError } from '../../../src/errors.js';
import { initBackend } from '../../../src/kernels/index.js';
import {
  TrackerRegistry,
  denominator,
  exportAll,
  getTracker,
  recordTiming,
  scalar,
  scope,
  stat,
  timing,
} from '../../../src/tracker/index.js';
import { mask, values } from './tensors.js';

beforeAll(async () => {
  await initBackend('cpu');
});

describe('getTracker', () => {
  it('gives one tracker per name, slashes at the ends aside', () => {
    expect(getTracker('rollout')).toBe(getTracker('/rollout/'));
    expect(getTracker('rollout')).not.toBe(getTracker('eval-rollout'));
    expect(getTracker()).toBe(getTracker(''));
    expect(() => getTracker(null as unknown as string)).toThrow(ValueError);
  });
});

describe('the functions of the module', () => {
  afterEach(() => {
    getTracker().dispose();
    getTracker('rollout').dispose();
  });

  it('record on the default tracker, and exportAll has all trackers', async () => {
    tf.tidy(() => {
      scope('ppo_actor', () => {
        denominator({ n_tokens: mask(1, 0, 1) });
        stat({ loss: values(1, 9, 3) }, { denominator: 'n_tokens', reduceType: 'avg' });
      });
    });
    scalar({ lr: 0.5 });
    getTracker('rollout').scalar({ reward: 1 });
    expect(recordTiming('step', () => 7)).toBe(7);
    timing('step')[Symbol.dispose]();
    const all = await exportAll();
    expect(all).toEqual({
      lr: 0.5,
      lr__count: 1,
      'ppo_actor/loss': 2,
      'ppo_actor/n_tokens': 2,
      'rollout/reward': 1,
      'rollout/reward__count': 1,
      'timeperf/step': expect.any(Number) as number,
      'timeperf/step__count': 2,
    });
    expect(Object.keys(all)).toEqual(Object.keys(all).sort());
    expect(await exportAll()).toEqual({});
  });
});

describe('exportAll', () => {
  it('weighs a timing of several trackers by its counts', async () => {
    let now = 0;
    const registry = new TrackerRegistry({ clock: () => now });
    for (const [name, seconds] of [
      ['a', 1],
      ['a', 2],
      ['', 9],
    ] as const) {
      registry.get(name).recordTiming('step', () => {
        now += seconds;
      });
    }
    expect(await registry.exportAll({ reset: false })).toEqual({
      'timeperf/step': 4,
      'timeperf/step__count': 3,
    });
    expect(await registry.exportAll()).toEqual({ 'timeperf/step': 4, 'timeperf/step__count': 3 });
    expect(await registry.exportAll()).toEqual({});
  });

  it('refuses one name from two trackers and keeps everything', async () => {
    const registry = new TrackerRegistry();
    registry.get('a').scalar({ 'b/c': 1 });
    registry.get('a/b').scalar({ c: 2 });
    await expect(registry.exportAll()).rejects.toThrow(KeyConflictError);
    await expect(registry.exportAll()).rejects.toThrow(
      /a\/b\/c: .* got one of tracker 'a\/b' that exports 'a\/b\/c', which 'a\/b\/c' of tracker 'a' exports already/,
    );
    expect(await registry.get('a/b').export()).toEqual({ 'a/b/c': 2, 'a/b/c__count': 1 });
    expect(await registry.exportAll()).toEqual({ 'a/b/c': 1, 'a/b/c__count': 1 });
  });

  it('does not take a stat under the timings for a timing', async () => {
    const registry = new TrackerRegistry();
    tf.tidy(() => {
      registry.get('').scope('timeperf', () => {
        registry.get('').denominator({ m: mask(1) });
        registry.get('').stat({ x: values(1) }, { denominator: 'm', reduceType: 'avg' });
      });
    });
    registry.get('a').timing('x')[Symbol.dispose]();
    await expect(registry.exportAll()).rejects.toThrow(KeyConflictError);
    registry.get('').dispose();
  });
});
