/** Record calls: what they keep, what they refuse, and that a refused one leaves nothing behind. */
import * as tf from '@tensorflow/tfjs-core';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  BackendError,
  DisposedTensorError,
  DtypeError,
  KeyConflictError,
  MissingInputError,
  PairingError,
  ShapeError,
  ValueError,
} from '../../../src/errors.js';
import { initBackend } from '../../../src/kernels/index.js';
import { StatsTracker } from '../../../src/tracker/index.js';
import { mask, values } from './tensors.js';

let tracker: StatsTracker;

beforeAll(async () => {
  await initBackend('cpu');
  tf.env().set('IS_TEST', true);
});

beforeEach(() => {
  tracker = new StatsTracker();
  return () => {
    tracker.dispose();
  };
});

describe('inputs', () => {
  it('may be disposed in the line after the call', async () => {
    const [m, v] = [mask(1, 0, 1), values(1, 2, 3)];
    tracker.denominator({ m });
    m.dispose();
    tracker.stat({ v }, { denominator: 'm' });
    v.dispose();
    expect(await tracker.export()).toEqual({ m: 2, 'v/avg': 2, 'v/min': 1, 'v/max': 3 });
  });

  it('survive the tf.tidy that they were made in', async () => {
    tf.tidy(() => {
      tracker.denominator({ m: mask(1, 1) });
    });
    tf.tidy(() => {
      tracker.stat({ v: values(1, 3) }, { denominator: 'm', reduceType: 'sum' });
    });
    expect(await tracker.export()).toEqual({ m: 2, v: 4 });
  });

  it('stay with the caller, who sees neither handles nor data change', () => {
    const [m, v] = [mask(1, 1), values(1, 3)];
    tracker.denominator({ m });
    tracker.stat({ v }, { denominator: 'm' });
    tracker.dispose();
    expect([...m.dataSync()]).toEqual([1, 1]);
    expect([...v.dataSync()]).toEqual([1, 3]);
    tf.dispose([m, v]);
  });

  it('leave no tensor behind, exported or dropped', async () => {
    const before = tf.memory().numTensors;
    const drop = () => {
      tracker.dispose();
      return Promise.resolve();
    };
    for (const finish of [(): Promise<unknown> => tracker.export(), drop]) {
      tf.tidy(() => {
        for (let i = 0; i < 5; i++) {
          tracker.denominator({ used: mask(1, 0), unused: mask(1, 1) });
          tracker.stat({ a: values(1, 2), b: values(3, 4) }, { denominator: 'used' });
        }
      });
      expect(tf.memory().numTensors).toBeGreaterThan(before);
      await finish();
      expect(tf.memory().numTensors).toBe(before);
    }
  });

  it('of a used denominator are let go with the micro-batches, all but the last', () => {
    const before = tf.memory().numTensors;
    tf.tidy(() => {
      for (let i = 0; i < 10; i++) {
        tracker.denominator({ m: mask(1, 0) });
        tracker.stat({ a: values(1, 2), b: values(3, 4) }, { denominator: 'm' });
      }
    });
    expect(tf.memory().numTensors).toBe(before + 1);
  });
});

describe('one call with several values', () => {
  it('takes all or none: a stat', async () => {
    tf.tidy(() => {
      tracker.denominator({ m: mask(1, 1) });
      const good = values(1, 2);
      const stat = (bad: unknown) => () => {
        tracker.stat({ good, bad: bad as tf.Tensor }, { denominator: 'm' });
      };
      expect(stat(values(1, 2, 3))).toThrow(ShapeError);
      expect(stat(tf.scalar(1))).toThrow(ShapeError);
      expect(stat(tf.zeros([0]))).toThrow(ShapeError);
      expect(stat(tf.tensor1d([1, 2], 'int32'))).toThrow(DtypeError);
      expect(stat(mask(1, 1))).toThrow(DtypeError);
      expect(stat(null)).toThrow(DtypeError);
      expect(stat([1, 2])).toThrow(DtypeError);
      const gone = values(1, 2);
      gone.dispose();
      expect(stat(gone)).toThrow(DisposedTensorError);
    });
    expect(await tracker.export()).toEqual({ m: 2 });
  });

  it('takes all or none: a denominator', async () => {
    const before = tf.memory().numTensors;
    tf.tidy(() => {
      expect(() => {
        tracker.denominator({ good: mask(1), bad: values(1) });
      }).toThrow(DtypeError);
      expect(() => {
        tracker.denominator({ good: mask(1), bad: tf.zeros([0], 'bool') });
      }).toThrow(ShapeError);
    });
    expect(tf.memory().numTensors).toBe(before);
    expect(await tracker.export()).toEqual({});
  });

  it('takes all or none: a scalar', async () => {
    for (const bad of [null, undefined, '3', 3n, {}, [1]]) {
      expect(() => {
        tracker.scalar({ a: 1, b: bad as number });
      }).toThrow(ValueError);
    }
    expect(await tracker.export()).toEqual({});
    tracker.scalar({ a: 1, b: true, c: NaN, d: -Infinity });
    tracker.scalar({ c: 1 });
    expect(await tracker.export()).toEqual({
      ...{ a: 1, a__count: 1, b: 1, b__count: 1, c: NaN, c__count: 2, d: -Infinity, d__count: 1 },
    });
  });

  it('takes nothing where the names of the call collide with each other', async () => {
    expect(() => {
      tracker.scalar({ x: 1, x__count: 2 });
    }).toThrow(KeyConflictError);
    tf.tidy(() => {
      tracker.denominator({ m: mask(1) });
      expect(() => {
        tracker.stat({ a: values(1), 'a/min': values(1) }, { denominator: 'm' });
      }).not.toThrow(); // 'a/min' exports a/min/avg, …
      expect(() => {
        tracker.denominator({ b: mask(1), 'a/avg': mask(1) });
      }).toThrow(KeyConflictError);
    });
    expect(Object.keys(await tracker.export())).toEqual([
      'a/avg',
      'a/max',
      'a/min',
      'a/min/avg',
      'a/min/max',
      'a/min/min',
      'm',
    ]);
  });

  it('must be an object of named values', () => {
    const m = mask(1);
    expect(() => {
      tracker.denominator(m as unknown as Record<string, tf.Tensor>);
    }).toThrow(ValueError);
    expect(() => {
      tracker.scalar(null as unknown as Record<string, number>);
    }).toThrow(ValueError);
    expect(() => {
      tracker.scalar({ '': 1 });
    }).toThrow(ValueError);
    m.dispose();
  });
});

