/** What the types of batches promise: misspelt columns do not compile, columns may be null. */
import type * as tf from '@tensorflow/tfjs-core';
import { expectTypeOf, test } from 'vitest';

import { type batchFromVerl } from '../../src/index.js';

declare const make: typeof batchFromVerl;
declare const x: tf.Tensor;
declare const record: Record<string, tf.Tensor>;

test('known columns may be null or undefined', () => {
  const calls = () => [
    make({ response_mask: x, values: null, returns: undefined, input_ids: x, isWeights: undefined }),
    make({}, { __num_turns__: [1], tool_call_counts: null, prompt_length: undefined, uid: ['a'] }),
    make(record),
  ];
  expectTypeOf(calls).toBeFunction();
});

test('a misspelt column does not compile', () => {
  const calls = () => [
    // @ts-expect-error -- not a column
    make({ response_msk: x }),
    // @ts-expect-error -- not a list
    make({}, { num_turns: [1] }),
    // @ts-expect-error -- a list is no tensor
    make({ advantages: [1, 2] }),
  ];
  expectTypeOf(calls).toBeFunction();
});
