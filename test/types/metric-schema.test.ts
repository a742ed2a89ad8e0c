/** What the types of a metric schema promise: known names complete, others do not compile. */
import type * as tf from '@tensorflow/tfjs-core';
import { expectTypeOf, test } from 'vitest';

import type { DefinedMetrics, ExportedName, MetricSchema } from '../../src/index.js';
import { defineMetrics } from '../../src/index.js';

const schema = defineMetrics({
  n_valid_tokens: 'denominator',
  clipped_tokens: 'denominator',
  loss: { denominator: 'n_valid_tokens' },
  kl: { denominator: 'n_valid_tokens', reduceType: 'sum' },
  'clipped/logp': { denominator: 'clipped_tokens', reduceType: 'histogram' },
  grad_norm: 'scalar',
  lr: 'last',
  skipped: 'counter',
});
type Schema = typeof schema extends MetricSchema<infer S> ? S : never;

declare const records: DefinedMetrics<Schema>;
declare const x: tf.Tensor;

test('an export has the names that its reduce types give', () => {
  expectTypeOf<ExportedName<Schema>>().toEqualTypeOf<
    | 'n_valid_tokens'
    | 'clipped_tokens'
    | `loss/${'avg' | 'min' | 'max'}`
    | 'kl'
    | `clipped/logp/${'avg' | 'min' | 'max' | 'p50' | 'p90' | 'p99'}`
    | 'grad_norm'
    | 'grad_norm__count'
    | 'lr'
    | 'skipped'
  >();
});

test('an export read under a path has it before its names', () => {
  const read = () => schema.read<'ppo_actor'>({});
  expectTypeOf(read).returns.toHaveProperty('ppo_actor/loss/avg').toEqualTypeOf<number | undefined>();
  expectTypeOf(read).returns.not.toHaveProperty('loss/avg');
});

test('record calls take their own keys only', () => {
  const calls = () => {
    records.denominator({ n_valid_tokens: x });
    records.stat('n_valid_tokens', { loss: x, kl: x });
    records.denominator('clipped_tokens', x).stat({ 'clipped/logp': x });
    records.scalar({ grad_norm: 1, lr: 2 });
    records.counter({ skipped: 1 });
    // @ts-expect-error a misspelling
    records.stat('n_valid_tokens', { los: x });
    // @ts-expect-error a stat over another denominator
    records.stat('clipped_tokens', { loss: x });
    // @ts-expect-error a stat is no denominator
    records.denominator({ loss: x });
    // @ts-expect-error a stat over another denominator
    records.denominator('n_valid_tokens', x).stat({ 'clipped/logp': x });
    // @ts-expect-error a counter is no scalar
    records.scalar({ skipped: 1 });
    // @ts-expect-error a scalar is no counter
    records.counter({ grad_norm: 1 });
  };
  expectTypeOf(calls).toBeFunction();
});

test('a definition that contradicts itself does not compile', () => {
  const wrong = () => [
    // @ts-expect-error no such denominator
    defineMetrics({ n: 'denominator', loss: { denominator: 'm' } }),
    // @ts-expect-error a stat over a stat
    defineMetrics({ n: 'denominator', a: { denominator: 'n' }, b: { denominator: 'a' } }),
    // @ts-expect-error no such reduce type
    defineMetrics({ lr: 'median' }),
  ];
  expectTypeOf(wrong).toBeFunction();
});
