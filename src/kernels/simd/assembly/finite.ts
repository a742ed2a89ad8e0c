/** Rows with elements that are not finite: those are counted by kind, and the others selected. */
import { loadQuad } from './quads.js';
import { BLOCK, fullWord, storeLanesOf, wordAt } from './selection.js';

/** Where the counts are, as float64. */
export const NAN: usize = 24;
export const POS_INF: usize = 32;
export const NEG_INF: usize = 40;

/**
 * Writes the words and lanes of those of the selected elements that are finite, and the counts of the others to
 * `results`; returns how many are finite.
 */
export function selectFinite<T>(
  x: usize,
  n: i32,
  words: usize,
  finiteWords: usize,
  finiteLanes: usize,
  results: usize,
): i32 {
  let selected = 0;
  let finite = 0;
  let posInf = 0;
  let negInf = 0;
  for (let start = 0; start < n; start += BLOCK) {
    const length = min(n - start, BLOCK);
    const word = words == 0 ? fullWord(length) : load<u64>(wordAt(words, start));
    let isFinite: u64 = 0;
    let isPosInf: u64 = 0;
    let isNegInf: u64 = 0;
    let i = 0;
    for (; i + 4 <= length; i += 4) {
      const at = x + <usize>(start + i) * sizeof<T>();
      isFinite |= bitsOf(compareQuad<T>(at, FINITE)) << i;
      isPosInf |= bitsOf(compareQuad<T>(at, POSITIVE)) << i;
      isNegInf |= bitsOf(compareQuad<T>(at, NEGATIVE)) << i;
    }
    for (; i < length; i++) {
      const value = <f64>load<T>(x + <usize>(start + i) * sizeof<T>());
      if (value - value == 0) isFinite |= (<u64>1) << i;
      if (value == Infinity) isPosInf |= (<u64>1) << i;
      if (value == -Infinity) isNegInf |= (<u64>1) << i;
    }
    isFinite &= word;
    store<u64>(wordAt(finiteWords, start), isFinite);
    storeLanesOf(isFinite, length, finiteLanes + ((<usize>start) << 2));
    selected += <i32>popcnt(word);
    finite += <i32>popcnt(isFinite);
    posInf += <i32>popcnt(isPosInf & word);
    negInf += <i32>popcnt(isNegInf & word);
  }
  store<f64>(results, <f64>(selected - finite - posInf - negInf), NAN);
  store<f64>(results, <f64>posInf, POS_INF);
  store<f64>(results, <f64>negInf, NEG_INF);
  return finite;
}

/** What `compareQuad` asks. */
const FINITE: i32 = 0;
const POSITIVE: i32 = 1;
const NEGATIVE: i32 = 2;

/** −1 for those of the four elements at `x` that are finite, +Infinity or −Infinity. */
/* @inline */ function compareQuad<T>(x: usize, kind: i32): v128 {
  if (sizeof<T>() == 8) {
    return v128.shuffle<i32>(
      comparePair(v128.load(x), kind),
      comparePair(v128.load(x, 16), kind),
      0,
      2,
      4,
      6,
    );
  }
  const quad = loadQuad<T>(x);
  if (kind == FINITE) return f32x4.lt(f32x4.abs(quad), f32x4.splat(Infinity));
  return f32x4.eq(quad, f32x4.splat(kind == POSITIVE ? Infinity : -Infinity));
}

/* @inline */ function comparePair(pair: v128, kind: i32): v128 {
  if (kind == FINITE) return f64x2.lt(f64x2.abs(pair), f64x2.splat(Infinity));
  return f64x2.eq(pair, f64x2.splat(kind == POSITIVE ? Infinity : -Infinity));
}

/* @inline */ function bitsOf(lanes: v128): u64 {
  return <u64>(<u32>i32x4.bitmask(lanes));
}
