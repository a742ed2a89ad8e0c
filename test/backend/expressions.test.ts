/** Channels of a pass on every backend: each expression is what its float64 meaning says. */
import * as tf from '@tensorflow/tfjs-core';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import * as e from '../../src/kernels/expression.js';
import { Moments, channelMoments, channelTables } from '../../src/kernels/index.js';
import { referenceMoments } from '../../src/kernels/moments/reference.js';
import { hasDevice, testBackend } from '../support/backend.js';
import { meanBound, m2Bound } from '../support/contract.js';
import { expressions } from '../support/expressions.js';
import { expectNoLeaks } from '../support/leaks.js';
import { normal, seeded } from '../support/random.js';
import { roundedValue } from '../support/rounding.js';
import { deviceTensor } from '../support/tensors.js';
import { runsOf } from '../support/long.js';

const backend = await testBackend();

/**
 * Relative error of one operation. Float32 rounds by 2⁻²⁴; WGSL allows a division 2.5 of that, and our own exp and log
 * take as much. TensorFlow on a GPU computes in float64 except for what is rounded once; the host loops do all in
 * float64.
 */
const UNIT = backend === 'webgpu' ? 2 ** -21.5 : hasDevice() ? 2 ** -24 : 1e-12;
const isFloat32 = backend === 'webgpu';

/** Values at which functions turn, saturate, or stop being defined. */
const SPECIAL = [
  ...[
    NaN,
    Infinity,
    -Infinity,
    0,
    -0,
    1,
    -1,
    0.5,
    -0.5,
    2,
    -3.75,
    1e-4,
    -1e-4,
    1e-10,
    3e-20,
    0.1,
    10,
    20,
    -20,
  ],
  ...[87, -87, 1e10, -1e10, 16777217, 0.6931472, 1.5, -0.9999999],
].map(Math.fround);

/** One row per element, so that every value can be looked at. */
async function valuesOf(
  expression: e.Expression,
  inputs: Readonly<Record<string, readonly number[]>>,
): Promise<Moments[]> {
  const tensors = Object.fromEntries(
    Object.entries(inputs).map(([name, values]) => [
      name,
      deviceTensor({ shape: [values.length, 1], values }),
    ]),
  );
  const { x } = await channelMoments({ x: expression }, tensors, undefined, { axis: -1 });
  tf.dispose(tensors);
  return [...x];
}

/** What the device made of an element: the number itself, NaN, or an infinity. */
function elementOf(row: Moments): number {
  if (row.nan > 0) return NaN;
  if (row.posInf > 0) return Infinity;
  return row.negInf > 0 ? -Infinity : row.sum;
}

async function expectMeaning(
  expression: e.Expression,
  inputs: Readonly<Record<string, readonly number[]>>,
): Promise<void> {
  const rows = await valuesOf(expression, inputs);
  rows.forEach((row, i) => {
    const read = (name: string): number => inputs[name]![i]!;
    const { value, error } = roundedValue(expression, read, UNIT);
    if (error === Infinity) return;
    const got = elementOf(row);
    const at = Object.entries(inputs).map(([name, values]) => `${name} = ${values[i]!}`);
    if (!Number.isFinite(value) || !Number.isFinite(got)) expect(got, at.join(', ')).toBe(value);
    else expect(Math.abs(got - value), `${at.join(', ')}: ${got} for ${value}`).toBeLessThanOrEqual(error);
  });
}

const UNARY = {
  negate: e.negate,
  abs: e.abs,
  exp: e.exp,
  expm1: e.expm1,
  log: e.log,
  log1p: e.log1p,
} as const;
const ROOTS = { square: e.square, sqrt: e.sqrt } as const;

describe('every operation at special values', () => {
  test.each(Object.entries({ ...UNARY, ...ROOTS }))('%s', async (_name, of) => {
    await expectMeaning(of('a'), { a: SPECIAL });
  });

  const pairs = SPECIAL.flatMap((a) => SPECIAL.map((b) => [a, b] as const));
  const ab = { a: pairs.map(([a]) => a), b: pairs.map(([, b]) => b) };
  const BINARY = { add: e.add, subtract: e.subtract, multiply: e.multiply, divide: e.divide } as const;
  const ORDER = { min: e.min, max: e.max, less: e.less, lessEqual: e.lessEqual } as const;
  const REST = { greater: e.greater, greaterEqual: e.greaterEqual, equal: e.equal, notEqual: e.notEqual };
  test.each(Object.entries({ ...BINARY, ...ORDER, ...REST }))('%s', async (_name, of) => {
    await expectMeaning(of('a', 'b'), ab);
  });

  test('select: a NaN is a yes, and the other branch never matters', async () => {
    await expectMeaning(e.select('a', 'b', 7), ab);
    await expectMeaning(e.select('a', -7, 'b'), ab);
    await expectMeaning(e.select(e.greater('a', 0), e.log('a'), 'b'), ab);
  });

  test('select by a comparison that is also a branch', async () => {
    const isSmall = e.less('a', 'b');
    await expectMeaning(e.select(isSmall, isSmall, 'b'), ab);
    await expectMeaning(e.select(isSmall, 'a', isSmall), ab);
    await expectMeaning(e.select('a', 'a', 'a'), ab);
  });

  test('clamp', async () => {
    await expectMeaning(e.clamp('a', -20, 'b'), ab);
  });
});

