/** Names of any kind: many slashes, great lengths, and `__proto__`. */
import * as tf from '@tensorflow/tfjs-core';
import { beforeAll, describe, expect, it } from 'vitest';
import { TensortallyError, ValueError } from '../../../src/errors.js';
import { initBackend } from '../../../src/kernels/index.js';
import { batchFromVerl, computeDataMetrics, groupMoments } from '../../../src/metrics/index.js';
import { aggregateExports } from '../../../src/tracker/export/aggregate-exports.js';
import { StatsTracker, TrackerRegistry, defineMetrics, derive } from '../../../src/tracker/index.js';
import { tidied } from '../../support/tensors.js';
import { mask, values } from './tensors.js';

beforeAll(async () => {
  await initBackend('cpu');
});

/** Seconds that the fastest of some calls takes. */
function seconds(call: () => void): number {
  let best = Infinity;
  for (let i = 0; i < 5; i++) {
    const start = performance.now();
    call();
    best = Math.min(best, (performance.now() - start) / 1000);
  }
  return best;
}

describe('slashes in a scope', () => {
  it('at its ends are dropped, however many', () => {
    const many = '/'.repeat(80_000);
    const tracker = new StatsTracker(`${many}t${many}`);
    tracker.scope(many, () => {
      tracker.child(`${many}a${many}`).scalar({ k: 1 });
    });
    return expect(tracker.export()).resolves.toEqual({ 't/a/k': 1, 't/a/k__count': 1 });
  });

  it('cost what their number costs, wherever they are', () => {
    const tracker = new StatsTracker();
    const open = (n: number) => () => {
      for (const name of [`a${'/'.repeat(n)}a`, '/'.repeat(n), `${'/'.repeat(n)}a`]) {
        try {
          tracker.scope(name, () => undefined);
          new StatsTracker(name);
        } catch (error) {
          expect(error).toBeInstanceOf(ValueError);
        }
      }
    };
    // Quadratic work would be 256 times as much.
    expect(seconds(open(80_000))).toBeLessThan(64 * seconds(open(5_000)));
  });
});

describe('a key or path of more than 10 000 characters', () => {
  const long = 'k'.repeat(10_001);

  it.each<[string, (tracker: StatsTracker) => unknown]>([
    [
      'scalar',
      (tracker) => {
        tracker.scalar({ [long]: 1 });
      },
    ],
    [
      'counter',
      (tracker) => {
        tracker.counter({ [long]: 1 });
      },
    ],
    [
      'denominator',
      (tracker) => {
        tracker.denominator({ [long]: mask(1) });
      },
    ],
    ['denominator handle', (tracker) => tracker.denominator(long, mask(1))],
    [
      'stat',
      (tracker) => {
        tracker.stat({ [long]: values(1) }, { denominator: 'm' });
      },
    ],
    ['timing', (tracker) => tracker.timing(long)],
    [
      'scope',
      (tracker) => {
        tracker.scope(long, () => undefined);
      },
    ],
    ['child', (tracker) => tracker.child('a').child(long)],
    [
      'nested scopes',
      (tracker) => tracker.scope(long.slice(2000), () => tracker.scope(long.slice(2000), () => 0)),
    ],
    [
      'a path and a name',
      (tracker) => {
        tracker.child(long.slice(2000)).scalar({ [long.slice(2000)]: 1 });
      },
    ],
  ])('is refused by %s, in few words, and leaves nothing', async (_what, call) => {
    const tracker = new StatsTracker();
    await tidied(() => {
      tracker.denominator({ m: mask(1) });
      let refusal: unknown;
      try {
        call(tracker);
      } catch (error) {
        refusal = error;
      }
      expect(refusal).toBeInstanceOf(ValueError);
      expect((refusal as Error).message.length).toBeLessThan(500);
      return tracker.export();
    }).then((exported) => {
      expect(exported).toEqual({ m: 1 });
    });
  });

  it('is named shortly where it is no denominator', () => {
    expect(() => {
      new StatsTracker().stat({ v: values(1) }, { denominator: 'm'.repeat(1e6) });
    }).toThrow(/^.{0,400}$/);
  });

  it('of 10 000 is taken', async () => {
    const tracker = new StatsTracker();
    tracker.scalar({ [long.slice(1)]: 1 });
    expect(Object.keys(await tracker.export())).toEqual([long.slice(1), `${long.slice(1)}__count`]);
  });
});

