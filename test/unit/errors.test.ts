/** What refusals show and keep of what they refuse: its beginning. */
import v8 from 'node:v8';
import vm from 'node:vm';
import * as tf from '@tensorflow/tfjs-core';
import { describe, expect, test } from 'vitest';
import { kindOf, messageOf } from '../../src/arguments.js';
import { MOST_CHARACTERS, TensortallyError, ValueError } from '../../src/errors.js';
import { Histogram, channelMoments, initBackend } from '../../src/kernels/index.js';
import { StepState } from '../../src/metrics/index.js';
import { StatsTracker, StreamEmitter, StreamIngest, decodeDelta, derive } from '../../src/tracker/index.js';

const MB = 2 ** 20;

/** Lists within lists. */
function nested(depth: number): unknown {
  let value: unknown = 'inside';
  for (let i = 0; i < depth; i++) value = [value];
  return value;
}

async function refusal(of: () => unknown): Promise<Error> {
  try {
    await of();
  } catch (error) {
    return error as Error;
  }
  throw new Error('nothing was refused');
}

const emitter = (): StreamEmitter =>
  new StreamEmitter(
    { delivery: 'direct', send: () => Promise.resolve({ status: 'accepted' }) },
    { workerId: 'w' },
  );

const refusals: Record<string, (huge: string, deep: unknown) => unknown> = {
  'an option': (huge) => new StatsTracker('', { [huge]: 1 }),
  'a reduce type': (huge) => {
    emitter().scalar({ a: 1 }, { reduceType: huge as never });
  },
  'a key': (huge) => {
    emitter().scalar({ [huge]: 'x' as never });
  },
  'a worker': (huge) => new StreamEmitter({ delivery: 'direct', send: null as never }, { workerId: huge }),
  'a row': (huge) => Histogram.fromRow([huge as never, 0, 0, 0]),
  'a nested row': (_, deep) => Histogram.fromRow([deep as never, 0, 0, 0]),
  'a nested bucket': (_, deep) => Histogram.fromRow([1, 0, 0, 0, deep as never, 1]),
  'a nested count': (_, deep) => Histogram.fromRow([1, deep as never, 0, 0]),
  'bytes of a delta': (huge) => decodeDelta(huge as never),
  'bytes of a state': (_, deep) => StepState.fromBytes(deep as never),
  'bytes for an ingest': (_, deep) => new StreamIngest().receive(deep as never),
  'a nested mask': (_, deep) =>
    channelMoments({ m: { of: 'x', mask: deep as never } }, { x: tf.tensor1d([1]) }),
  'a nested failure': async (_, deep) => {
    const of = (): number => {
      throw deep;
    };
    const tracker = new StatsTracker('', { derived: { d: derive(['a'], of) } });
    tracker.scalar({ a: 1 });
    await tracker.export();
  },
};

describe('a refusal', () => {
  test.each(Object.entries(refusals))('of %s is typed and short, whatever came', async (_what, of) => {
    await initBackend('cpu');
    const error = await refusal(() => of('x'.repeat(10 * MB), nested(100_000)));
    expect(error).toBeInstanceOf(TensortallyError);
    expect(error.message.length).toBeLessThan(5 * MOST_CHARACTERS);
  });

  test('shows the beginning of a long part, and all of one that is not', () => {
    const detail = { where: 'f', input: 'x', expected: 'e', remedy: 'r' };
    const exact = new ValueError({ ...detail, received: 'y'.repeat(MOST_CHARACTERS) });
    expect(exact.received).toBe('y'.repeat(MOST_CHARACTERS));
    const cut = new ValueError({ ...detail, received: 'y'.repeat(MOST_CHARACTERS + 1) });
    expect(cut.received).toBe(`${'y'.repeat(MOST_CHARACTERS - 1)}…`);
    expect(cut.message).toBe(`f: x: expected e, got ${cut.received}; r`);
    expect(new ValueError({ ...detail, received: '\u001b é😀' }).received).toBe('\\u001b é😀');
  });

  test('keeps nothing of what it refused', () => {
    v8.setFlagsFromString('--expose-gc');
    const gc = vm.runInNewContext('gc') as () => void;
    const kept: Error[] = [];
    gc();
    const before = process.memoryUsage().heapUsed;
    for (let i = 0; i < 64; i++) {
      const huge = `${i}`.repeat(MB);
      try {
        Histogram.fromRow([1, huge as never, 0, 0]);
      } catch (error) {
        kept.push(error as Error);
      }
    }
    gc();
    expect(kept).toHaveLength(64);
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(8 * MB);
  });
});

describe('what a message calls a value', () => {
  test.each<[unknown, string]>([
    [{ constructor: { name: 'x' } }, 'an object (no class)'],
    [
      {
        get constructor() {
          throw new Error('no');
        },
      },
      'an object (no class)',
    ],
    [Object.create(null), 'an object (no class)'],
    [Symbol('s'), 'a symbol'],
  ])('is found without failing', (value, kind) => {
    expect(kindOf(value)).toBe(kind);
    expect(messageOf(value)).toBe(kind);
  });

  test('is found of what cannot even be looked at', () => {
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    expect(kindOf(proxy)).toBe('an object (no class)');
  });

  test('is what an error says, and a text as it is', () => {
    expect(messageOf(new RangeError('too far'))).toBe('too far');
    expect(messageOf('busy')).toBe('busy');
    expect(messageOf(7)).toBe('the number 7');
  });
});
