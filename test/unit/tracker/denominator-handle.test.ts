/** Denominator handles: a handle to one mask, beside the masks that stats find by name. */
import * as tf from '@tensorflow/tfjs-core';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  DtypeError,
  KeyConflictError,
  PairingError,
  ReleasedError,
  ShapeError,
  ValueError,
} from '../../../src/errors.js';
import { initBackend } from '../../../src/kernels/index.js';
import { StatsTracker } from '../../../src/tracker/index.js';
import { tidied } from '../../support/tensors.js';
import { mask, values } from './tensors.js';

let tracker: StatsTracker;
let before: number;

beforeAll(async () => {
  await initBackend('cpu');
});

beforeEach(() => {
  tracker = new StatsTracker();
  before = tf.memory().numTensors;
  tf.engine().startScope();
  return () => {
    tf.engine().endScope();
    tracker.dispose();
    expect(tf.memory().numTensors).toBe(before);
  };
});

describe('a denominator handle', () => {
  it('binds values to its own mask, whatever was recorded since and in whatever order', async () => {
    const first = tracker.denominator('m', mask(1, 0));
    const second = tracker.denominator('m', mask(0, 1));
    second.stat({ v: values(10, 20) }, { reduceType: 'sum' });
    first.stat({ v: values(1, 2) }, { reduceType: 'sum' });
    expect(await tracker.export()).toEqual({ m: 2, v: 21 });
  });

  it('keeps its denominator and gives its stats the path of where they are recorded', async () => {
    const { valid } = tracker.scope('actor', () => ({ valid: tracker.denominator('n', mask(1, 1)) }));
    valid.stat({ v: values(1, 3) }, { reduceType: 'avg' });
    tracker.scope('update', () => {
      valid.stat({ v: values(5, 7), w: values(0, 1) }, { reduceType: 'avg' });
    });
    expect(valid.denominator).toBe('actor/n');
    expect(await tracker.export()).toEqual({ 'actor/n': 2, v: 2, 'update/v': 6, 'update/w': 0.5 });
  });

  it('of a child records under the path of the child', async () => {
    const child = tracker.child('ppo');
    const valid = child.denominator('n', mask(1));
    tracker.scope('elsewhere', () => {
      valid.stat({ v: values(4) }, { reduceType: 'max' });
    });
    expect(await tracker.export()).toEqual({ 'ppo/n': 1, 'ppo/v': 4 });
  });

  it('leaves the pairing by name alone, and the denominator counts both kinds of masks', async () => {
    tracker.denominator({ m: mask(1, 0) });
    const valid = tracker.denominator('m', mask(1, 1));
    tracker.denominator({ m: mask(0, 1) });
    valid.stat({ v: values(100, 200) }, { reduceType: 'sum' });
    tracker.stat({ v: values(1, 2) }, { denominator: 'm', reduceType: 'sum' });
    valid.stat({ byHandle: values(7, 7) }, { reduceType: 'sum' });
    tracker.stat({ v: values(3, 4) }, { denominator: 'm', reduceType: 'sum' });
    expect(() => {
      tracker.stat({ v: values(3, 4) }, { denominator: 'm', reduceType: 'sum' });
    }).toThrow(PairingError);
    expect(await tracker.export()).toEqual({ byHandle: 14, m: 4, v: 305 });
  });

  it('does not answer to its name: the error says to use the handle', () => {
    tracker.denominator('m', mask(1));
    expect(() => {
      tracker.stat({ v: values(1) }, { denominator: 'm' });
    }).toThrow(/'m' \(0 so far\).*stat\(\) of the handle/);
  });

  it('takes one value per key: a second one is for another mask', async () => {
    const valid = tracker.denominator('m', mask(1));
    valid.stat({ v: values(1) });
    expect(() => {
      valid.stat({ w: values(1), v: values(2) });
    }).toThrow(PairingError);
    tracker.scope('a', () => {
      valid.stat({ v: values(5) });
    });
    const exported = await tracker.export();
    expect(exported['v/avg']).toBe(1);
    expect(exported).not.toHaveProperty('w/avg');
  });

  it('refuses what stat refuses, and records nothing then', async () => {
    const valid = tracker.denominator('m', mask(1, 1));
    expect(() => {
      valid.stat({ good: values(1, 2), bad: values(1) });
    }).toThrow(ShapeError);
    expect(() => {
      valid.stat({ bad: mask(1, 1) });
    }).toThrow(DtypeError);
    expect(() => {
      valid.stat({ v: values(1, 2) }, { reduceType: 'scalar' as 'avg' });
    }).toThrow(ValueError);
    expect(() => {
      valid.stat({ v: values(1, 2) }, { denominator: 'm' } as object);
    }).toThrow(ValueError);
    valid.stat({ v: values(1, 2) });
    tracker.denominator({ n: mask(1, 1) });
    expect(() => {
      tracker.stat({ v: values(1, 2) }, { denominator: 'n' });
    }).toThrow(KeyConflictError);
    expect(() => tracker.denominator('', mask(1))).toThrow(ValueError);
    expect(() => tracker.denominator('x', values(1))).toThrow(DtypeError);
    expect(() => tracker.denominator('x', undefined as unknown as tf.Tensor)).toThrow(DtypeError);
    expect(await tracker.export()).toEqual({ m: 2, n: 2, 'v/avg': 1.5, 'v/max': 2, 'v/min': 1 });
  });
});

