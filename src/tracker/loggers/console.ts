/**
 * Commits as tables on a terminal: sorted names in columns, one number beside each.
 */
import { ValueError } from '../../errors.js';
import { assertOptions, kindOf } from '../../kernels/arguments.js';
import { assertCommit, assertNumbers } from './commit.js';
import { logWriteError } from './errors.js';
import type { CommitPoint, StatsWriter } from './logger.js';

/** The part of a stream that a table needs. */
export interface TextStream {
  write(text: string, done?: (error?: Error | null) => void): unknown;
  once?(event: 'error', listener: (error: Error) => void): unknown;
  off?(event: 'error', listener: (error: Error) => void): unknown;
  readonly isTTY?: boolean | undefined;
  /** Characters per line, on a terminal. */
  readonly columns?: number | undefined;
}

export interface TableOptions {
  /** Characters per line; default unlimited. */
  readonly width?: number;
  /** Most name–number pairs side by side; default 4. */
  readonly columns?: number;
  /** Use colour; default false. */
  readonly color?: boolean;
}

export interface ConsoleOptions {
  /** Default `process.stdout`. */
  readonly stream?: TextStream;
  readonly columns?: number;
  /** Default: only on a terminal, and not if the environment has NO_COLOR. */
  readonly color?: boolean;
}

export class ConsoleWriter implements StatsWriter {
  readonly name = 'console';
  readonly #stream: TextStream;
  readonly #columns: number | undefined;
  readonly #color: boolean;

  /** @throws ValueError for options that are none */
  constructor(options: ConsoleOptions = {}) {
    assertOptions('ConsoleWriter', options, { stream: 'any', columns: 'number', color: 'boolean' });
    const { stream = process.stdout, columns, color } = options;
    assertStream(stream);
    this.#stream = stream;
    this.#columns = columns;
    this.#color = color ?? (stream.isTTY === true && !process.env.NO_COLOR);
  }

  /**
   * @throws LogWriteError if the stream is closed or full, e.g. a pipe whose reader has left; MissingInputError or
   *   ValueError for a step, data or point that is none
   */
  async write(step: number, data: Readonly<Record<string, number>>, point?: CommitPoint): Promise<void> {
    assertCommit('ConsoleWriter.write', step, data, point);
    const { isTTY, columns: width } = this.#stream;
    const title = point === undefined ? '' : ` (epoch ${String(point.epoch)}, step ${String(point.step)})`;
    const table = formatTable(data, {
      color: this.#color,
      width: isTTY === true ? (width ?? FILE_WIDTH) : FILE_WIDTH,
      ...(this.#columns !== undefined && { columns: this.#columns }),
    });
    const text = this.#color ? `\x1b[1mstep ${String(step)}\x1b[0m` : `step ${String(step)}`;
    return writeOut(this.#stream, `${text}${title}\n${table}`);
  }

  close(): void {
    // The stream belongs to whoever made it.
  }
}

function assertStream(stream: TextStream): void {
  if (typeof (stream as Partial<TextStream> | null)?.write === 'function') return;
  throw new ValueError({
    where: 'ConsoleWriter',
    input: 'options.stream',
    expected: 'a stream with write()',
    received: kindOf(stream),
    remedy: 'leave it out for process.stdout',
  });
}

/** Writes, and waits where the stream can tell. Without a listener of ours, one that breaks would end the process. */
function writeOut(stream: TextStream, text: string): Promise<void> {
  if (stream.once === undefined) {
    stream.write(text);
    return Promise.resolve();
  }
  return new Promise((resolve, reject) => {
    const fail = (error: Error): void => {
      reject(logWriteError('ConsoleWriter.write', 'stdout', error));
    };
    stream.once?.('error', fail);
    stream.write(text, (error) => {
      if (error instanceof Error) {
        fail(error); // the stream emits it after this, so the listener has to stay
        return;
      }
      stream.off?.('error', fail);
      resolve();
    });
  });
}

/** A cell and how wide it looks. */
interface Pair {
  readonly name: string;
  readonly number: string;
  readonly isFinite: boolean;
}

/** Columns of text where there is no terminal to ask, e.g. in a log file. */
const FILE_WIDTH = 120;

/**
 * A table of `data`: sorted by name, top to bottom and then to the right, `__count` names left out.
 *
 * As many columns as fit the width, up to `columns`; one always does.
 *
 * @throws MissingInputError or ValueError for data that is no record of numbers, or for options that are none
 */
export function formatTable(data: Readonly<Record<string, number>>, options: TableOptions = {}): string {
  assertNumbers('formatTable', data);
  assertOptions('formatTable', options, { width: 'number', columns: 'number', color: 'boolean' });
  const { width = Infinity, columns = 4, color = false } = options;
  const pairs = Object.entries(data)
    .filter(([name]) => !name.endsWith('__count'))
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => ({ name, number: formatNumber(value), isFinite: Number.isFinite(value) }));
  if (pairs.length === 0) return '(no statistics)\n';
  let layout = layOut(pairs, 1);
  for (let n = Math.min(columns, pairs.length); n > 1; n--) {
    const wider = layOut(pairs, n);
    if (wider.width <= width) {
      layout = wider;
      break;
    }
  }
  return draw(layout, color);
}

interface Layout {
  readonly columns: readonly { pairs: readonly Pair[]; nameWidth: number; numberWidth: number }[];
  readonly rows: number;
  readonly width: number;
}

function layOut(pairs: readonly Pair[], count: number): Layout {
  const rows = Math.ceil(pairs.length / count);
  const columns = [];
  for (let start = 0; start < pairs.length; start += rows) {
    const column = pairs.slice(start, start + rows);
    columns.push({
      pairs: column,
      nameWidth: widest(column.map(({ name }) => name)),
      numberWidth: widest(column.map(({ number }) => number)),
    });
  }
  // "│ name  number " per column, and the last border.
  const width = columns.reduce((sum, c) => sum + c.nameWidth + c.numberWidth + 5, 1);
  return { columns, rows, width };
}

function widest(texts: readonly string[]): number {
  return texts.reduce((width, { length }) => Math.max(width, length), 0);
}

function draw({ columns, rows }: Layout, color: boolean): string {
  const dim = (text: string) => (color ? `\x1b[2m${text}\x1b[0m` : text);
  const alarm = (text: string) => (color ? `\x1b[31m${text}\x1b[0m` : text);
  const rule = (left: string, middle: string, right: string) =>
    dim(left + columns.map((c) => '─'.repeat(c.nameWidth + c.numberWidth + 4)).join(middle) + right);
  const lines = [rule('┌', '┬', '┐')];
  for (let r = 0; r < rows; r++) {
    const cells = columns.map(({ pairs, nameWidth, numberWidth }) => {
      const { name, number, isFinite } = pairs[r] ?? { name: '', number: '', isFinite: true };
      const padded = number.padStart(numberWidth);
      return ` ${name.padEnd(nameWidth)}  ${isFinite ? padded : alarm(padded)} `;
    });
    lines.push(dim('│') + cells.join(dim('│')) + dim('│'));
  }
  lines.push(rule('└', '┴', '┘'));
  return lines.join('\n') + '\n';
}

/** Integers in full; other numbers with five significant digits, in scientific notation far from 1. */
export function formatNumber(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e12) return String(value);
  const magnitude = Math.abs(value);
  if (magnitude < 1e-3 || magnitude >= 1e7) return value.toExponential(3);
  return value.toFixed(Math.max(0, 4 - Math.floor(Math.log10(magnitude))));
}
