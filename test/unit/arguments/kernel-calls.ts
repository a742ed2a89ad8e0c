/** The public functions on tensors and their results. Not a test. */
import type * as tf from '@tensorflow/tfjs-core';
import {
  Pending,
  TensortallyError,
  collect,
  compactMask,
  initBackend,
  retainTensor,
} from '../../../src/index.js';
import { tensor } from './batch.js';
import { anything, body, type Rows } from './row.js';

/** Something that `Pending.rejected` takes and that counts as a typed refusal here. */
class Failure extends TensortallyError {
  readonly code = 'failure';

  constructor() {
    super({ where: 'here', input: 'it', expected: 'a', received: 'b', remedy: 'c' });
  }
}

export const kernelCalls: Rows = {
  initBackend: () => ({
    parameters: [{ fits: 'cpu', takes: ['undefined'] }],
    isAsync: true,
    call: initBackend,
  }),
  collect: () => ({
    parameters: [{ fits: Pending.of(1), takes: [] }],
    isAsync: true,
    call: collect,
  }),
  retainTensor: () => ({
    parameters: [{ fits: tensor(), takes: [] }],
    call: (given: tf.Tensor) => {
      retainTensor(given).release();
    },
  }),
  compactMask: () => ({
    parameters: [{ fits: tensor(), takes: [] }],
    call: (given: tf.Tensor) => {
      compactMask(given).release();
    },
  }),

  Pending: () => ({
    parameters: [{ fits: [], takes: ['array'] }, body],
    call: (blocks: [], finish: () => number) => new Pending(blocks, finish),
  }),
  'Pending.of': () => ({ parameters: [anything], call: (given: number) => Pending.of(given) }),
  'Pending.rejected': () => ({
    parameters: [{ fits: new Failure(), takes: [] }],
    isAsync: true,
    call: (error: Error) => Pending.rejected(error),
  }),
  'Pending.attempt': () => ({
    parameters: [{ fits: () => Pending.of(1), takes: [] }],
    isAsync: true,
    call: (launch: () => Pending<number>) => Pending.attempt(launch),
  }),
  'Pending.all': () => ({
    parameters: [{ fits: [Pending.of(1)], takes: ['array'] }],
    isAsync: true,
    call: (parts: [Pending<number>]) => Pending.all(parts),
  }),
  'Pending.launchAll': () => ({
    parameters: [{ fits: [() => Pending.of(1)], takes: ['array'] }],
    call: (launches: [() => Pending<number>]) => Pending.launchAll(launches),
  }),
  'Pending#map': () => ({ parameters: [body], call: (finish: () => number) => Pending.of(1).map(finish) }),
  // As with a promise, what is no function is no handler.
  'Pending#then': () => ({
    parameters: [anything, anything],
    isAsync: true,
    call: (a: undefined, b: undefined) => Pending.of(1).then(a, b),
  }),
  'Pending#catch': () => ({
    parameters: [anything],
    isAsync: true,
    call: (a: undefined) => Pending.of(1).catch(a),
  }),
  'Pending#finally': () => ({
    parameters: [anything],
    isAsync: true,
    call: (a: undefined) => Pending.of(1).finally(a),
  }),
};