describe('the mask of a handle', () => {
  const made = () => tidied(() => tracker.denominator('m', mask(1, 0)));

  it('outlives the tensor that it was made of', async () => {
    const valid = made();
    valid.stat({ v: values(3, 4) }, { reduceType: 'sum' });
    expect(await tracker.export()).toEqual({ m: 1, v: 3 });
  });

  it('goes when the handle is disposed, once; its elements stay counted', async () => {
    for (let i = 0; i < 100; i++) {
      using valid = made();
      if (i % 2 === 0) valid.stat({ v: values(1, 2) }, { reduceType: 'sum' });
      valid[Symbol.dispose]();
    }
    // What was recorded is on the host here, and nothing else is left.
    expect(tracker.memory()).toMatchObject({ heldMasks: 0, deviceBytes: 0 });
    expect(await tracker.export()).toEqual({ m: 100, v: 50 });
    expect(tracker.memory().deviceBytes).toBe(0);
  });

  it('goes with an export, and a later use is refused by name', async () => {
    const valid = made();
    expect(await tracker.export({ reset: false })).toEqual({ m: 1 });
    valid.stat({ v: values(3, 4) }, { reduceType: 'sum' });
    expect(await tracker.export()).toEqual({ m: 1, v: 3 });
    const late = () => {
      valid.stat({ v: values(3, 4) });
    };
    expect(late).toThrow(ReleasedError);
    expect(late).toThrow(/denominator handle 'm'/);
    valid[Symbol.dispose]();
    // A new mask of the same denominator is not the mask of the old handle.
    const next = made();
    expect(late).toThrow(ReleasedError);
    next.stat({ v: values(9, 9) }, { reduceType: 'sum' });
    expect(await tracker.export()).toEqual({ m: 1, v: 9 });
  });

  it('stays when another key is exported, goes when its denominator is', async () => {
    const valid = made();
    valid.stat({ v: values(3, 4) }, { reduceType: 'sum' });
    expect(await tracker.export({ key: 'v' })).toEqual({ v: 3 });
    valid.stat({ w: values(5, 6) }, { reduceType: 'sum' });
    expect(await tracker.export({ key: 'm' })).toEqual({ m: 1 });
    expect(() => {
      valid.stat({ x: values(5, 6) });
    }).toThrow(ReleasedError);
    expect(await tracker.export()).toEqual({ w: 5 });
  });

  it('goes with dispose() of the tracker', () => {
    const valid = made();
    tracker.dispose();
    expect(tf.memory().numTensors).toBe(before);
    expect(() => {
      valid.stat({ v: values(3, 4) });
    }).toThrow(ReleasedError);
    valid[Symbol.dispose]();
  });
});
