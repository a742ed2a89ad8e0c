/**
 * The lines of a journal, and how they are told apart.
 *
 * A commit is `{"step":n,"ts":ms,"epoch":e,"epochStep":s,"data":{…}}`; it has no `kind`. Everything else has one.
 * `{"kind":"resume","from":n,"ts":ms}` says that the commits before it with a step of `from` or more no longer count:
 * the run went back. Readers skip lines of a kind that they do not know.
 */
import { printableJson } from '../../../printable.js';
import type { CommitPoint } from '../logger.js';

/** A commit as it is in the journal. */
export interface JournalCommit {
  readonly step: number;
  /** Milliseconds since the epoch. */
  readonly ts?: number | undefined;
  readonly epoch?: number | undefined;
  /** Step within the epoch. */
  readonly epochStep?: number | undefined;
  /** Numbers by name, NaN and infinities included. */
  readonly data: Readonly<Record<string, number>>;
}

/** Everything before it from step `from` on is superseded. */
export interface ResumeMark {
  readonly kind: 'resume';
  readonly from: number;
}

/**
 * A line, with its line break. Numbers that JSON does not have become strings.
 *
 * @param arePlain whether all numbers are finite, and none −0
 */
export function commitLine(
  step: number,
  ts: number,
  point: CommitPoint | undefined,
  data: Readonly<Record<string, number>>,
  arePlain: boolean,
): string {
  const position = point && { epoch: point.epoch, epochStep: point.step };
  const line = arePlain ? lineOf({ step, ts, ...position, data }) : UNREADABLE;
  // A getter may have answered otherwise this time. Keys may hold these characters, too.
  if (!line.includes(UNREADABLE)) return line;
  const head = JSON.stringify({ step, ts, ...position });
  return `${printableJson(`${head.slice(0, -1)},"data":${jsonNumbers(data)}}`)}\n`;
}

export function resumeLine(from: number, ts: number): string {
  return lineOf({ kind: 'resume', from, ts });
}

function lineOf(value: object): string {
  return `${printableJson(JSON.stringify(value))}\n`;
}

/** What `JSON.stringify` makes of numbers that JSON does not have. */
const UNREADABLE = ':null';

const NOT_IN_JSON: Readonly<Record<string, number>> = { NaN, Infinity, '-Infinity': -Infinity };

/** As `JSON.stringify` writes it, but with texts for what is not finite, and with −0. */
function jsonNumbers(data: Readonly<Record<string, number>>): string {
  const pairs = Object.entries(data).map(([key, value]) => {
    const number = Object.is(value, -0)
      ? '-0'
      : JSON.stringify(Number.isFinite(value) ? value : String(value));
    return `${JSON.stringify(key)}:${number}`;
  });
  return `{${pairs.join()}}`;
}

/** What a line says; `other` for a kind that this version does not know, undefined for what is no line of a journal. */
export function parseLine(line: string): JournalCommit | ResumeMark | 'other' | undefined {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return undefined;
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const { kind, from, step, ts, epoch, epochStep, data } = value as Readonly<Record<string, unknown>>;
  if (kind === 'resume') return isWhole(from) ? { kind, from } : undefined;
  if (kind !== undefined) return typeof kind === 'string' ? 'other' : undefined;
  const numbers = isWhole(step) ? numbersOf(data) : undefined;
  if (!isWhole(step) || numbers === undefined) return undefined;
  const [time, ofEpoch, withinEpoch] = [ts, epoch, epochStep].map((part) =>
    typeof part === 'number' ? part : undefined,
  );
  return {
    step,
    ...(time !== undefined && { ts: time }),
    ...(ofEpoch !== undefined && { epoch: ofEpoch }),
    ...(withinEpoch !== undefined && { epochStep: withinEpoch }),
    data: numbers,
  };
}

function isWhole(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function numbersOf(data: unknown): Record<string, number> | undefined {
  if (typeof data !== 'object' || data === null || Array.isArray(data)) return undefined;
  const pairs: [string, number][] = [];
  for (const [key, value] of Object.entries(data as Readonly<Record<string, unknown>>)) {
    const number =
      typeof value === 'string' && Object.hasOwn(NOT_IN_JSON, value) ? NOT_IN_JSON[value] : value;
    if (typeof number !== 'number') return undefined;
    pairs.push([key, number]);
  }
  return Object.fromEntries(pairs);
}
