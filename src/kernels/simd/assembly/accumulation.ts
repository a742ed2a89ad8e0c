/**
 * The inner loops of the moments: sums, sums of squares and extremes of what is selected of a row.
 *
 * An element that is not selected is replaced by one that changes nothing, so that the loops have no branches.
 */
import { highPair, loadPair, loadQuad, lowPair, maxQuad, minQuad, splatQuad } from './quads.js';
import { BLOCK, FULL, fullWord, isSelected, wordAt } from './selection.js';

/** Where the results of an accumulation are, as float64. */
export const SQUARES: usize = 0;
export const LOWEST: usize = 8;
export const HIGHEST: usize = 16;

/**
 * Sum of the selected elements; Σx², minimum and maximum go to `results`.
 *
 * Without `words` all `n` elements are selected; `first` is the first one that is.
 */
export function accumulate<T>(
  x: usize,
  n: i32,
  words: usize,
  lanes: usize,
  first: usize,
  results: usize,
): f64 {
  return accumulateFrom<T>(false, x, n, words, lanes, first, results);
}

/** The same of the deviations from the element at `first`. Minimum and maximum are those of the elements. */
export function accumulateDeviations<T>(
  x: usize,
  n: i32,
  words: usize,
  lanes: usize,
  first: usize,
  results: usize,
): f64 {
  return accumulateFrom<T>(true, x, n, words, lanes, first, results);
}

/* @inline */ function accumulateFrom<T>(
  areDeviations: bool,
  x: usize,
  n: i32,
  words: usize,
  lanes: usize,
  first: usize,
  results: usize,
): f64 {
  const pivot = areDeviations ? <f64>load<T>(first) : 0;
  const pivots = f64x2.splat(pivot);
  const filling = sizeof<T>() == 8 ? f64x2.splat(<f64>load<T>(first)) : splatQuad<T>(first);
  let sums0 = f64x2.splat(0);
  let sums1 = f64x2.splat(0);
  let squares0 = f64x2.splat(0);
  let squares1 = f64x2.splat(0);
  let lowest = filling;
  let highest = filling;
  const whole = n & ~3;
  for (let start = 0, stop = whole; start < whole; start = stop) {
    let isFull = true;
    if (words != 0) {
      const word = load<u64>(wordAt(words, start));
      stop = start + BLOCK;
      if (word == 0) continue;
      isFull = word == fullWord(min(n - start, BLOCK));
      // Masks of responses are long runs of full blocks.
      if (isFull) while (stop < whole && load<u64>(wordAt(words, stop)) == FULL) stop += BLOCK;
      stop = min(stop, whole);
    }
    let at = x + <usize>start * sizeof<T>();
    const end = x + <usize>stop * sizeof<T>();
    if (isFull) {
      for (; at < end; at += 4 * sizeof<T>()) {
        let low = loadPair<T>(at);
        let high = loadPair<T>(at + 2 * sizeof<T>());
        if (sizeof<T>() == 8) {
          lowest = f64x2.pmin(lowest, f64x2.pmin(low, high));
          highest = f64x2.pmax(highest, f64x2.pmax(low, high));
        } else {
          const quad = loadQuad<T>(at);
          lowest = minQuad<T>(lowest, quad);
          highest = maxQuad<T>(highest, quad);
        }
        if (areDeviations) {
          low = f64x2.sub(low, pivots);
          high = f64x2.sub(high, pivots);
        }
        sums0 = f64x2.add(sums0, low);
        sums1 = f64x2.add(sums1, high);
        squares0 = f64x2.add(squares0, f64x2.mul(low, low));
        squares1 = f64x2.add(squares1, f64x2.mul(high, high));
      }
    } else {
      for (let lane = lanes + ((<usize>start) << 2); at < end; at += 4 * sizeof<T>()) {
        const selected = v128.load(lane);
        lane += 16;
        let low: v128;
        let high: v128;
        // What is not selected is replaced by something that changes nothing: the pivot among deviations, else 0,
        // and among minimum and maximum the first element.
        if (sizeof<T>() == 8) {
          const selected0 = i64x2.extend_low_i32x4_s(selected);
          const selected1 = i64x2.extend_high_i32x4_s(selected);
          low = v128.bitselect(v128.load(at), filling, selected0);
          high = v128.bitselect(v128.load(at, 16), filling, selected1);
          lowest = f64x2.pmin(lowest, f64x2.pmin(low, high));
          highest = f64x2.pmax(highest, f64x2.pmax(low, high));
          if (!areDeviations) {
            low = v128.and(low, selected0);
            high = v128.and(high, selected1);
          }
        } else {
          let quad = v128.and(loadQuad<T>(at), selected);
          const filled = v128.or(quad, v128.andnot(filling, selected));
          lowest = minQuad<T>(lowest, filled);
          highest = maxQuad<T>(highest, filled);
          if (areDeviations) quad = filled;
          low = lowPair<T>(quad);
          high = highPair<T>(quad);
        }
        if (areDeviations) {
          low = f64x2.sub(low, pivots);
          high = f64x2.sub(high, pivots);
        }
        sums0 = f64x2.add(sums0, low);
        sums1 = f64x2.add(sums1, high);
        squares0 = f64x2.add(squares0, f64x2.mul(low, low));
        squares1 = f64x2.add(squares1, f64x2.mul(high, high));
      }
    }
  }
  let sum = sumOfPair(f64x2.add(sums0, sums1));
  let squares = sumOfPair(f64x2.add(squares0, squares1));
  let smallest = lowestOf<T>(lowest);
  let largest = highestOf<T>(highest);
  for (let i = whole; i < n; i++) {
    if (words != 0 && !isSelected(words, i)) continue;
    const value = <f64>load<T>(x + <usize>i * sizeof<T>());
    const d = value - pivot;
    sum += d;
    squares += d * d;
    smallest = min(smallest, value);
    largest = max(largest, value);
  }
  store<f64>(results, squares, SQUARES);
  store<f64>(results, smallest, LOWEST);
  store<f64>(results, largest, HIGHEST);
  return sum;
}

/* @inline */ function sumOfPair(pair: v128): f64 {
  return f64x2.extract_lane(pair, 0) + f64x2.extract_lane(pair, 1);
}

/** The smallest lane. */
/* @inline */ function lowestOf<T>(x: v128): f64 {
  if (sizeof<T>() == 8) return min(f64x2.extract_lane(x, 0), f64x2.extract_lane(x, 1));
  const pairs = minQuad<T>(x, v128.shuffle<i32>(x, x, 2, 3, 0, 1));
  return f64x2.extract_lane(lowPair<T>(minQuad<T>(pairs, v128.shuffle<i32>(pairs, pairs, 1, 0, 3, 2))), 0);
}

/** The largest lane. */
/* @inline */ function highestOf<T>(x: v128): f64 {
  if (sizeof<T>() == 8) return max(f64x2.extract_lane(x, 0), f64x2.extract_lane(x, 1));
  const pairs = maxQuad<T>(x, v128.shuffle<i32>(x, x, 2, 3, 0, 1));
  return f64x2.extract_lane(lowPair<T>(maxQuad<T>(pairs, v128.shuffle<i32>(pairs, pairs, 1, 0, 3, 2))), 0);
}
