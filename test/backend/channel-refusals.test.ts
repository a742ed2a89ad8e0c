/** What `channelMoments` refuses: every refusal names the input and says what to do. */
import * as tf from '@tensorflow/tfjs-core';
import { describe, expect, test } from 'vitest';

import {
  DisposedTensorError,
  DtypeError,
  MissingInputError,
  ShapeError,
  ValueError,
} from '../../src/errors.js';
import { type Channel, channelMoments, channelTables, expression as e } from '../../src/kernels/index.js';
import { testBackend } from '../support/backend.js';
import { failureOf } from '../support/failures.js';
import { expectNoLeaks } from '../support/leaks.js';
import { deviceTensor } from '../support/tensors.js';

await testBackend();

type Arguments = Parameters<typeof channelMoments>;

/** What a caller without types can pass. */
const anything = (value: unknown): never => value as never;

const full = (): tf.Tensor => deviceTensor({ shape: [2, 3], values: [1, 2, 3, 4, 5, 6] });

const CASES: readonly {
  readonly name: string;
  readonly call: () => Arguments;
  readonly error: new (...args: never[]) => Error;
  readonly message: RegExp;
}[] = [
  { name: 'no channels', call: () => [{}, {}], error: MissingInputError, message: /channels.*empty record/ },
  { name: 'null channels', call: () => [anything(null), {}], error: MissingInputError, message: /channels/ },
  {
    name: 'a channel that is a number of another kind',
    call: () => [{ x: NaN }, { a: full() }],
    error: ValueError,
    message: /finite number/,
  },
  {
    name: 'a channel that is nothing',
    call: () => [{ x: anything(undefined) }, { a: full() }],
    error: ValueError,
    message: /expression/,
  },
  {
    name: 'an input that is not there',
    call: () => [{ ratio: e.exp(e.subtract('a', 'b')) }, { a: full() }],
    error: MissingInputError,
    message: /b: expected a tensor, since channel "ratio" reads it/,
  },
  {
    name: 'an input named like a method of objects',
    call: () => [{ x: 'toString' }, { a: full() }],
    error: MissingInputError,
    message: /toString/,
  },
  { name: 'null inputs', call: () => [{ x: 'a' }, anything(null)], error: ValueError, message: /inputs/ },
  {
    name: 'an input of text',
    call: () => [{ x: 'a' }, { a: anything('text') }],
    error: DtypeError,
    message: /a: expected a tf.Tensor/,
  },
  {
    name: 'an input of another shape',
    call: () => [
      { x: e.add('a', 'b') },
      { a: full(), b: deviceTensor({ shape: [3, 2], values: [1, 2, 3, 4, 5, 6] }) },
    ],
    error: ShapeError,
    message: /\[2, 3\].*or one value per row, \[2\] or \[2, 1\]/,
  },
  {
    name: 'a scalar',
    call: () => [{ x: 'a' }, { a: tf.scalar(1) }],
    error: ShapeError,
    message: /rank 1 to 4/,
  },
  {
    name: 'a mask of another shape',
    call: () => [{ x: 'a' }, { a: full() }, deviceTensor({ shape: [2, 2], values: [1, 1, 1, 1] })],
    error: ShapeError,
    message: /mask/,
  },
  {
    name: 'a null mask',
    call: () => [{ x: 'a' }, { a: full() }, anything(null)],
    error: MissingInputError,
    message: /mask/,
  },
  {
    name: 'a mask that is not among the masks',
    call: () => [{ x: { of: 'a', mask: 'response' } }, { a: full() }, { prompt: full() }],
    error: MissingInputError,
    message: /"response".*masks called prompt/,
  },
  {
    name: 'a named mask where there is one for all',
    call: () => [{ x: { of: 'a', mask: 'response' } }, { a: full() }, full()],
    error: MissingInputError,
    message: /no record of masks/,
  },
  {
    name: 'masks that a channel would ignore',
    call: () => [{ x: 'a' }, { a: full() }, { response: full() }],
    error: ValueError,
    message: /channels.x.*mask: "response"/,
  },
  {
    name: 'constants alone',
    call: () => [{ x: 1 }, { a: full() }],
    error: MissingInputError,
    message: /constants alone/,
  },
  {
    name: 'an unknown axis',
    call: () => [{ x: 'a' }, { a: full() }, undefined, { axis: anything(0) }],
    error: ValueError,
    message: /options.axis/,
  },
  {
    name: 'an unknown policy',
    call: () => [{ x: 'a' }, { a: full() }, undefined, { nonFinite: anything('zero') }],
    error: ValueError,
    message: /options.nonFinite/,
  },
  {
    name: 'null options',
    call: () => [{ x: 'a' }, { a: full() }, undefined, anything(null)],
    error: ValueError,
    message: /options/,
  },
];

describe.each(CASES)('$name', ({ call, error, message }) => {
  test.each([
    ['channelMoments', channelMoments],
    ['channelTables', channelTables],
  ] as const)('%s', async (_name, operation) => {
    await expectNoLeaks(async () => {
      const [channels, inputs, mask, options] = call();
      const pending = operation(
        channels as Readonly<Record<string, Channel>>,
        inputs,
        mask,
        options as Parameters<typeof channelTables>[3],
      );
      const failure = await failureOf(pending);
      expect(failure).toBeInstanceOf(error);
      expect((failure as Error).message).toMatch(message);
      tf.dispose([inputs, mask as tf.TensorContainer]);
    });
  });
});

test('a disposed input', async () => {
  const a = full();
  a.dispose();
  await expect(channelMoments({ x: 'a' }, { a })).rejects.toBeInstanceOf(DisposedTensorError);
});

test('inputs that no channel reads may be of any shape, and disposed', async () => {
  const [a, other] = [full(), deviceTensor({ shape: [7], values: [1, 2, 3, 4, 5, 6, 7] })];
  other.dispose();
  const { x } = await channelMoments({ x: 'a' }, { a, other });
  expect(x.sum).toBe(21);
  a.dispose();
});
