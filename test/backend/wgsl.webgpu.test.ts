/**
 * Every operation in WGSL at single elements: within two units in the last place of float32, and NaN, infinities and
 * zeros where float64 has them.
 *
 * Each element is a row of its own, so that what comes back is the element and not a mean of many.
 */
import * as tf from '@tensorflow/tfjs-core';
import { expect, test } from 'vitest';

import * as expression from '../../src/kernels/expression.js';
import {
  type Expression,
  binaryOps,
  evaluate,
  select,
  subtract,
  unaryOps,
} from '../../src/kernels/expression.js';
import { channelTables } from '../../src/kernels/moments/channels.js';
import type { MomentsRow } from '../../src/rows/row.js';
import { testBackend } from '../support/backend.js';
import { seeded } from '../support/random.js';
import { deviceTensor } from '../support/tensors.js';

await testBackend();

const MAX_ULP = 2;
const LARGEST = 3.4028234663852886e38;
const LEAST_NORMAL = 2 ** -126;

const random = seeded(17);
/** Where functions change their ways: specials, the ends of ranges, the seams of approximations. */
const corners = [
  ...[0, -0, 1, -1, 0.5, 2, NaN, Infinity, -Infinity, LARGEST, -LARGEST, LEAST_NORMAL, -LEAST_NORMAL],
  ...[88.7, 88.7228, 88.73, 89, -87, -103, -120, 1e-4, -1e-4, 1e-8, 0.41421, 0.41422, -0.29289, -0.2927],
  ...[-0.99999994, -1.0000001, 1.0000001, 1e10, 1e30, 1e-30, 16777216, 0.34657, -0.34658],
];
const magnitude = (): number => (random() < 0.5 ? -1 : 1) * 2 ** (random() * 240 - 120);
const singles = Float32Array.from([
  ...corners,
  ...Array.from({ length: 300 }, () => (random() - 0.5) * 8),
  ...Array.from({ length: 300 }, () => (random() - 0.5) * 180),
  ...Array.from({ length: 300 }, magnitude),
]);
const pairs = corners.flatMap((a) => corners.map((b) => [a, b] as const));
for (let i = 0; i < 300; i++)
  pairs.push([(random() - 0.5) * 8, (random() - 0.5) * 8], [magnitude(), magnitude()]);
const lefts = Float32Array.from(pairs, ([a]) => a);
const rights = Float32Array.from(pairs, ([, b]) => b);

function elementOf({ nan, posInf, negInf, sum }: MomentsRow): number {
  return nan > 0 ? NaN : posInf > 0 ? Infinity : negInf > 0 ? -Infinity : sum;
}

/** The float64 value as float32 has it: no numbers beyond the largest, nor up to the least normal. */
function inRange(x: number): number {
  const nearest = Math.fround(x);
  return Math.abs(nearest) <= LEAST_NORMAL ? 0 : Number.isFinite(nearest) ? x : nearest;
}

async function expectWithin(
  channels: Readonly<Record<string, Expression>>,
  inputs: Readonly<Record<string, Float32Array>>,
  ulps: number,
): Promise<void> {
  const { length } = Object.values(inputs)[0]!;
  const tensors = Object.fromEntries(
    Object.entries(inputs).map(([name, values]) => [name, deviceTensor({ shape: [length, 1], values })]),
  );
  const tables = await channelTables(channels, tensors, undefined, { axis: -1 });
  tf.dispose(tensors);
  const wrong: string[] = [];
  for (const [name, channel] of Object.entries(channels)) {
    for (let i = 0; i < length; i++) {
      const want = inRange(evaluate(channel, (which) => inputs[which]![i]!));
      const got = inRange(elementOf(tables[name]!.row(i)));
      const unit = 2 ** Math.max(Math.floor(Math.log2(Math.abs(want))) - 23, -149);
      if (Object.is(got, want) || Math.abs(got - want) <= ulps * unit || got === want) continue;
      const at = Object.values(inputs).map((values) => values[i]!);
      wrong.push(`${name}(${at.join(', ')}) is ${got}, not ${want}`);
    }
  }
  expect(wrong).toEqual([]);
}

test('functions of one operand', async () => {
  const names = Object.keys(unaryOps) as (keyof typeof unaryOps)[];
  await expectWithin(
    Object.fromEntries(names.map((op) => [op, expression[op]('a')])),
    { a: singles },
    MAX_ULP,
  );
});

test('functions of two operands', async () => {
  const names = Object.keys(binaryOps) as (keyof typeof binaryOps)[];
  const channels = Object.fromEntries(names.map((op) => [op, expression[op]('a', 'b')]));
  await expectWithin(channels, { a: lefts, b: rights }, MAX_ULP);
});

test('what a compiler might cancel although it may be NaN', async () => {
  const { add, divide, multiply } = expression;
  const same = {
    difference: subtract('a', 'a'),
    ratio: divide('a', 'a'),
    nothing: multiply('a', 0),
    back: subtract(add('a', 1), 'a'),
  };
  // The last one cancels in float32; it is here for its NaN, and compared where float32 is exact.
  await expectWithin(same, { a: Float32Array.from([0, 1, -2, 1024, NaN, Infinity, -Infinity]) }, 0);
});

test('a choice never minds what it did not choose', async () => {
  const channels = {
    log: select(expression.greater('a', 0), expression.log('a'), 'b'),
    condition: select('a', 'b', 1),
  };
  await expectWithin(channels, { a: lefts, b: rights }, MAX_ULP);
});

test('expm1(x) − x keeps its digits near 0, where float64 itself has to sum the series', async () => {
  const xs = Float32Array.from([1e-2, -1e-2, 1e-3, -1e-3, 1e-4, -1e-4, 1e-6]);
  const x = deviceTensor({ shape: [xs.length, 1], values: xs });
  const { r } = await channelTables({ r: subtract(expression.expm1('x'), 'x') }, { x }, undefined, {
    axis: -1,
  });
  x.dispose();
  const series = (z: number): number => ((z * z) / 2) * (1 + (z / 3) * (1 + (z / 4) * (1 + z / 5)));
  Array.from(r, elementOf).forEach((got, i) => {
    expect(Math.abs(got / series(xs[i]!) - 1)).toBeLessThan(3e-7);
  });
});

test('and is right far from 0', async () => {
  const xs = singles.filter((x) => !(Math.abs(x) < 0.1));
  // Beyond the seam at |x| = 1 the difference loses up to 1.4 bits.
  await expectWithin({ r: subtract(expression.expm1('a'), 'a') }, { a: xs }, 4);
});
