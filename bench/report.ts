/** The words for results: a block per measurement, and a table of targets. */
import type { JobResult } from './job.js';
import type { Timing } from './measure/interleaved.js';
import type { Bound, Verdict } from './targets.js';

/** One measurement as a block of lines. */
export function describeResult(result: JobResult): string {
  const { scenario, label, backend, device, inputBytes, rounds } = result;
  const rows = Object.entries(result.ways).map(([name, timing]) => [
    `  ${name}`,
    milliseconds(timing.medianMs),
    `${milliseconds(timing.intervalMs[0])} to ${milliseconds(timing.intervalMs[1])}`,
    name === 'ours' ? '' : `${digits(timing.ratio)} ×`,
    name === 'ours' ? '' : `${digits(timing.ratioInterval[0])} to ${digits(timing.ratioInterval[1])}`,
    remark(result, name, timing),
  ]);
  return [
    `${scenario}  ${label}  on ${backend} (${device}), ${bytes(inputBytes)}, ${rounds === 0 ? 'not timed' : `${rounds} rounds`}`,
    ...(rounds === 0 ? [] : table([['  way', 'median', '95 %', 'over ours', '95 %', ''], ...rows])),
    ...Object.entries(result.counts).flatMap(([name, counts]) => {
      const parts = [
        counts.launches === undefined ? [] : `${counts.launches} launch${counts.launches === 1 ? '' : 'es'}`,
        counts.readBacks === undefined
          ? []
          : `${counts.readBacks} read-back${counts.readBacks === 1 ? '' : 's'} of ${bytes(counts.readBackBytes ?? 0)}`,
        `${bytes(counts.peakBytes)} extra (${digits((100 * counts.peakBytes) / inputBytes)} % of the inputs)`,
      ].flat();
      return [`  ${name}: ${parts.join(', ')}`];
    }),
    ...retention(result),
    '',
  ].join('\n');
}

function retention({ retained }: JobResult): string[] {
  if (retained === undefined) return [];
  const { ours, everything } = retained;
  const share = `${digits((100 * ours) / everything)} % of what went in`;
  return [`  ours: ${bytes(ours)} kept until the result (${share})`];
}

/** Rates, and how near they come to the floor. */
function remark({ inputBytes, ways, floor, amount }: JobResult, name: string, { medianMs }: Timing): string {
  if (amount !== undefined)
    return name === 'floor' ? floor : `${thousands(amount.count / medianMs)} ${amount.what}/s`;
  if (ways.floor === undefined) return '';
  const rate = `${digits(inputBytes / medianMs / 1e6)} GB/s`;
  if (name === 'ours') return `${rate}, ${digits(100 * ways.floor.ratio)} % of the floor`;
  return name === 'floor' ? `${rate}, ${floor}` : '';
}

/** All targets with what was measured, and a last line that counts them. */
export function describeVerdicts(verdicts: readonly Verdict[]): string {
  const rows = verdicts.map(({ outcome, claim, bound, measured, interval, reason }) => [
    outcome,
    claim,
    describeBound(bound),
    measured === undefined ? '' : digits(measured),
    reason ?? (interval === undefined ? '' : `${digits(interval[0])} to ${digits(interval[1])}`),
  ]);
  const count = (outcome: Verdict['outcome']): string =>
    `${verdicts.filter((verdict) => verdict.outcome === outcome).length} ${outcome}`;
  return [
    ...table([['', 'target', 'bound', 'measured', '95 %'], ...rows]),
    [count('met'), count('missed'), count('skipped')].join(', '),
  ].join('\n');
}

function describeBound(bound: Bound): string {
  if ('atLeast' in bound) return `≥ ${bound.atLeast}`;
  return 'atMost' in bound ? `≤ ${bound.atMost}` : `= ${bound.equal}`;
}

/** Columns as wide as their widest cell; numbers to the right. */
function table(rows: readonly (readonly string[])[]): string[] {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const isNumeric = (cell: string): boolean => /^[≥≤=\d]/.test(cell);
  return rows.map((row) =>
    row
      .map((cell, column) =>
        isNumeric(cell) ? cell.padStart(widths[column]!) : cell.padEnd(widths[column]!),
      )
      .join('  ')
      .trimEnd(),
  );
}

function milliseconds(ms: number): string {
  return `${digits(ms)} ms`;
}

/** A number of thousands. */
function thousands(value: number): string {
  return value < 1000 ? `${digits(value)} k` : `${digits(value / 1000)} M`;
}

/** Three digits that count, without an exponent. */
function digits(value: number): string {
  if (!Number.isFinite(value) || value === 0) return String(value);
  const decimals = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  return value.toFixed(Math.min(decimals, 6));
}

function bytes(count: number): string {
  const units = ['B', 'kB', 'MB', 'GB'];
  let unit = 0;
  while (count >= 1000 && unit < units.length - 1) {
    count /= 1000;
    unit++;
  }
  return `${digits(count)} ${units[unit]!}`;
}
