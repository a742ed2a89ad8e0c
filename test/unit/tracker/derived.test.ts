/** Derived metrics: arithmetic on what was reduced already, never on its parts. */
import * as tf from '@tensorflow/tfjs-core';
import { beforeAll, describe, expect, it } from 'vitest';
import { KeyConflictError, MissingInputError, ValueError } from '../../../src/errors.js';
import { initBackend } from '../../../src/kernels/index.js';
import {
  type Derivation,
  StatsTracker,
  TrackerRegistry,
  derive,
  perplexity,
  ratio,
} from '../../../src/tracker/index.js';
import { addDerived } from '../../../src/tracker/export/derived.js';
import { mask, values } from './tensors.js';

const derived = {
  'actor/clip_fraction': ratio('actor/clipped', 'actor/valid'),
  'sft/ppl': perplexity('sft/loss'),
};

beforeAll(async () => {
  await initBackend('cpu');
});

/** Two micro-batches of different size. */
function record(tracker: StatsTracker): void {
  tf.tidy(() => {
    for (const [clipped, valid, loss] of [
      [mask(1, 0, 0, 0), mask(1, 1, 1, 1), values(1, 2, 3, 4)],
      [mask(1), mask(1), values(5)],
    ] as const) {
      tracker.denominator({ 'actor/clipped': clipped, 'actor/valid': valid });
      tracker.stat({ 'sft/loss': loss }, { denominator: 'actor/valid' });
    }
  });
}