describe('the name __proto__', () => {
  it('is a name like any other, in every record and export', async () => {
    const name = '__proto__';
    const tracker = new StatsTracker('', { derived: { double: derive([name], (x) => 2 * x) } });
    tracker.scalar({ [name]: 3 }, { reduceType: { [name]: 'sum' } });
    const exported = await tracker.export();
    expect(Object.entries(exported)).toEqual([
      [name, 3],
      ['double', 6],
    ]);
    expect(Object.getPrototypeOf(exported)).toBe(Object.prototype);

    tracker.counter({ [name]: 2 });
    expect(Object.entries(await tracker.export({ key: name }))).toEqual([[name, 2]]);

    await tidied(() => {
      tracker.denominator({ [name]: mask(1, 1, 0) });
      tracker.stat({ [`${name}/x`]: values(1, 2, 3) }, { denominator: name, reduceType: 'sum' });
      return tracker.export();
    }).then((numbers) => {
      expect(Object.entries(numbers)).toEqual([
        [name, 2],
        [`${name}/x`, 3],
        ['double', 4],
      ]);
    });

    await tidied(() => {
      tracker.denominator({ m: mask(1, 0) });
      tracker.stat(
        { [name]: values(1, 2), v: values(3, 4) },
        { denominator: 'm', reduceType: { [name]: 'sum' } },
      );
      tracker.stat({ constructor: values(5, 6) }, { denominator: 'm', reduceType: 'histogram' });
      return tracker.export();
    }).then((numbers) => {
      expect(numbers).toMatchObject({ 'constructor/p50': 5, m: 1, 'v/avg': 3 });
      expect(Object.entries(numbers)).toContainEqual([name, 1]);
    });
  });

  it('is one for histograms, handles, schemas, scopes and trackers, too', async () => {
    const name = '__proto__';
    const schema = defineMetrics({ [name]: 'denominator', v: { denominator: name } } as never);
    const registry = new TrackerRegistry();
    const tracker = registry.get(name);
    await tidied(() => {
      using valid = tracker.denominator(name, mask(1, 1));
      valid.stat({ [`${name}/h`]: values(1, 1) }, { reduceType: 'histogram' });
      tracker.scope(name, () => {
        tracker.scalar({ [name]: 1 });
      });
      (schema.on(tracker) as unknown as { denominator(masks: unknown): void }).denominator({
        [name]: mask(1),
      });
      return registry.exportAll();
    }).then((numbers) => {
      expect(numbers).toMatchObject({ '__proto__/__proto__': 3, '__proto__/__proto__/h/p50': 1 });
      expect(numbers).toMatchObject({ '__proto__/__proto__/__proto__': 1 });
    });
  });

  it('is one in the exports of workers', () => {
    const worker = (x: number): Record<string, number> => ({ ['__proto__']: x, __proto____count: 2 });
    const merged = aggregateExports([worker(1), worker(3)]);
    expect(Object.entries(merged)).toEqual([
      ['__proto__', 2],
      ['__proto____count', 4],
    ]);
    const totals = aggregateExports([{ ['__proto__']: 1 }, { ['__proto__']: 2 }], { totals: ['__proto__'] });
    expect(Object.entries(totals)).toEqual([['__proto__', 3]]);
  });
});

describe('a list that says to be of a billion', () => {
  const huge = { length: 1e9 } as never;

  it('is refused before anything of it is copied', () => {
    const tracker = new StatsTracker();
    const calls: (() => unknown)[] = [
      () => {
        tracker.scalar({ k: huge });
      },
      () => {
        tracker.counter({ k: huge });
      },
      () => {
        tracker.stat({ k: huge }, { denominator: 'm' });
      },
      () => {
        tracker.denominator({ k: huge });
      },
      () => derive(huge, () => 0),
      () => new StatsTracker('', { windows: huge }),
      () => aggregateExports(huge),
      () => aggregateExports([], { totals: huge }),
      () => groupMoments(huge, ['a']),
      () => groupMoments([1], huge),
    ];
    for (const call of calls) expect(call, String(call)).toThrow(TensortallyError);
    tf.tidy(() => {
      const one = tf.ones([1, 2]);
      expect(() =>
        batchFromVerl({ responses: tf.ones([1, 2], 'int32'), response_mask: one, num_turns: huge } as never),
      ).toThrow(TensortallyError);
      expect(computeDataMetrics).toBeTypeOf('function');
    });
  });
});
