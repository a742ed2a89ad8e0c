/** Validation reports: the bugs that validation metrics have had elsewhere, what is counted, what is refused. */
import { describe, expect, test, vi } from 'vitest';

import { MissingInputError, ShapeError, TensortallyError, ValueError } from '../../../src/errors.js';
import { passAtK, passHatK, processValidationMetrics } from '../../../src/metrics/index.js';
import { gaussLegendre } from '../../../src/metrics/validation/quadrature.js';
import { seeded } from '../../support/random.js';

/** A report of one source. */
function reportOf(uids: readonly string[], infos: Record<string, unknown[]>, options = {}) {
  return processValidationMetrics(
    uids.map(() => 's'),
    uids,
    infos,
    options,
  );
}

describe('bugs of others', () => {
  test('best@n of one problem is a chance between 0 and 1; pass@n stands beside it', () => {
    const { metrics } = reportOf(['p', 'p', 'p', 'p'], { acc: [1, 0, 0, 0] });
    expect(metrics['val-core/s/acc/best@4/mean']).toBe(0.68359375);
    expect(metrics['val-aux/s/acc/pass@4']).toBe(1);
    expect(metrics['val-aux/s/acc/pass^4']).toBe(0);
    expect(metrics['val-aux/s/acc/pass@2']).toBe(0.5);
  });

  test('best@k is not biased low without replacement: it is pass@k', () => {
    for (const passed of [0, 1, 2, 3, 4, 5, 6, 7, 8]) {
      const acc = Array.from({ length: 8 }, (_, i) => (i < passed ? 1 : 0));
      const { metrics } = reportOf(Array<string>(8).fill('p'), { acc }, { replacement: false });
      for (const k of [2, 4, 8]) {
        const core = k === 8 ? 'val-core' : 'val-aux';
        expect(metrics[`${core}/s/acc/best@${k}/mean`]).toBeCloseToReference(passAtK(8, passed, k), {
          abs: 1e-15,
        });
        expect(metrics[`val-aux/s/acc/worst@${k}/mean`]).toBeCloseToReference(passHatK(8, passed, k), {
          abs: 1e-15,
        });
      }
    }
  });

  test('the same prompt text in two items is two prompts: uids group, nothing else', () => {
    const { metrics, prompts } = reportOf(['image1', 'image2'], { acc: [1, 0] });
    expect(metrics).toEqual({ 'val-core/s/acc/mean@1': 0.5 });
    expect(prompts).toEqual({ 'val-core/s/acc/mean@1': 2 });
  });

  test('a variable that only some samples have does not stop the others', () => {
    const { metrics, samples } = reportOf(['a', 'a', 'b', 'b'], {
      reward: [1, 3, 5, 7],
      rare: [null, null, null, 4],
      never: [undefined, null, null, null],
    });
    expect(metrics['val-core/s/reward/mean@2']).toBe(4);
    expect(metrics['val-aux/s/rare/mean@1']).toBe(4);
    expect(Object.keys(metrics).filter((key) => key.includes('never'))).toEqual([]);
    expect(samples['s/rare']).toEqual({ used: 1, nan: 0, missing: 3, notNumeric: 0 });
    expect(samples['s/never']).toEqual({ used: 0, nan: 0, missing: 4, notNumeric: 0 });
  });

  test('one sample per prompt gives its mean and no deviation', () => {
    const { metrics } = reportOf(['a', 'b'], { reward: [1, 2], pred: ['x', 'y'] });
    expect(metrics).toEqual({ 'val-core/s/reward/mean@1': 1.5 });
  });

  test('samples that failed do not leave the denominator in silence', () => {
    const { samples, prompts } = reportOf(['a', 'a', 'b', 'b'], { acc: [1, null, 'timeout', NaN] });
    expect(samples['s/acc']).toEqual({ used: 2, nan: 1, missing: 1, notNumeric: 1 });
    expect(prompts['val-core/s/acc/mean@1']).toBe(2);
  });

  test('a variance is never negative, whatever the rounding', () => {
    const { metrics } = reportOf(['p', 'p', 'p'], { reward: [0.1, 0.1, 0.1], pred: ['a', 'b', 'b'] });
    const deviations = Object.entries(metrics).filter(([key]) => key.includes('std'));
    expect(deviations).toHaveLength(7);
    for (const [key, std] of deviations) expect(std, key).toBeCloseToReference(0, { abs: 1e-16 });
  });

  test('everything is a plain number that JSON can take', () => {
    const report = reportOf(['a', 'a', 'b', 'b'], {
      acc: [true, false, true, true],
      pred: ['x', 'y', 'y', null],
    });
    expect(JSON.parse(JSON.stringify(report))).toEqual(report);
  });

  test('an error shared by all prompts does not survive averaging: where the right sample stands is no matter', () => {
    const first = [1, 0, 0, 0, 0, 0, 0, 0];
    const uids = Array<string>(8).fill('p');
    const key = 'val-aux/s/acc/best@2/mean';
    const exact = reportOf(uids, { acc: first }).metrics[key];
    expect(reportOf(uids, { acc: first.toReversed() }).metrics[key]).toBe(exact);
  });
});

