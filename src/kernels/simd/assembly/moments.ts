/**
 * The moments of a tile, row by row, merged into records.
 *
 * A row is accumulated as it is, Σx and Σx², in float64. Where its mean is so much larger than its spread that too many
 * digits cancel in Σx² − (Σx)²/n, once more as deviations from a pivot, the first selected element: (mean − pivot)² is
 * at most n − 1 times the variance, so at most 1e-12 of that is lost in a tile of 4096, whatever the mean. A sum that
 * is not finite tells of elements that are not.
 */
import { HIGHEST, LOWEST, SQUARES, accumulate, accumulateDeviations } from './accumulation.js';
import { NAN, NEG_INF, POS_INF, selectFinite } from './finite.js';
import { RECORD, merge } from './records.js';
import { countOf, firstSelected, lanesOf, wordsOf } from './selection.js';

/** How many times Σd² may be Σx²: at 10^6 a tile keeps ten of sixteen digits. */
const CANCELLATION: f64 = 1e6;

/**
 * Merges the moments of a tile of float32 into one record per row.
 *
 * `selection` is where a `select…` wrote what is selected, 0 for everything; `spare` is room for another one.
 */
export function reduceFloat32(
  x: usize,
  rows: i32,
  cols: i32,
  selection: usize,
  spare: usize,
  out: usize,
): void {
  reduceTile<f32>(x, rows, cols, selection, spare, out);
}

/** The same for int32. */
export function reduceInt32(
  x: usize,
  rows: i32,
  cols: i32,
  selection: usize,
  spare: usize,
  out: usize,
): void {
  reduceTile<i32>(x, rows, cols, selection, spare, out);
}

/** The same for bool, one byte each. */
export function reduceBool(x: usize, rows: i32, cols: i32, selection: usize, spare: usize, out: usize): void {
  reduceTile<u8>(x, rows, cols, selection, spare, out);
}

/** The same for float64. */
export function reduceFloat64(
  x: usize,
  rows: i32,
  cols: i32,
  selection: usize,
  spare: usize,
  out: usize,
): void {
  reduceTile<f64>(x, rows, cols, selection, spare, out);
}

/** The same for a tile whose elements are all `value`. */
export function reduceConstant(value: f64, rows: i32, cols: i32, selection: usize, out: usize): void {
  const isFinite = value - value == 0;
  for (let row = 0; row < rows; row++) {
    const count = <f64>(selection == 0 ? cols : countOf(selection, row));
    if (count > 0) {
      const nan = value != value ? count : 0;
      const posInf = value == Infinity ? count : 0;
      const negInf = value == -Infinity ? count : 0;
      const n = isFinite ? count : 0;
      merge(out, count, nan, posInf, negInf, n, isFinite ? value * n : 0, 0, value, value);
    }
    out += RECORD;
  }
}

/* @inline */ function reduceTile<T>(
  x: usize,
  rows: i32,
  cols: i32,
  selection: usize,
  spare: usize,
  out: usize,
): void {
  for (let row = 0; row < rows; row++) {
    const count = selection == 0 ? cols : countOf(selection, row);
    if (count > 0) {
      const whole = count == cols;
      const words: usize = whole ? 0 : wordsOf(selection, row, cols);
      reduceRow<T>(x, cols, count, words, lanesOf(selection, row, cols), spare, out);
    }
    x += <usize>cols * sizeof<T>();
    out += RECORD;
  }
}

/** Merges the moments of `n` elements, `count` of which are selected, into the record at `out`. */
function reduceRow<T>(
  x: usize,
  n: i32,
  count: i32,
  words: usize,
  lanes: usize,
  spare: usize,
  out: usize,
): void {
  const first = x + <usize>(words == 0 ? 0 : firstSelected(words)) * sizeof<T>();
  if (isFloat<T>()) {
    const sum = accumulate<T>(x, n, words, lanes, first, spare);
    // The sum of what is finite is finite, unless float64 overflow.
    if (sum - sum != 0) {
      reduceNonFiniteRow<T>(x, n, count, words, spare, out);
      return;
    }
    const squares = load<f64>(spare, SQUARES);
    if (squares <= CANCELLATION * (squares - sum * (sum / count))) {
      mergeDeviations(out, count, 0, 0, 0, count, 0, sum, spare);
      return;
    }
  }
  const sum = accumulateDeviations<T>(x, n, words, lanes, first, spare);
  if (isFloat<T>() && sum - sum != 0) {
    reduceNonFiniteRow<T>(x, n, count, words, spare, out);
  } else {
    mergeDeviations(out, count, 0, 0, 0, count, <f64>load<T>(first), sum, spare);
  }
}

/** The same where not all that is selected is finite: counts what is not, then reduces the rest. */
function reduceNonFiniteRow<T>(x: usize, n: i32, count: i32, words: usize, spare: usize, out: usize): void {
  const finiteWords = wordsOf(spare, 0, n);
  const finiteLanes = lanesOf(spare, 0, n);
  const finite = selectFinite<T>(x, n, words, finiteWords, finiteLanes, spare);
  const nan = load<f64>(spare, NAN);
  const posInf = load<f64>(spare, POS_INF);
  const negInf = load<f64>(spare, NEG_INF);
  if (finite == 0) {
    merge(out, count, nan, posInf, negInf, 0, 0, 0, 0, 0);
    return;
  }
  const first = x + <usize>firstSelected(finiteWords) * sizeof<T>();
  const sum = accumulateDeviations<T>(x, n, finiteWords, finiteLanes, first, spare);
  if (sum - sum == 0) {
    mergeDeviations(out, count, nan, posInf, negInf, finite, <f64>load<T>(first), sum, spare);
  } else {
    // Deviations beyond the range of float64; the sum itself may well be within.
    const plain = plainSum<T>(x, n, finiteLanes);
    const lowest = load<f64>(spare, LOWEST);
    merge(out, count, nan, posInf, negInf, finite, plain, Infinity, lowest, load<f64>(spare, HIGHEST));
  }
}

/** Sum of the elements that their lanes select, in order. */
function plainSum<T>(x: usize, n: i32, lanes: usize): f64 {
  let sum: f64 = 0;
  for (let i = 0; i < n; i++) {
    if (load<i32>(lanes + ((<usize>i) << 2)) != 0) sum += <f64>load<T>(x + <usize>i * sizeof<T>());
  }
  return sum;
}

/** Merges `n` finite elements, given by what `accumulate` found of them, into the record at `out`. */
/* @inline */ function mergeDeviations(
  out: usize,
  count: f64,
  nan: f64,
  posInf: f64,
  negInf: f64,
  n: f64,
  pivot: f64,
  sum: f64,
  results: usize,
): void {
  const squares = load<f64>(results, SQUARES);
  const m2 = squares == Infinity ? squares : max(squares - sum * (sum / n), 0);
  const lowest = load<f64>(results, LOWEST);
  merge(out, count, nan, posInf, negInf, n, sum + pivot * n, m2, lowest, load<f64>(results, HIGHEST));
}