describe('the sign of a zero, as a division tells it', () => {
  const zeros = [0, -0];
  const pairs = [...zeros, 1, -1, 1e-3].flatMap((a) => zeros.map((b) => [a, b] as const));
  const ab = {
    a: [...pairs, ...pairs].map(([a, b], i) => (i < pairs.length ? a : b)),
    b: [...pairs, ...pairs].map(([a, b], i) => (i < pairs.length ? b : a)),
  };
  const UNARIES = { ...UNARY, ...ROOTS };
  const BINARIES = {
    ...{ add: e.add, subtract: e.subtract, multiply: e.multiply, divide: e.divide, min: e.min, max: e.max },
    ...{ less: e.less, lessEqual: e.lessEqual, greater: e.greater, greaterEqual: e.greaterEqual },
    ...{ equal: e.equal, notEqual: e.notEqual },
  };
  /** 1 / expression is what `evaluate` says, infinities by their sign; many expressions in one pass. */
  async function expectSigns(expressions: Readonly<Record<string, e.Expression>>): Promise<void> {
    const tensors = {
      a: deviceTensor({ shape: [ab.a.length, 1], values: ab.a }),
      b: deviceTensor({ shape: [ab.b.length, 1], values: ab.b }),
    };
    const inverses = Object.fromEntries(
      Object.entries(expressions).map(([name, of]) => [name, e.divide(1, of)]),
    );
    const rows = await channelMoments(inverses, tensors, undefined, { axis: -1 });
    tf.dispose(tensors);
    for (const [name, inverse] of Object.entries(inverses)) {
      [...rows[name]!].forEach((row, i) => {
        const value = e.evaluate(inverse, (operand) => (operand === 'a' ? ab.a : ab.b)[i]!);
        if (Number.isFinite(value)) return;
        const zero = (x: number): string => (Object.is(x, -0) ? '−0' : String(x));
        expect(elementOf(row), `1 / ${name} of ${zero(ab.a[i]!)}, ${zero(ab.b[i]!)}`).toBe(value);
      });
    }
  }

  test('of every function', async () => {
    await expectSigns(Object.fromEntries(Object.entries(UNARIES).map(([name, of]) => [name, of('a')])));
  });

  test.each(Object.entries(BINARIES))(
    'of %s, also with a constant zero on either side',
    async (_name, of) => {
      await expectSigns({
        both: of('a', 'b'),
        ...{ right: of('a', 0), left: of(0, 'a'), negativeRight: of('a', -0), negativeLeft: of(-0, 'a') },
      });
    },
  );

  test('of forms that are rewritten, of choices and of constants', async () => {
    await expectSigns({
      ...{ expMinusOne: e.subtract(e.exp('a'), 1), minusOnePlusExp: e.add(-1, e.exp('a')) },
      ...{ residual: e.subtract(e.expm1('a'), 'a'), other: e.subtract(e.subtract(e.exp('a'), 1), 'a') },
      ...{ third: e.subtract(e.subtract(e.exp('a'), 'a'), 1), log: e.log(e.add(1, 'a')) },
      ...{ chosen: e.select('b', 'b', 'a'), clamped: e.clamp('a', -0, 0), square: e.multiply('a', 'a') },
    });
    await expectSigns({
      ...{ folded: e.add(-0, 0), difference: e.subtract(-0, 0) },
      ...{ zero: e.constant(0), negative: e.constant(-0), input: e.input('a') },
    });
  });

  test('constants that differ in it alone are two', async () => {
    await expectSigns({ product: e.multiply(e.abs('b'), e.add('a', 0)) });
    await expectSigns({ product: e.multiply(e.abs('b'), e.add('a', -0)) });
    await expectSigns({ sum: e.add(e.max('a', 0), 0), difference: e.min(e.min('a', -0), 0) });
  });
});

test('functions over their whole range', async () => {
  const random = seeded(5);
  const a = Array.from({ length: 500 }, () => Math.fround((random() - 0.5) * 2 * 10 ** (random() * 12 - 10)));
  for (const of of Object.values(UNARY)) await expectMeaning(of('a'), { a });
  await expectMeaning(e.sqrt(e.abs('a')), { a });
});