describe('NaN', () => {
  test('makes what its prompt has a part in NaN, and nothing else', () => {
    const infos = { acc: [NaN, 1, 0, 1, 1], pred: ['x', 'y', 'y', 'y', 'x'] };
    const { metrics, samples } = reportOf(['a', 'a', 'b', 'b', 'b'], infos);
    expect(samples['s/acc']).toMatchObject({ used: 5, nan: 1 });
    for (const name of ['best@2/mean', 'worst@2/std', 'maj@2/mean', 'pass@2', 'pass^2']) {
      expect(metrics[`val-aux/s/acc/${name}`], name).toBe(NaN);
    }
    expect(metrics['val-aux/s/acc/mean@2']).toBe(NaN);
    expect(metrics['val-core/s/acc/mean@3']).toBe(2 / 3);
    expect(metrics['val-core/s/acc/maj@3/mean']).not.toBe(NaN);
  });
});

describe('infinities', () => {
  test('show where they have a chance, and only there', () => {
    const infos = { reward: [1, 2, Infinity], pred: ['a', 'a', 'b'] };
    const { metrics } = reportOf(['p', 'p', 'p'], infos, { replacement: false });
    expect(metrics['val-core/s/reward/mean@3']).toBe(Infinity);
    expect(metrics['val-aux/s/reward/std@3']).toBe(NaN);
    expect(metrics['val-aux/s/reward/best@2/mean']).toBe(Infinity);
    expect(metrics['val-aux/s/reward/worst@2/mean']).toBeCloseToReference(4 / 3, { rel: 1e-15 });
    expect(metrics['val-aux/s/reward/worst@3/mean']).toBe(1);
    expect(metrics['val-aux/s/reward/worst@3/std']).toBe(0);
    // All three drawn, `a` has won.
    expect(metrics['val-core/s/reward/maj@3/mean']).toBe(1.5);
    expect(metrics['val-core/s/reward/maj@3/std']).toBe(0.5);
  });
});

describe('votes', () => {
  test('for no answer count: null can win', () => {
    const infos = { acc: [0, 0, 1], pred: [null, undefined, 'right'] };
    const { metrics } = reportOf(['p', 'p', 'p'], infos, { replacement: false });
    expect(metrics['val-core/s/acc/maj@3/mean']).toBe(0);
  });

  test('1 and the text 1 are two labels', () => {
    const infos = { reward: [0, 4, 2], pred: [1, '1', 1] };
    const { metrics } = reportOf(['p', 'p', 'p'], infos, { replacement: false });
    expect(metrics['val-core/s/reward/maj@3/mean']).toBe(1);
  });

  test('are a variable like any other where they are numbers', () => {
    const { metrics } = reportOf(['p', 'p'], { reward: [0, 1], pred: [3, 5] });
    expect(metrics['val-aux/s/pred/mean@2']).toBe(4);
  });
});

describe('core metrics', () => {
  test('are those of acc, or of reward in a source without', () => {
    const { metrics } = processValidationMetrics(['s', 't', 't'], ['p', 'q', 'q'], {
      reward: [1, 2, 3],
      acc: [1, null, null],
    });
    const core = Object.keys(metrics).filter((key) => key.startsWith('val-core'));
    expect(core).toEqual([
      'val-core/s/acc/mean@1',
      'val-core/t/reward/mean@2',
      'val-core/t/reward/best@2/mean',
      'val-core/t/reward/best@2/std',
    ]);
  });

  test('are those at the most samples', () => {
    const { metrics } = reportOf(['a', 'a', ...Array<string>(20).fill('b')], {
      acc: Array.from({ length: 22 }, (_, i) => i % 2),
    });
    const core = Object.keys(metrics).filter((key) => key.startsWith('val-core'));
    expect(core).toEqual([
      'val-core/s/acc/mean@20',
      'val-core/s/acc/best@20/mean',
      'val-core/s/acc/best@20/std',
    ]);
  });

  test('typed arrays, booleans and big integers are numbers', () => {
    const { metrics } = processValidationMetrics(['s', 's'], ['p', 'p'], {
      reward: Float32Array.of(0.5, 1.5),
      flag: [true, false],
      tokens: [3n, 5n],
    });
    expect(metrics['val-core/s/reward/mean@2']).toBe(1);
    expect(metrics['val-aux/s/flag/mean@2']).toBe(0.5);
    expect(metrics['val-aux/s/tokens/mean@2']).toBe(4);
  });
});

