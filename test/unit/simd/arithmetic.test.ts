/** The operations on tiles against their meaning in the expression language, and exponentials against Math. */
import { describe, expect, test } from 'vitest';

import { type BinaryOp, type UnaryOp, binaryOps, unaryOps } from '../../../src/kernels/expression.js';
import { type Operand, computation } from '../../../src/kernels/host/moments/tiles.js';
import type { Operation } from '../../../src/kernels/program.js';
import { seeded } from '../../support/random.js';
import { TestMemory } from './memory.js';

const SPECIALS = [
  ...[0, -0, 1, -1, NaN, Infinity, -Infinity, 5e-324, -5e-324, 1e-310, 2.2250738585072014e-308],
  ...[0.5, -0.5, 2, 1e-8, -1e-8, 1e-16, 1e308, -1e308, 0.34, -0.34, 0.3465735, 0.3465736, 40, 40.1, -60, -61],
  ...[709.78, 709.79, 710, 711, -708.4, -745.13, -745.14, -746, -800, 1 + 2 ** -52, 1 - 2 ** -53, Math.SQRT2],
];

/** A buffer of a tile: room for whole vectors, and whatever was there behind the elements. */
function bufferOf(memory: TestMemory, values: readonly number[]): Operand {
  return { address: memory.put(Float64Array.from(values), 0, 32), step: 16 };
}

function cellOf(memory: TestMemory, value: number): Operand {
  return { address: memory.put(Float64Array.of(value, value)), step: 0 };
}

function compute(memory: TestMemory, op: Operation, operands: readonly Operand[], n: number): number[] {
  const out = memory.room(8 * n + 32);
  computation(memory.simd, op, operands, out)(n);
  return Array.from(memory.float64(out, n));
}

/** Equal as numbers, signs of zeros and all. */
function expectSame(actual: readonly number[], expected: readonly number[], what: string): void {
  expect(actual.length).toBe(expected.length);
  actual.forEach((a, i) => {
    if (!Object.is(a, expected[i])) expect(a, `${what}, element ${i}`).toBe(expected[i]);
  });
}

const random = seeded(3);
const ELEMENTARY = ['negate', 'abs', 'square', 'sqrt'] as const satisfies readonly UnaryOp[];

describe('operations', () => {
  test.each(ELEMENTARY)('%s', (op) => {
    for (const n of [0, 1, 2, 3, 4, 5, SPECIALS.length]) {
      const x = SPECIALS.slice(0, n);
      const memory = new TestMemory();
      expectSame(compute(memory, op, [bufferOf(memory, x)], n), x.map(unaryOps[op]), op);
    }
  });

  test.each(Object.keys(binaryOps) as BinaryOp[])('%s', (op) => {
    const pairs = SPECIALS.flatMap((a) => SPECIALS.map((b) => [a, b] as const));
    const memory = new TestMemory();
    const [a, b] = [pairs.map(([first]) => first), pairs.map(([, second]) => second)];
    const got = compute(memory, op, [bufferOf(memory, a), bufferOf(memory, b)], pairs.length);
    expectSame(
      got,
      pairs.map(([first, second]) => binaryOps[op](first, second)),
      op,
    );
  });

  test.each(Object.keys(binaryOps) as BinaryOp[])('%s with something that is the same everywhere', (op) => {
    for (const value of SPECIALS) {
      const memory = new TestMemory();
      const [x, cell] = [bufferOf(memory, SPECIALS), cellOf(memory, value)];
      const n = SPECIALS.length;
      expectSame(
        compute(memory, op, [x, cell], n),
        SPECIALS.map((a) => binaryOps[op](a, value)),
        `${op} ${value}`,
      );
      expectSame(
        compute(memory, op, [cell, x], n),
        SPECIALS.map((b) => binaryOps[op](value, b)),
        `${value} ${op}`,
      );
      expectSame(compute(memory, op, [cell, cell], 3), Array(3).fill(binaryOps[op](value, value)), 'cells');
    }
  });

  test('select takes everything but zero for a yes, and nothing from the other side', () => {
    const condition = [1, 0, -0, NaN, 5e-324, -1, Infinity];
    const memory = new TestMemory();
    const operands = [
      bufferOf(memory, condition),
      bufferOf(memory, [1, NaN, Infinity, 4, 5, 6, 7]),
      bufferOf(memory, [NaN, 2, 3, NaN, -Infinity, NaN, NaN]),
    ];
    expectSame(compute(memory, 'select', operands, 7), [1, 2, 3, 4, 5, 6, 7], 'select');
    const cells = [operands[0]!, cellOf(memory, 1), cellOf(memory, 2)];
    expectSame(compute(memory, 'select', cells, 7), [1, 2, 2, 1, 1, 1, 1], 'select of cells');
  });

  test('a result may take the place of an operand', () => {
    const memory = new TestMemory();
    const x = bufferOf(memory, SPECIALS);
    computation(memory.simd, 'add', [x, x], x.address)(SPECIALS.length);
    expectSame(
      Array.from(memory.float64(x.address, SPECIALS.length)),
      SPECIALS.map((a) => a + a),
      'x + x',
    );
  });
});

