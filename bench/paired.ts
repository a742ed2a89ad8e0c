/**
 * Paired timing: two ways to do one thing, in turns in one process, reported as a ratio with an interval.
 *
 * Machines drift, so a time alone says little; what A and B take next to each other can be compared. Both must finish
 * their work before they return: device work ends with a read-back.
 */

/** What a comparison found. */
export interface PairedResult {
  /** Median milliseconds of one run. */
  readonly baseline: number;
  readonly candidate: number;
  /** Median of baseline / candidate, pair by pair: above 1, the candidate is faster. */
  readonly ratio: number;
  /** 95 % bootstrap interval of that median. */
  readonly interval: readonly [low: number, high: number];
}

/** Runs both `pairs` times after one warm-up each, alternating which goes first. */
export async function comparePaired(
  baseline: () => Promise<unknown>,
  candidate: () => Promise<unknown>,
  pairs: number,
): Promise<PairedResult> {
  await baseline();
  await candidate();
  const times: { baseline: number; candidate: number }[] = [];
  for (let pair = 0; pair < pairs; pair++) {
    const first = pair % 2 === 0 ? baseline : candidate;
    const second = pair % 2 === 0 ? candidate : baseline;
    const [a, b] = [await milliseconds(first), await milliseconds(second)];
    times.push(pair % 2 === 0 ? { baseline: a, candidate: b } : { baseline: b, candidate: a });
  }
  const ratios = times.map((time) => time.baseline / time.candidate);
  return {
    baseline: median(times.map((time) => time.baseline)),
    candidate: median(times.map((time) => time.candidate)),
    ratio: median(ratios),
    interval: medianInterval(ratios),
  };
}

async function milliseconds(run: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await run();
  return performance.now() - start;
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** Percentile bootstrap of the median, with a generator of its own so that the report is reproducible. */
function medianInterval(values: readonly number[]): [number, number] {
  let state = 1;
  const index = (): number => {
    state = (Math.imul(state, 48271) >>> 0) % 2147483647; // Park–Miller
    return state % values.length;
  };
  const draws = Array.from({ length: 1000 }, () => median(values.map(() => values[index()]!)));
  draws.sort((a, b) => a - b);
  return [draws[25]!, draws[974]!];
}
