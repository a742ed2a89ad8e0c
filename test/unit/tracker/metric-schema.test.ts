/** A metric schema at run time: what it records is what the tracker would, and what it does not define is refused. */
import * as tf from '@tensorflow/tfjs-core';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { KeyConflictError, ValueError } from '../../../src/errors.js';
import { initBackend } from '../../../src/kernels/index.js';
import { StatsTracker, defineMetrics } from '../../../src/tracker/index.js';
import type { MetricDefinitions } from '../../../src/tracker/index.js';
import { mask, values } from './tensors.js';

const schema = defineMetrics({
  n: 'denominator',
  loss: { denominator: 'n' },
  kl: { denominator: 'n', reduceType: 'sum' },
  length: { denominator: 'n', reduceType: 'histogram' },
  grad_norm: 'scalar',
  lr: 'last',
  skipped: 'counter',
});

let tracker: StatsTracker;

beforeAll(async () => {
  await initBackend('cpu');
});

beforeEach(() => {
  tracker = new StatsTracker();
});

describe('what is recorded through a schema', () => {
  it('is what the tracker records with the same reduce types, in one call each', async () => {
    const records = schema.on(tracker.child('a'));
    tf.tidy(() => {
      records.denominator({ n: mask(1, 1, 0) });
      records.stat('n', { loss: values(1, 3, 9), kl: values(1, 3, 9), length: values(2, 2, 9) });
    });
    records.scalar({ grad_norm: 1 });
    records.scalar({ grad_norm: 3, lr: 0.5 });
    records.counter({ skipped: 2 });
    const exported = schema.read<'a'>(await tracker.export());
    expect(exported).toEqual({
      'a/n': 2,
      'a/loss/avg': 2,
      'a/loss/min': 1,
      'a/loss/max': 3,
      'a/kl': 4,
      ...{ 'a/length/avg': 2, 'a/length/min': 2, 'a/length/max': 2 },
      ...{ 'a/length/p50': 2, 'a/length/p90': 2, 'a/length/p99': 2 },
      'a/grad_norm': 2,
      'a/grad_norm__count': 2,
      'a/lr': 0.5,
      'a/skipped': 2,
    });
  });

  it('reaches the mask of a handle', async () => {
    const records = schema.on(tracker);
    tf.tidy(() => {
      using n = records.denominator('n', mask(1, 0));
      tracker.scope('update', () => {
        n.stat({ loss: values(1, 2), kl: values(1, 2) });
      });
    });
    expect(await tracker.export()).toEqual({
      n: 1,
      'update/loss/avg': 1,
      'update/loss/min': 1,
      'update/loss/max': 1,
      'update/kl': 1,
    });
  });

  it('is refused by name where the schema says otherwise, with nothing recorded', async () => {
    const records = schema.on(tracker) as unknown as Record<string, (...args: unknown[]) => void>;
    tf.tidy(() => {
      const wrong: [string, ...unknown[]][] = [
        ['denominator', { n: mask(1), m: mask(1) }],
        ['denominator', 'loss', mask(1)],
        ['denominator', { n: mask(1) }, mask(1)],
        ['stat', 'm', {}],
        ['stat', 'loss', {}],
        ['stat', 'n', { loss: values(1), los: values(1) }],
        ['stat', 'loss', { kl: values(1) }],
        ['scalar', { grad_norm: 1, skipped: 1 }],
        ['scalar', { toString: 1 }],
        ['counter', { skipped: 1, lr: 1 }],
      ];
      for (const [call, ...args] of wrong) {
        expect(() => {
          records[call]!(...args);
        }, call).toThrow(ValueError);
      }
    });
    expect(await tracker.export()).toEqual({});
  });
});

describe('an export that is read through a schema', () => {
  it('has the counts of non-finite elements where a rule was chosen', async () => {
    tracker = new StatsTracker('', { nonFinite: 'ignore' });
    schema.on(tracker).scalar({ grad_norm: NaN });
    schema.on(tracker).scalar({ grad_norm: 2 });
    const exported = schema.read(await tracker.export());
    expect(exported['grad_norm/nonfinite']).toBe(1);
    expect(exported.grad_norm).toBe(2);
    // @ts-expect-error a denominator has none
    expect(exported['n/nonfinite']).toBeUndefined();
  });
});

describe('a definition', () => {
  it.each<[string, object]>([
    ['of no known kind', { a: 'median' }],
    ['that is no definition', { a: 3 }],
    ['without a key', { '': 'scalar' }],
    ['over a denominator that is not there', { a: { denominator: 'n' } }],
    ['over something that is not a denominator', { a: { denominator: 'b' }, b: 'scalar' }],
    ['with a reduce type of numbers', { n: 'denominator', a: { denominator: 'n', reduceType: 'last' } }],
    ['with an invalid option', { n: 'denominator', a: { denominator: 'n', reduce: 'sum' } }],
  ])('%s is refused', (_, definitions) => {
    expect(() => defineMetrics(definitions as MetricDefinitions)).toThrow(ValueError);
  });

  it('is refused by the name of what is wrong with it', () => {
    const define = (definition: object) => () =>
      defineMetrics({ n: 'denominator', a: definition } as unknown as MetricDefinitions);
    expect(define({ denominator: 'n', reduceType: 'last' })).toThrow(
      /a\.reduceType: expected one of 'avg_min_max'.*the text 'last'/,
    );
    expect(define({ denominator: 'm' })).toThrow(/a\.denominator: expected .* got 'm'/);
    expect(define({ reduceType: 'sum' })).toThrow(/a: expected 'denominator'/);
    expect(define({ denominator: 5 })).toThrow(/a\.denominator/);
  });

  it('may not take the exported name of another one', () => {
    const clash = { n: 'denominator', a: { denominator: 'n' }, 'a/avg': 'scalar' } as const;
    expect(() => defineMetrics(clash)).toThrow(KeyConflictError);
  });

  it('does not change with the object that it came from', () => {
    const definitions = { n: 'denominator', loss: { denominator: 'n', reduceType: 'sum' } } as const;
    const made = defineMetrics(definitions);
    Object.assign(definitions, { b: 'scalar' });
    Object.assign(definitions.loss, { denominator: 'b' });
    expect(made.definitions).toEqual({ n: 'denominator', loss: { denominator: 'n', reduceType: 'sum' } });
    expect(() => Object.assign(made.definitions.loss, { denominator: 'b' })).toThrow(TypeError);
  });
});