describe('a derived metric', () => {
  it('whose function throws is named by the refusal, and nothing is lost', async () => {
    const fault = new Error('boom');
    const gap = derive(['a'], () => {
      throw fault;
    });
    const tracker = new StatsTracker('', { derived: { gap } });
    tracker.scalar({ a: 1 });
    const refusal: unknown = await tracker.export().catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(ValueError);
    expect(refusal).toMatchObject({ input: 'gap', cause: fault });
    expect(await tracker.export({ key: 'a' })).toEqual({ a: 1, a__count: 1 });
  });

  it('is of the whole, not the mean of the parts', async () => {
    const tracker = new StatsTracker('', { derived });
    record(tracker);
    const exported = await tracker.export();
    expect(exported['actor/clip_fraction']).toBe(2 / 5);
    expect(exported['sft/ppl']).toBe(Math.exp(3));
    expect(Object.keys(exported)).toEqual(Object.keys(exported).sort());
  });

  it('is absent with one of its inputs, and in the export of one key', async () => {
    const tracker = new StatsTracker('', { derived });
    tf.tidy(() => {
      tracker.denominator({ 'actor/clipped': mask(1) });
    });
    tracker.scalar({ 'sft/loss': 0 });
    expect(await tracker.export({ key: 'sft/loss', reset: false })).toEqual({
      'sft/loss': 0,
      'sft/loss__count': 1,
    });
    expect(await tracker.export()).toEqual({
      ...{ 'actor/clipped': 1, 'sft/loss': 0, 'sft/loss__count': 1, 'sft/ppl': 1 },
    });
    expect(await tracker.export()).toEqual({});
  });

  it('takes exported names, keys of averages, and what was derived before it', async () => {
    const tracker = new StatsTracker('', {
      derived: {
        spread: derive(['sft/loss/max', 'sft/loss/min'], (max, min) => max - min),
        half: ratio('spread', 'two'),
        average: derive(['sft/loss'], (x) => x),
      },
    });
    record(tracker);
    tracker.counter({ two: 2 });
    expect(await tracker.export()).toMatchObject({ spread: 4, half: 2, average: 3 });
  });

  it('is NaN for nothing over nothing', async () => {
    const tracker = new StatsTracker('', { derived: { r: ratio('a', 'b') } });
    tracker.counter({ a: 0, b: 0 });
    expect(await tracker.export()).toEqual({ a: 0, b: 0, r: NaN });
  });

  it('is computed for every window from what that window has', async () => {
    const tracker = new StatsTracker('', { derived: { r: ratio('a', 'b') }, windows: ['step', 'epoch'] });
    tracker.counter({ a: 1, b: 2 });
    expect(await tracker.export()).toMatchObject({ r: 1 / 2 });
    tracker.counter({ a: 3, b: 2 });
    expect(await tracker.export()).toMatchObject({ r: 3 / 2 });
    expect(await tracker.export({ window: 'epoch' })).toMatchObject({ r: 4 / 4 });
  });

  it('sees all trackers in exportAll, once', async () => {
    const registry = new TrackerRegistry({
      derived: { 'accept/rate': ratio('rollout/accepted', 'started') },
    });
    registry.get('rollout').counter({ accepted: 3 });
    registry.get('').counter({ started: 4 });
    expect(await registry.exportAll()).toEqual({ 'accept/rate': 0.75, 'rollout/accepted': 3, started: 4 });
  });

  it('owns its name', async () => {
    for (const mode of ['strict', 'parity'] as const) {
      const tracker = new StatsTracker('', { derived, mode });
      expect(() => {
        tracker.scalar({ 'sft/ppl': 1 });
      }).toThrow(KeyConflictError);
    }
    const tracker = new StatsTracker('', { derived: { 'a/x': ratio('b', 'c') } });
    const other = new TrackerRegistry({ derived: { 'a/x': ratio('b', 'c') } });
    tracker.counter({ b: 1, c: 2 });
    expect(await tracker.export()).toEqual({ 'a/x': 0.5, b: 1, c: 2 });
    expect(() => {
      other.get('a').counter({ x: 1 });
    }).toThrow(KeyConflictError);
  });

  it('that fails loses nothing', async () => {
    let fails = true;
    const tracker = new StatsTracker('', {
      derived: {
        d: derive(['a'], (a) => {
          if (fails) throw new Error('boom');
          return a;
        }),
      },
    });
    tracker.counter({ a: 1 });
    await expect(tracker.export()).rejects.toThrow('boom');
    fails = false;
    tracker.counter({ a: 1 });
    expect(await tracker.export()).toEqual({ a: 2, d: 2 });
    const odd = new StatsTracker('', { derived: { d: derive(['a'], () => '7' as unknown as number) } });
    odd.counter({ a: 1 });
    await expect(odd.export()).rejects.toThrow(ValueError);
  });

  it('is made by its functions, of names', () => {
    expect(() => derive([], () => 1)).toThrow(ValueError);
    expect(() => derive(['a', ''], () => 1)).toThrow(ValueError);
    expect(() => derive('a' as unknown as string[], () => 1)).toThrow(ValueError);
    expect(() => derive(['a'], undefined as unknown as () => number)).toThrow(MissingInputError);
    expect(() => ratio('a', 5 as unknown as string)).toThrow(ValueError);
    expect(() => perplexity('')).toThrow(ValueError);
    for (const wrong of [() => 1, null, { inputs: ['a'], of: () => 1 }]) {
      const options = { derived: { d: wrong as unknown as Derivation } };
      expect(() => new StatsTracker('', options)).toThrow(ValueError);
    }
    expect(() => new StatsTracker('', { derived: { '': ratio('a', 'b') } })).toThrow(ValueError);
  });
});

describe('addDerived', () => {
  it('replaces nothing: a number of that name, from wherever, is a conflict', () => {
    const numbers = new Map([
      ['a', 1],
      ['b', 2],
    ]);
    expect(() => {
      addDerived(numbers, new Map([['b', derive(['a'], (a) => 10 * a)]]));
    }).toThrow(KeyConflictError);
    expect([...numbers.values()]).toEqual([1, 2]);
    // Without its inputs there is nothing to put in its place.
    addDerived(numbers, new Map([['b', derive(['c'], (c) => c)]]));
    expect([...numbers.values()]).toEqual([1, 2]);
  });
});
