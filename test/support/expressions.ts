/** fast-check generators for expressions over given inputs. */
import fc from 'fast-check';

import * as e from '../../src/kernels/expression.js';

/** Builders with one, two and three operands. */
const ONE = [e.negate, e.abs, e.exp, e.expm1, e.log, e.log1p, e.square, e.sqrt];
const TWO = [
  ...[e.add, e.subtract, e.multiply, e.divide, e.min, e.max],
  ...[e.less, e.lessEqual, e.greater, e.greaterEqual, e.equal, e.notEqual],
];
const THREE = [e.clamp, e.select];

/** Expressions of up to `depth` operations above the inputs called `names`. */
export function expressions(names: readonly string[], depth: number): fc.Arbitrary<e.Expression> {
  const leaf = fc.oneof(
    { weight: 4, arbitrary: fc.constantFrom(...names).map(e.input) },
    { weight: 1, arbitrary: fc.constantFrom(0, 1, -1, 0.5, 2, -3.25, 0.1).map(e.constant) },
  );
  if (depth === 0) return leaf;
  const below = expressions(names, depth - 1);
  return fc.oneof(
    { weight: 1, arbitrary: leaf },
    { weight: 3, arbitrary: fc.tuple(fc.constantFrom(...ONE), below).map(([f, x]) => f(x)) },
    { weight: 4, arbitrary: fc.tuple(fc.constantFrom(...TWO), below, below).map(([f, x, y]) => f(x, y)) },
    {
      weight: 1,
      arbitrary: fc.tuple(fc.constantFrom(...THREE), below, below, below).map(([f, x, y, z]) => f(x, y, z)),
    },
  );
}
