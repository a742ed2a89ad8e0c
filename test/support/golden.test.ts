/** Golden files are decoded as their format says. */

import { describe, expect, test } from 'vitest';

import { decodeTensor } from './golden.js';

describe('golden tensors', () => {
  test('are rounded to float32', () => {
    const { values } = decodeTensor({ shape: [2], dtype: 'float32', data: [0.1, NaN] });
    expect(Array.from(values)).toEqual([Math.fround(0.1), NaN]);
  });

  test('may be filled, with exceptions', () => {
    const spec = { shape: [2, 2], dtype: 'int32', fill: 7, set: [[2, -1]] } as const;
    expect(Array.from(decodeTensor(spec).values)).toEqual([7, 7, -1, 7]);
  });

  test('may follow the sin recipe, with columns at −Infinity', () => {
    const recipe = {
      kind: 'sin',
      a: 1,
      b: 2,
      c: 3,
      s: 4,
      o: 5,
      negInfWhere: { columnModulo: 3, equals: 1 },
    } as const;
    const { values } = decodeTensor({ shape: [2, 4], dtype: 'float32', recipe });
    expect(values[1]).toBe(-Infinity);
    expect(values[6]).toBe(Math.fround(Math.sin(1 * 1 + 2 * 2 + 3) * 4 + 5));
  });

  test('refuse data that does not fill the shape', () => {
    expect(() => decodeTensor({ shape: [3], dtype: 'bool', data: [1] })).toThrow('1 elements');
    expect(() => decodeTensor({ shape: [3], dtype: 'bool' })).toThrow('needs data, fill or recipe');
  });
});
