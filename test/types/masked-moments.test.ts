/** What the types of `maskedMoments` promise to callers. */
import type * as tf from '@tensorflow/tfjs-core';
import { expectTypeOf, test } from 'vitest';

import type { Moments, MomentsOptions, Pending, RowMoments } from '../../src/index.js';
import { type maskedMoments } from '../../src/index.js';

declare const ask: typeof maskedMoments;
declare const x: tf.Tensor;
declare const options: MomentsOptions;

const one = () => ask(x, x);
const rows = () => ask(x, undefined, { axis: -1 });
const either = () => ask(x, undefined, options);
const named = () => ask({ a: x, b: x }, x);

test('a tensor gives moments, per row if the axis says so', () => {
  expectTypeOf(one).returns.toEqualTypeOf<Pending<Moments>>();
  expectTypeOf(rows).returns.toEqualTypeOf<Pending<RowMoments>>();
  expectTypeOf(either).returns.toEqualTypeOf<Pending<Moments | RowMoments>>();
});

test('a record gives a record of the same keys', () => {
  expectTypeOf(named).returns.toEqualTypeOf<Pending<Record<'a' | 'b', Moments>>>();
});

test('a pending result is a promise', () => {
  expectTypeOf<Pending<Moments>>().toExtend<Promise<Moments>>();
});