describe('what cancels near zero does not', () => {
  const x = [1e-4, -1e-4, 3e-3, -3e-3, 0.02, 1e-5, 0.3, -0.3, 1, 5, -5].map(Math.fround);
  const residual = (v: number): number => {
    // Beyond a few hundredths the plain difference has all its digits.
    if (Math.abs(v) > 0.05) return Math.expm1(v) - v;
    let [term, sum] = [v, 0];
    for (let n = 2; n < 20; n++) sum += term *= v / n;
    return sum;
  };
  test.each(
    Object.entries({
      'expm1(x) − x': e.subtract(e.expm1('x'), 'x'),
      'exp(x) − x − 1': e.subtract(e.subtract(e.exp('x'), 'x'), 1),
      'exp(x) − 1 − x': e.subtract(e.subtract(e.exp('x'), 1), 'x'),
    }),
  )('%s', async (_name, expression) => {
    const rows = await valuesOf(expression, { x });
    rows.forEach((row, i) => {
      const want = residual(x[i]!);
      expect(Math.abs(row.sum - want) / want, `x = ${x[i]!}`).toBeLessThan(2e-6);
    });
  });

  test('log(1 + x)', async () => {
    const rows = await valuesOf(e.log(e.add(1, 'x')), { x: [1e-6, -1e-6, 1e-3] });
    for (const [i, v] of [1e-6, -1e-6, 1e-3].entries()) {
      expect(Math.abs(rows[i]!.sum / Math.log1p(Math.fround(v)) - 1)).toBeLessThan(2e-6);
    }
  });
});

type Shape = readonly [rows: number, cols: number];

/** A pass over random expressions against the float64 moments of the elements whose value is certain. */
async function expectPass(
  channels: Readonly<Record<string, e.Expression>>,
  seed: number,
  [rows, cols]: Shape = [5, 9],
): Promise<void> {
  const random = seeded(seed);
  const full = (make: () => number): number[] => Array.from({ length: rows * cols }, make);
  const numbers: Record<string, number[]> = {
    a: full(() => normal(random, 0, 2)),
    b: full(() => normal(random, 1, 0.5)),
    n: full(() => Math.floor(random() * 7) - 3),
    r: Array.from({ length: rows }, () => normal(random, 0, 1)),
  };
  const read =
    (i: number) =>
    (name: string): number =>
      name === 'r' ? numbers.r![Math.floor(i / cols)]! : numbers[name]![i]!;
  const chosen = full(() => (random() < 0.7 ? 1 : 0));
  const computed = Object.entries(channels).map(([name, expression]) => {
    const results = chosen.map((_, i) => roundedValue(expression, read(i), UNIT));
    // What is not certain is masked out; what it holds may not matter anyway.
    const mask = chosen.map((one, i) => (results[i]!.error < Infinity ? one : 0));
    return { name, expression, results, mask };
  });
  const tensors = {
    a: deviceTensor({ shape: [rows, cols], values: numbers.a! }),
    b: deviceTensor({ shape: [rows, cols], values: numbers.b! }),
    n: deviceTensor({ shape: [rows, cols], dtype: 'int32', values: numbers.n! }),
    r: deviceTensor({ shape: seed % 2 === 0 ? [rows] : [rows, 1], values: numbers.r! }),
  };
  const masks = Object.fromEntries(
    computed.map(({ name, mask }) => [
      name,
      deviceTensor({ shape: [rows, cols], dtype: 'bool', values: mask }),
    ]),
  );
  const pending = channelMoments(
    Object.fromEntries(computed.map(({ name, expression }) => [name, { of: expression, mask: name }])),
    tensors,
    masks,
    { nonFinite: 'ignore' },
  );
  tf.dispose([tensors, masks]);
  const got = await pending;
  for (const { name, results, mask } of computed) {
    const want = new Moments(
      referenceMoments(
        results.map(({ value }) => value),
        mask,
        1,
        rows * cols,
      ).total(),
      'ignore',
    );
    const moments = got[name]!;
    const where = JSON.stringify(channels[name]);
    for (const field of ['count', 'nan', 'posInf', 'negInf'] as const) {
      expect(moments[field], `${field} of ${where}`).toBe(want[field]);
    }
    if (want.count === 0) continue;
    const certain = results.filter(({ value }, i) => mask[i] !== 0 && Number.isFinite(value));
    const worst = Math.max(...certain.map(({ error }) => error));
    const average = certain.reduce((sum, { error }) => sum + error, 0) / certain.length;
    const spread = Math.max(...certain.map(({ value }) => Math.abs(value - want.mean)));
    const close = (field: 'mean' | 'min' | 'max' | 'm2', bound: number): void => {
      expect(Math.abs(moments[field] - want[field]), `${field} of ${where}`).toBeLessThanOrEqual(bound);
    };
    close('mean', average + meanBound(want));
    close('min', worst);
    close('max', worst);
    close('m2', m2Bound(want) + want.count * 2 * (average + worst) * (spread + worst));
  }
}

