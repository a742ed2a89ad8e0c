/** How the options of a rollout correction are read, and what is refused. */
import { describe, expect, test } from 'vitest';

import { CaughtWarnings } from '../tracker/warnings.js';
import { ValueError } from '../../../src/errors.js';
import { correctionSettings } from '../../../src/metrics/rollout-correction/options.js';

const settings = (options: object) => correctionSettings('test', options);

describe('thresholds of weights', () => {
  test.each([
    [undefined, undefined, 2],
    [1.5, undefined, 1.5],
    ['2.0', undefined, 2],
    [' 2e0 ', undefined, 2],
    ['0.5_5.0', 0.5, 5],
    ['5e-1 _ 5', 0.5, 5],
    ['2_2', 2, 2],
    [[0.5, 5], 0.5, 5],
    [[1e-7, 5e21], 1e-7, 5e21],
  ])('%j', (rolloutIsThreshold, lower, upper) => {
    const { weighting } = settings({ rolloutIs: 'token', rolloutIsThreshold });
    expect(weighting).toEqual({ level: 'token', lower, upper, batchNormalize: false });
  });

  test.each([
    ...[
      0,
      -1,
      NaN,
      Infinity,
      true,
      null,
      ['2'],
      [2],
      [2, 1],
      [1, 2, 3],
      [0, 1],
      [1, Infinity],
      ['1', '2'],
      {},
      '',
      ' ',
      '_',
      '2_',
      '_2',
      '2_1',
      '0_1',
      '-1_1',
    ],
    ...['a_b', '1_2_3', 'inf', 'nan', '0x10', '1,2'],
  ])('%j is refused', (rolloutIsThreshold) => {
    const reading = () => settings({ rolloutIs: 'token', rolloutIsThreshold });
    expect(reading).toThrow(ValueError);
    expect(reading).toThrow(/rolloutIsThreshold.*lower_upper/);
  });
});

test('no weights unless a level is asked for', () => {
  expect(settings({}).weighting).toBeUndefined();
  // verl's configuration has the default whether there are weights or not.
  expect(settings({ rolloutIsThreshold: 2, batchNormalize: false }).weighting).toBeUndefined();
  expect(settings({ rolloutIsThreshold: '2.0' }).weighting).toBeUndefined();
});

test.each(['segment', '', 'Token'])('the level %j is refused', (rolloutIs) => {
  expect(() => settings({ rolloutIs })).toThrow(/rolloutIs.*token, sequence/);
});

describe('criteria of rejection', () => {
  const read = (rolloutRs: string, rolloutRsThreshold: unknown) =>
    settings({ rolloutRs, rolloutRsThreshold }).rejections.map(({ name, lower, upper }) => [
      name,
      lower,
      upper,
    ]);

  test('bounds of k1 are logarithms of a ratio, one alone and its inverse', () => {
    expect(read('token_k1', '0.5_2')).toEqual([['token_k1', Math.log(0.5), Math.log(2)]]);
    expect(read('seq_sum_k1', 4)).toEqual([['seq_sum_k1', Math.log(0.25), Math.log(4)]]);
    expect(read('seq_mean_k1', '1')).toEqual([['seq_mean_k1', 0, 0]]);
  });

  test('a pair is the range of that text, for all criteria', () => {
    for (const name of ['token_k1', 'seq_sum_k1', 'token_k1,seq_mean_k1']) {
      expect(read(name, [0.5, 2])).toEqual(read(name, '0.5_2'));
    }
    expect(() => read('token_k2', [0.5, 2])).toThrow(/for token_k2 one positive number/);
    expect(() => read('token_k1', [2, 0.5])).toThrow(/lower ≤ upper/);
  });

  test('one threshold for each, in order', () => {
    expect(read(' token_k2 , seq_max_k3,', '0.1, 3.0')).toEqual([
      ['token_k2', -Infinity, 0.1],
      ['seq_max_k3', -Infinity, 3],
    ]);
  });

  test('one threshold for all', () => {
    expect(read('token_k1,token_k3', 2)).toEqual([
      ['token_k1', Math.log(0.5), Math.log(2)],
      ['token_k3', -Infinity, 2],
    ]);
  });

  test('a name twice is one criterion', () => {
    expect(read('token_k2,token_k2', '0.1')).toHaveLength(1);
  });

  test('aggregate and estimator are those of the name', () => {
    const { rejections } = settings({ rolloutRs: 'seq_mean_k3,token_k2', rolloutRsThreshold: '1' });
    expect(rejections).toMatchObject([
      { aggregate: 'seq_mean', estimator: 'k3' },
      { aggregate: 'token', estimator: 'k2' },
    ]);
  });

  test.each(['', ',', 'token_k4', 'seq_max_k1', 'token_k1;token_k2'])(
    'the name %j is refused',
    (rolloutRs) => {
      expect(() => settings({ rolloutRs, rolloutRsThreshold: '1' })).toThrow(/rolloutRs: .*seq_sum_k1/);
    },
  );

  test.each([
    ['token_k1', undefined],
    ['token_k1', null],
    ['token_k1', ''],
    ['token_k1', true],
    ['token_k1', 'a_b'],
    ['token_k1', '2_0.5'],
    ['token_k1', '0.5'],
    ['token_k1', '0_2'],
    ['token_k2', '0.1_2'],
    ['token_k2', '-1'],
    ['token_k2', '0'],
    ['token_k2', NaN],
    ['token_k2,token_k3', '1,2,3'],
    ['token_k2,token_k3', '1,x'],
  ])('of %s the threshold %j is refused', (rolloutRs, rolloutRsThreshold) => {
    const reading = () => settings({ rolloutRs, rolloutRsThreshold });
    expect(reading).toThrow(ValueError);
    expect(reading).toThrow(/options\.rolloutRsThreshold.*token_k/);
  });
});

test('nothing is rejected unless a criterion is named', () => {
  expect(settings({}).rejections).toEqual([]);
});

test('an option that does nothing without another one is warned of once', () => {
  const warnings = new CaughtWarnings();
  for (let i = 0; i < 2; i++) {
    expect(settings({ rolloutIsThreshold: 3 }).weighting).toBeUndefined();
    expect(settings({ rolloutIsThreshold: '0.5_2', batchNormalize: true }).weighting).toBeUndefined();
    expect(settings({ rolloutRsThreshold: '1,2,3' }).rejections).toEqual([]);
  }
  warnings.stop();
  expect(warnings.of('TENSORTALLY_UNUSED_OPTION')).toEqual([
    expect.stringContaining(
      "rolloutIsThreshold does nothing without rolloutIs: pass e.g. rolloutIs: 'token'",
    ),
    expect.stringContaining('batchNormalize does nothing without rolloutIs'),
    expect.stringContaining(
      "rolloutRsThreshold does nothing without rolloutRs: pass e.g. rolloutRs: 'token_k1'",
    ),
  ]);
});

test('a list of criteria is to be joined with commas', () => {
  const options = { rolloutRs: ['token_k1'], rolloutRsThreshold: 2 } as never;
  expect(() => settings(options)).toThrow(/options\.rolloutRs: .*got a plain array; join them with commas/);
});
