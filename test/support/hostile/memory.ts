/** What a piece of work costs in memory at its worst, in a process that was started with `--expose-gc`. Not a test. */

const { gc } = globalThis as unknown as { gc: () => void };

/** Peak of the memory of this process so far, in bytes. */
const peak = (): number => 1024 * process.resourceUsage().maxRSS;

/** How far the peak of the process rises while `work` runs. */
export function risenBy(work: () => void): number {
  gc();
  const before = peak();
  work();
  return peak() - before;
}