test('random expressions, each under a mask of its own, agree with their float64 value', async () => {
  const any = expressions(['a', 'b', 'n', 'r'], 3);
  const channels = fc.tuple(any, any, any);
  // One element, one column, rows that share a tile, rows that vectors fit, and rows beyond a tile, a chunk and a block.
  const shape = fc.oneof(
    { weight: 4, arbitrary: fc.constantFrom<Shape[]>([5, 9], [1, 1], [40, 1], [300, 3], [7, 64], [3, 513]) },
    { weight: 1, arbitrary: fc.constantFrom<Shape[]>([2, 4100], [1, 6147]) },
  );
  await fc.assert(
    fc.asyncProperty(channels, fc.nat(1000), shape, async ([x, y, z], seed, size) => {
      await expectNoLeaks(() => expectPass({ x, y, z }, seed, size));
    }),
    // A shader per pass takes a software device its time.
    { numRuns: runsOf(isFloat32 ? 15 : 80), seed: 7 },
  );
});

test('expressions over the same buffers do not share a shader or graph by mistake', async () => {
  const PASSES: readonly Readonly<Record<string, e.Expression>>[] = [
    { x: e.input('a'), y: e.input('b'), z: e.input('n') },
    { x: e.subtract('a', 'b'), y: e.subtract('b', 'a'), z: e.input('n') },
    { x: e.input('n'), y: e.subtract(e.subtract('a', 'b'), 'r'), z: e.constant(1) },
    { x: e.subtract(2, 'a'), y: e.subtract('b', 0.5), z: e.input('r') },
  ];
  for (const channels of PASSES) await expectPass(channels, 3);
});

test('the same expression twice is counted once for each', async () => {
  const a = deviceTensor({ shape: [1, 3], values: [1, 2, 4] });
  const same = e.input('a');
  const { x, y } = await channelMoments({ x: same, y: same }, { a });
  expect([x, y].map(({ count, sum }) => [count, sum])).toEqual([
    [3, 7],
    [3, 7],
  ]);
  a.dispose();
});

describe('shapes', () => {
  const a = [1, 2, 3, 4, 5, 6];
  test.each([[[2]], [[2, 1]]])('an input of shape %j goes to every column', async (shape) => {
    const tensors = {
      a: deviceTensor({ shape: [2, 3], values: a }),
      r: deviceTensor({ shape, values: [10, 20] }),
    };
    const { sum, row, alone } = await channelMoments(
      { sum: e.add('a', 'r'), row: 'r', alone: 'a' },
      tensors,
      undefined,
      { axis: -1 },
    );
    expect(Array.from(sum.mean)).toEqual([12, 25]);
    expect(Array.from(row.sum)).toEqual([30, 60]);
    expect(Array.from(alone.sum)).toEqual([6, 15]);
    const whole = await channelMoments({ sum: e.add('a', 'r') }, tensors);
    expect(whole.sum).toMatchObject({ count: 6, sum: 111, min: 11, max: 26 });
    tf.dispose(tensors);
  });

  test('a mask with one value per row selects rows', async () => {
    const tensors = { a: deviceTensor({ shape: [2, 3], values: a }) };
    const mask = deviceTensor({ shape: [2, 1], dtype: 'int32', values: [0, 1] });
    const tables = await channelTables({ a: 'a', n: e.constant(1) }, tensors, mask);
    expect(tables.a.row(0)).toMatchObject({ count: 3, sum: 15, min: 4, max: 6 });
    expect(tables.n.row(0)).toMatchObject({ count: 3, sum: 3 });
    tf.dispose([tensors, mask]);
  });

  test('masks of several ranks, an empty tensor, a constant alone', async () => {
    const cube = deviceTensor({ shape: [2, 2, 2], values: [1, 2, 3, 4, 5, 6, 7, 8] });
    const perRow = deviceTensor({ shape: [2, 2], values: [0, 1, 2, 3] });
    const { x } = await channelMoments({ x: e.multiply('cube', 'perRow') }, { cube, perRow });
    expect(x).toMatchObject({ count: 8, sum: 7 + 22 + 45, max: 24 });
    const empty = deviceTensor({ shape: [0, 4], values: [] });
    const { n } = await channelMoments({ n: e.exp('empty') }, { empty });
    expect(n).toMatchObject({ count: 0, sum: 0, mean: NaN });
    const { one } = await channelMoments({ one: 2 }, {}, cube);
    expect(one).toMatchObject({ count: 8, sum: 16, m2: 0, min: 2, max: 2 });
    tf.dispose([cube, perRow, empty]);
  });
});
