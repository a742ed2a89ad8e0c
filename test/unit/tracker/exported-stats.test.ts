/** Stats that are exported one by one, by their keys, under a denominator that never is: what is known of them is bounded. */
import * as tf from '@tensorflow/tfjs-core';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { PairingError } from '../../../src/errors.js';
import { initBackend } from '../../../src/kernels/index.js';
import { StatsTracker } from '../../../src/tracker/index.js';
import { MaskQueue } from '../../../src/tracker/masks/mask-queue.js';
import { mask, values } from './tensors.js';

let tracker: StatsTracker;

beforeAll(async () => {
  await initBackend('cpu');
});

beforeEach(() => {
  tracker = new StatsTracker();
});

function recordMask(): void {
  tf.tidy(() => {
    tracker.denominator({ m: mask(1, 0) });
  });
}

async function exported(key: string, number: number): Promise<Record<string, number>> {
  tf.tidy(() => {
    tracker.stat({ [key]: values(number, 0) }, { denominator: 'm', reduceType: 'sum' });
  });
  return tracker.export({ key });
}

describe('a stat that was exported by its key', () => {
  it('goes on with the next mask', async () => {
    recordMask();
    expect(await exported('loss', 1)).toEqual({ loss: 1 });
    tf.tidy(() => {
      tracker.denominator({ m: mask(0, 1) });
    });
    expect(await exported('loss', 1)).toEqual({ loss: 0 });
  });

  it('and never comes again holds no more than 64 masks', async () => {
    recordMask();
    await exported('once', 1);
    for (let step = 0; step < 200; step++) {
      if (step > 0) recordMask();
      expect(await exported('loss', step)).toEqual({ loss: step });
    }
    expect(tracker.memory().heldMasks).toBeLessThanOrEqual(65);
    expect(() => {
      tf.tidy(() => {
        tracker.stat({ once: values(1, 0) }, { denominator: 'm' });
      });
    }).toThrow(PairingError);
    await expect(tracker.export()).resolves.toEqual({ m: 200 });
  });

  it('holds no more than 64 masks where nothing else is recorded for them', async () => {
    recordMask();
    await exported('once', 1);
    for (let step = 0; step < 200; step++) recordMask();
    expect(tracker.memory().heldMasks).toBeLessThanOrEqual(65);
    await expect(tracker.export()).resolves.toEqual({ m: 201 });
  });
});

describe('a stat with records', () => {
  it('holds every mask that it has not used', async () => {
    recordMask();
    tf.tidy(() => {
      tracker.stat({ slow: values(1, 0) }, { denominator: 'm' });
    });
    await exported('fast', 0);
    for (let step = 1; step < 100; step++) {
      recordMask();
      await exported('fast', step);
    }
    expect(tracker.memory().heldMasks).toBe(99);
    for (let step = 1; step < 100; step++) {
      tf.tidy(() => {
        tracker.stat({ slow: values(1, 0) }, { denominator: 'm' });
      });
    }
    await expect(tracker.export()).resolves.toMatchObject({ m: 100, 'slow/avg': 1 });
  });
});

describe('ever new stats over one mask', () => {
  it('are all taken, and forgotten', async () => {
    recordMask();
    for (let i = 0; i < 1500; i++) expect(await exported(`k${i}`, i)).toEqual({ [`k${i}`]: i });
    expect(tracker.memory()).toMatchObject({ keys: 1, heldMasks: 1 });
    await expect(exported('k1499', 1)).rejects.toThrow(PairingError); // known: its mask has had its value
  });

  it('are refused once there is another mask: whose turn it is cannot be known', async () => {
    recordMask();
    tf.tidy(() => {
      tracker.stat({ slow: values(1, 0) }, { denominator: 'm' }); // so that no mask goes
    });
    for (let i = 0; i < 1001; i++) await exported(`k${i}`, i);
    await exported('new', 1);
    recordMask();
    await expect(exported('k0', 1)).rejects.toThrow(PairingError);
    await expect(exported('newer', 1)).rejects.toThrow('more than 1000 were exported by their keys');
    await expect(exported('k1000', 5)).resolves.toEqual({ k1000: 5 });
  });

  it('leave no more than a thousand names in a queue', () => {
    const queue = new MaskQueue('m', () => false);
    for (let i = 0; i < 5000; i++) {
      queue.advance(`k${i}`);
      queue.trim();
    }
    queue.push({ release: () => undefined, isReadable: true } as never, () => undefined);
    queue.push({ release: () => undefined, isReadable: true } as never, () => undefined);
    expect(queue.behind()).toHaveLength(1000);
  });
});

describe('the mask of a handle', () => {
  it('takes ever new stats too, and refuses a second value of those that it knows', async () => {
    const given = mask(1, 0);
    const handle = tracker.denominator('m', given);
    given.dispose();
    const record = (key: string): void => {
      tf.tidy(() => {
        handle.stat({ [key]: values(1, 0) }, { reduceType: 'sum' });
      });
    };
    for (let i = 0; i < 1500; i++) {
      record(`k${i}`);
      await tracker.export({ key: `k${i}` });
    }
    expect(() => {
      record('k1499');
    }).toThrow(PairingError);
    await expect(tracker.export()).resolves.toEqual({ m: 1 });
  });
});