describe('inputs', () => {
  test.each([1, 2, 3, 4, 5, 7, 64, 1023])('%i elements are widened, and nothing beyond them read', (n) => {
    const makers = [
      ['widenFloat32', Float32Array.from({ length: n }, () => Math.fround(random() * 1e10))],
      ['widenInt32', Int32Array.from({ length: n }, () => Math.floor(random() * 2 ** 32) - 2 ** 31)],
      ['widenBool', Uint8Array.from({ length: n }, (_, i) => (i * 97) % 256)],
    ] as const;
    for (const [widen, values] of makers) {
      const memory = new TestMemory();
      const out = memory.room(8 * n + 32);
      memory.simd[widen](memory.putAtEnd(values), n, out);
      expectSame(Array.from(memory.float64(out, n)), Array.from(values), widen);
    }
  });

  test.each([1, 2, 3, 4, 5, 7, 64, 1023])('%i differences of float32 are those of float64', (n) => {
    const [a, b] = [0, 1].map(() => Float32Array.from({ length: n }, () => Math.fround(random() - 0.5)));
    for (const [left, right] of [
      [a!, b!],
      [b!, a!],
    ]) {
      const memory = new TestMemory();
      const out = memory.room(8 * n + 32);
      memory.simd.subtractFloat32(memory.put(left!), memory.putAtEnd(right!), n, out);
      expectSame(
        Array.from(memory.float64(out, n)),
        Array.from(left!, (x, i) => x - right![i]!),
        'difference',
      );
    }
  });
});

/** e^x − 1 − x by its series where the difference of Math.expm1 and x has no digits left. */
function expm1Residual(x: number): number {
  if (Math.abs(x) > 0.5) return Math.expm1(x) - x;
  let sum = 0;
  for (let k = 24; k >= 2; k--) sum = (sum * x) / (k + 1) + 1;
  return (sum * x * x) / 2;
}

describe('exponentials and logarithms', () => {
  const wide = (scale: number) => (): number => (random() - 0.5) * scale;
  /** Numbers of every order of magnitude between 2^low and 2^high. */
  const orders = (low: number, high: number) => (): number =>
    2 ** (low + random() * (high - low)) * (random() < 0.5 ? -1 : 1);
  /** Operation, meaning, relative error as its source states it, and ranges of operands. */
  const FUNCTIONS: readonly (readonly [
    Operation,
    (x: number) => number,
    number,
    readonly (() => number)[],
  ])[] = [
    ['exp', Math.exp, 2e-15, [wide(1500), wide(20), orders(-60, 10)]],
    ['expm1', Math.expm1, 6e-15, [wide(100), orders(-1074, 10)]],
    ['expm1Residual', expm1Residual, 4e-14, [wide(100), wide(0.8), orders(-500, 10)]],
    [
      'log',
      Math.log,
      2e-15,
      [() => Math.abs(orders(-1074, 1024)()), () => 1 + orders(-52, -2)(), () => random() * 3],
    ],
    ['log1p', Math.log1p, 2e-15, [orders(-1074, -1), () => random() * 1e6, () => 2 ** (-40 * random()) - 1]],
  ];

  test.each(FUNCTIONS)('%s', (op, exact, rel, ranges) => {
    for (const range of ranges) {
      const x = [...SPECIALS, ...Array.from({ length: 2001 }, range)];
      const memory = new TestMemory();
      const got = compute(memory, op, [bufferOf(memory, x)], x.length);
      const want = x.map(exact);
      // Two units of the subnormal numbers, which have no digits to lose.
      expect(got).toBeCloseToReference(want, { rel, abs: 2 ** -1073 });
    }
  });

  test('expm1(x) − x keeps its digits where x has none of them', () => {
    const memory = new TestMemory();
    const [got] = compute(memory, 'expm1Residual', [bufferOf(memory, [1e-4])], 1);
    expect(got).toBeCloseTo(5.0001666708334167e-9, 22);
  });

  test('a special value changes no neighbour', () => {
    for (const [op, exact, rel] of FUNCTIONS) {
      for (const special of SPECIALS) {
        const memory = new TestMemory();
        const x = [0.25, special, special, 0.25];
        const got = compute(memory, op, [bufferOf(memory, x)], 4);
        expect(got).toBeCloseToReference(x.map(exact), { rel, abs: 2 ** -1073 });
      }
    }
  });
});