describe('the bootstrap', () => {
  const random = seeded(5);
  const uids = Array.from({ length: 64 }, (_, i) => `p${i >> 4}`);
  const infos = {
    reward: uids.map(() => random()),
    pred: uids.map(() => 'abcd'[Math.floor(random() ** 2 * 4)]!),
  };

  test.each([true, false])(
    'agrees with the exact numbers within its error, with replacement: %s',
    (replacement) => {
      const exact = reportOf(uids, infos, { replacement }).metrics;
      const drawn = reportOf(uids, infos, { replacement, estimator: 'bootstrap' }).metrics;
      expect(Object.keys(drawn)).toEqual(Object.keys(exact));
      for (const [key, value] of Object.entries(exact)) {
        if (!key.endsWith('/mean')) continue;
        // Four prompts of 1000 draws each, their errors independent; values within [0, 1] have deviations below 1/2.
        const std = exact[key.replace(/mean$/, 'std')]!;
        const abs = (5 * Math.max(std, 0.01)) / Math.sqrt(4000);
        expect(drawn[key], key).toBeCloseToReference(value, { abs });
      }
    },
  );

  test('gives the same numbers for the same seed, others for another', () => {
    const drawn = (seed?: number) =>
      reportOf(uids, infos, { estimator: 'bootstrap', seed, nBootstrap: 50 }).metrics;
    expect(drawn(1)).toEqual(drawn(1));
    expect(drawn()).toEqual(drawn(42));
    expect(drawn(1)).not.toEqual(drawn(2));
  });

  test('uses no generator but its own, and nothing is drawn for exact numbers', () => {
    const global = vi.spyOn(Math, 'random');
    reportOf(uids, infos, { estimator: 'bootstrap', nBootstrap: 10 });
    reportOf(uids, infos);
    expect(global).not.toHaveBeenCalled();
    global.mockRestore();
  });
});

test('uids are texts or numbers, in an array of any kind; 1 and its text are two prompts', () => {
  const sources = ['s', 's', 's'];
  const infos = { acc: [1, 0, 1] };
  const meansOf = (uids: ArrayLike<string | number>) => {
    const { prompts } = processValidationMetrics(sources, uids, infos);
    return Object.fromEntries(Object.entries(prompts).filter(([key]) => /mean@\d$/.test(key)));
  };
  expect(meansOf([7, 7, 8])).toEqual(meansOf(['a', 'a', 'b']));
  expect(meansOf(Int32Array.of(7, 7, 8))).toEqual(meansOf(['a', 'a', 'b']));
  expect(meansOf([1, '1', 1])).toEqual(meansOf(['a', 'b', 'a']));
});

describe('refusals', () => {
  const call = (...args: unknown[]): (() => unknown) => {
    return () => (processValidationMetrics as (...given: unknown[]) => unknown)(...args);
  };

  test.each([
    ['uids of another length', [['s'], ['p', 'q'], {}], ShapeError, 'sampleUids'],
    ['a column of another length', [['s'], ['p'], { acc: [1, 2] }], ShapeError, 'infos.acc'],
    ['a source that is no text', [['s', 3], ['p', 'p'], {}], ValueError, 'dataSources[1]'],
    ['a uid that is not there', [['s'], [undefined], {}], MissingInputError, 'sampleUids[0]'],
    ['a uid that is NaN', [['s'], [NaN], {}], ValueError, 'sampleUids[0]'],
    ['uids that are no list', [['s'], 'p', {}], ValueError, 'sampleUids'],
    ['an invalid column', [['s'], ['p'], { acc: 1 }], ValueError, 'infos.acc'],
    ['a vote for an object', [['s'], ['p'], { acc: [1], pred: [{}] }], ValueError, 'infos.pred[0]'],
    ['an unknown estimator', [['s'], ['p'], {}, { estimator: 'jackknife' }], ValueError, 'options.estimator'],
    [
      'a replacement that is no answer',
      [['s'], ['p'], {}, { replacement: 1 }],
      ValueError,
      'options.replacement',
    ],
    ['an invalid seed', [['s'], ['p'], {}, { seed: -1 }], ValueError, 'options.seed'],
    ['no draws', [['s'], ['p'], {}, { nBootstrap: 0 }], ValueError, 'options.nBootstrap'],
  ] as const)('%s', (_, args, Refusal, input) => {
    expect(call(...args)).toThrow(Refusal);
    expect(call(...args)).toThrow(TensortallyError);
    expect(call(...args)).toThrow(input);
  });

  test('nothing to validate is no error', () => {
    const empty = { metrics: {}, standardErrors: {}, prompts: {}, drawn: {}, samples: {} };
    expect(processValidationMetrics([], [], { acc: [] })).toEqual(empty);
  });
});

describe("Gauss' rule", () => {
  test('integrates powers up to twice its nodes less one, with positive weights inside the interval', () => {
    for (const size of [1, 2, 3, 5, 8, 16, 33, 64]) {
      const { nodes, weights } = gaussLegendre(size);
      for (const x of nodes) expect(0 < x && x < 1, `node ${x} of ${size}`).toBe(true);
      for (const w of weights) expect(w).toBeGreaterThan(0);
      for (let power = 0; power < 2 * size; power++) {
        const integral = nodes.reduce((sum, x, q) => sum + weights[q]! * x ** power, 0);
        expect(integral, `x^${power} with ${size}`).toBeCloseToReference(1 / (power + 1), { abs: 1e-14 });
      }
    }
  });
});
