/** fast-check generators for masked batches: shapes, values of any scale, masks, and non-finite elements. */

import fc from 'fast-check';

/** A `[rows, cols]` batch of float32 values with a 0/1 mask. */
export interface Batch {
  readonly rows: number;
  readonly cols: number;
  readonly values: readonly number[];
  readonly mask: readonly number[];
}

/** The smallest normal float32. Devices may flush what is smaller to zero, so laws are not about such numbers. */
const SMALLEST_NORMAL = 2 ** -126;

/** A number of about `offset`, spread by about `scale`, rounded to float32. The ratio stays within the contract. */
function around(offset: number, scale: number): fc.Arbitrary<number> {
  return fc
    .double({ min: -1, max: 1, noNaN: true })
    .map((unit) => Math.fround(offset + scale * unit))
    .map((x) => (Math.abs(x) < SMALLEST_NORMAL ? 0 : x));
}

/** Offset and scale of the values of one batch: |offset| / scale up to 1e4. */
const placement = fc.record({
  offset: fc.constantFrom(0, 1, -3, 100, -1000),
  scale: fc.constantFrom(0.1, 1, 50, 1e6),
});

/** Finite values of one offset and scale, `minLength` to `maxLength` of them. */
export function finiteValues(minLength: number, maxLength: number): fc.Arbitrary<number[]> {
  return placement.chain(({ offset, scale }) =>
    fc.array(around(offset, scale), { minLength, maxLength, size: 'max' }),
  );
}

/** Values that now and then are NaN or infinite. */
export function anyValues(minLength: number, maxLength: number): fc.Arbitrary<number[]> {
  return placement.chain(({ offset, scale }) =>
    fc.array(
      fc.oneof(
        { weight: 20, arbitrary: around(offset, scale) },
        { weight: 1, arbitrary: fc.constantFrom(NaN, Infinity, -Infinity) },
      ),
      { minLength, maxLength, size: 'max' },
    ),
  );
}

/** A 0/1 mask of `length` entries: everything, nothing, a prefix, or any pattern. */
export function mask(length: number): fc.Arbitrary<number[]> {
  const prefix = fc
    .integer({ min: 0, max: length })
    .map((n) => Array.from({ length }, (_, i) => (i < n ? 1 : 0)));
  const pattern = fc.array(fc.constantFrom(0, 1), { minLength: length, maxLength: length });
  return fc.oneof({ weight: 1, arbitrary: prefix }, { weight: 3, arbitrary: pattern });
}

/** A batch of up to `maxRows` by `maxCols`; `finite` says whether NaN and infinities may occur in it. */
export function batches(
  maxRows: number,
  maxCols: number,
  { finite }: { finite: boolean },
): fc.Arbitrary<Batch> {
  const shape = fc.record({
    rows: fc.integer({ min: 1, max: maxRows }),
    cols: fc.integer({ min: 1, max: maxCols }),
  });
  return shape.chain(({ rows, cols }) => {
    const size = rows * cols;
    return fc.record({
      rows: fc.constant(rows),
      cols: fc.constant(cols),
      values: finite ? finiteValues(size, size) : anyValues(size, size),
      mask: mask(size),
    });
  });
}