describe('a key', () => {
  it('keeps kind, reduce type and denominator until it is exported, then is free', async () => {
    const record = (reduceType: 'sum' | 'avg', denominator: string) => {
      tf.tidy(() => {
        tracker.denominator({ m: mask(1), n: mask(1) });
        tracker.stat({ v: values(2) }, { denominator, reduceType });
      });
    };
    record('sum', 'm');
    expect(() => {
      record('avg', 'm');
    }).toThrow(/reduce type 'sum' under 'm'.*reduce type 'avg' under 'm'/);
    expect(() => {
      record('sum', 'n');
    }).toThrow(KeyConflictError);
    expect(() => {
      tracker.scalar({ v: 1 });
    }).toThrow(KeyConflictError);
    tracker.dispose();
    record('avg', 'n');
    expect(await tracker.export()).toEqual({ m: 1, n: 1, v: 2 });
    tracker.scalar({ v: 5 });
    expect(await tracker.export()).toEqual({ v: 5, v__count: 1 });
  });
});

describe('the error of an unknown denominator', () => {
  it('names the key, the scope and what is known', () => {
    tf.tidy(() => {
      tracker.denominator({ m: mask(1) });
      tracker.scope('u', () => {
        tracker.denominator({ other: mask(1) });
        const stat = () => {
          tracker.stat({ v: values(1) }, { denominator: 'm' });
        };
        expect(stat).toThrow(MissingInputError);
        expect(stat).toThrow(/scope 'u', got 'm', while 'other' in this scope and 'm' elsewhere is known/);
      });
      expect(() => {
        tracker.stat({ v: values(1) }, undefined as unknown as { denominator: string });
      }).toThrow(MissingInputError);
    });
  });
});

describe('pairing', () => {
  it('is per key: values of one call may belong to different masks', async () => {
    tf.tidy(() => {
      tracker.denominator({ m: mask(1, 0) });
      tracker.denominator({ m: mask(0, 1) });
      tracker.stat({ a: values(1, 2) }, { denominator: 'm', reduceType: 'sum' });
      tracker.stat({ a: values(3, 4), b: values(5, 6) }, { denominator: 'm', reduceType: 'sum' });
      tracker.stat({ b: values(7, 8) }, { denominator: 'm', reduceType: 'sum' });
    });
    expect(await tracker.export()).toEqual({ a: 5, b: 13, m: 2 });
  });

  it('lets the stats of all masks come one key after the other', async () => {
    tf.tidy(() => {
      tracker.denominator({ m: mask(1, 0) });
      tracker.denominator({ m: mask(0, 1) });
      for (const key of ['a', 'b']) {
        for (const value of [values(1, 2), values(3, 4)]) {
          tracker.stat({ [key]: value }, { denominator: 'm', reduceType: 'sum' });
        }
      }
    });
    expect(await tracker.export()).toEqual({ a: 5, b: 5, m: 2 });
  });

  it('refuses a stat that starts after its first mask was let go', () => {
    tf.tidy(() => {
      for (let i = 0; i < 2; i++) {
        tracker.denominator({ m: mask(1) });
        tracker.stat({ a: values(1) }, { denominator: 'm' });
      }
      expect(() => {
        tracker.stat({ late: values(1) }, { denominator: 'm' });
      }).toThrow(PairingError);
    });
  });

  it('at export names the stat, its denominator and both numbers, and keeps everything', async () => {
    const stat = () => {
      tf.tidy(() => {
        tracker.stat({ v: values(1) }, { denominator: 'm' });
      });
    };
    tf.tidy(() => {
      tracker.denominator({ m: mask(1) });
      tracker.denominator({ m: mask(1) });
    });
    stat();
    await expect(tracker.export()).rejects.toThrow(PairingError);
    await expect(tracker.export({ reset: false })).rejects.toThrow(/export: v: .*'m' \(2\), got 1 value;/);
    stat();
    expect(await tracker.export()).toEqual({ m: 2, 'v/avg': 1, 'v/min': 1, 'v/max': 1 });
  });
});

describe('tensors on two backends', () => {
  it('are refused, and nothing is recorded', async () => {
    const v = values(1, 2);
    await import('@tensorflow/tfjs-backend-wasm');
    await tf.setBackend('wasm');
    const m = mask(1, 1);
    await tf.setBackend('cpu');
    tracker.denominator({ m });
    expect(() => {
      tracker.stat({ v }, { denominator: 'm' });
    }).toThrow(BackendError);
    expect(await tracker.export()).toEqual({ m: 2 });
    tf.dispose([m, v]);
  });
});
