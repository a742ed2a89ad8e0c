/** Seeded random numbers for test data: the same seed gives the same case on every backend and every run. */

/** Uniform numbers in [0, 1). */
export type Random = () => number;

/** @source Tommy Ettinger's Mulberry32 (public domain). */
export function seeded(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** A float32 of the normal distribution with this mean and standard deviation. */
export function normal(random: Random, mean = 0, std = 1): number {
  const radius = Math.sqrt(-2 * Math.log(1 - random()));
  return Math.fround(mean + std * radius * Math.cos(2 * Math.PI * random()));
}
