/** Records: the moments row in the memory of the module, and how rows are merged there. */

/** Bytes of a record: the eight float64 of a row of `MomentsTable`, in its order. */
export const RECORD: usize = 64;

/** Makes `rows` records at `out` those of no elements. */
export function clearRecords(out: usize, rows: i32): void {
  for (const end = out + <usize>rows * RECORD; out < end; out += RECORD) {
    memory.fill(out, 0, RECORD);
    store<f64>(out, Infinity, 48);
    store<f64>(out, -Infinity, 56);
  }
}

/** Merges a row of `count` elements, `n` of them finite, into the record at `out`, as `mergeRows` does. */
export function merge(
  out: usize,
  count: f64,
  nan: f64,
  posInf: f64,
  negInf: f64,
  n: f64,
  sum: f64,
  m2: f64,
  lowest: f64,
  highest: f64,
): void {
  const before = load<f64>(out) - load<f64>(out, 8) - load<f64>(out, 16) - load<f64>(out, 24);
  store<f64>(out, load<f64>(out) + count);
  store<f64>(out, load<f64>(out, 8) + nan, 8);
  store<f64>(out, load<f64>(out, 16) + posInf, 16);
  store<f64>(out, load<f64>(out, 24) + negInf, 24);
  if (n == 0) return;
  const sumBefore = load<f64>(out, 32);
  if (before > 0) {
    const delta = sum / n - sumBefore / before;
    m2 += load<f64>(out, 40) + delta * (delta * (before / (before + n))) * n;
  }
  store<f64>(out, sumBefore + sum, 32);
  store<f64>(out, m2, 40);
  store<f64>(out, min(load<f64>(out, 48), lowest), 48);
  store<f64>(out, max(load<f64>(out, 56), highest), 56);
}
