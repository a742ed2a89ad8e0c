/**
 * Commits as tables on a terminal. The console is a luxury: training goes on when nobody can see it any more.
 */
import { assertOptions, kindOf, messageOf } from '../../arguments.js';
import { ValueError } from '../../errors.js';
import { warn } from '../../warning.js';
import { assertCommit } from './commit.js';
import { codeOf } from './errors.js';
import { type TextStream, writeGuarded } from './guarded-stream.js';
import type { CommitPoint, StatsWriter } from './logger.js';
import { NUMBER_WIDTH, formatRows, isShown } from './table.js';

export { formatNumber } from './table.js';

export interface ConsoleOptions {
  /** Default `process.stdout`. */
  readonly stream?: TextStream;
  /** Most name–number pairs side by side; default 4. */
  readonly columns?: number;
  /** Most characters per line; default 80, and never more than a terminal has. */
  readonly width?: number;
  /** Default: only on a terminal, and not if the environment has NO_COLOR. */
  readonly color?: boolean;
}

/** Characters per line: what every terminal and every log viewer shows. */
const WIDTH = 80;

/** Milliseconds for which a stream is waited for. */
const LONGEST_WAIT_MS = 1000;

/** Rows that are kept for names which a commit does not have. */
const MOST_ROWS = 1000;

export class ConsoleWriter implements StatsWriter {
  readonly name = 'console';
  readonly keepsOrder = true;
  readonly #stream: TextStream;
  readonly #columns: number | undefined;
  readonly #width: number;
  readonly #color: boolean;
  /** Names that had a row in the last table: all keep it, so that a number stays where it was. */
  #rows = new Set<string>();
  #hasWarned = false;
  /** Whether a table is waiting that the stream has not taken in time: no further ones pile up behind it. */
  #isStuck = false;
  /** Settles when the last table is written, refused or given up. */
  #last: Promise<void> = Promise.resolve();

  /** @throws ValueError for invalid options */
  constructor(options: ConsoleOptions = {}) {
    assertOptions('ConsoleWriter', options, {
      stream: 'any',
      columns: 'number',
      width: 'number',
      color: 'boolean',
    });
    const { stream = process.stdout, columns, width = WIDTH, color } = options;
    assertStream(stream);
    this.#stream = stream;
    this.#columns = columns;
    this.#width = width;
    this.#color = color ?? (stream.isTTY === true && !process.env.NO_COLOR);
  }

  /**
   * Prints one table. Its rows and columns stay where they were in the one before; a name that is not there this time
   * has an empty row.
   *
   * A stream that is closed or full, e.g. a pipe whose reader has left, is no error: the process is warned once. So it
   * is with a stream that does not answer for a second; until it does, it gets no further tables.
   *
   * @throws MissingInputError or ValueError for an invalid step, data or point
   */
  write(step: number, data: Readonly<Record<string, number>>, point?: CommitPoint): Promise<void> {
    const written = this.#print(step, data, point);
    this.#last = written.catch(() => undefined);
    return written;
  }

  async #print(step: number, data: Readonly<Record<string, number>>, point?: CommitPoint): Promise<void> {
    assertCommit('ConsoleWriter.write', step, data, point);
    const title = point === undefined ? '' : ` (epoch ${String(point.epoch)}, step ${String(point.step)})`;
    const text = this.#color ? `\x1b[1mstep ${String(step)}\x1b[0m` : `step ${String(step)}`;
    if (this.#isStuck) return;
    const table = this.#table(data);
    const written = writeGuarded(this.#stream, `${text}${title}\n${table}`).catch((error: unknown) => {
      this.#warn(error);
    });
    if (await settlesWithin(LONGEST_WAIT_MS, written)) return;
    this.#warn(new Error('it does not answer'));
    this.#isStuck = true;
    void written.then(() => {
      this.#isStuck = false;
    });
  }

  /** Waits for the last table, as `write` does. The stream belongs to whoever made it. */
  async close(): Promise<void> {
    await this.#last;
  }

  #table(data: Readonly<Record<string, number>>): string {
    const names = Object.keys(data).filter(isShown);
    this.#rows = new Set([...this.#rows, ...names]);
    if (this.#rows.size > MOST_ROWS) this.#rows = new Set(names);
    const { isTTY, columns: terminal } = this.#stream;
    return formatRows(new Map([...this.#rows].map((name) => [name, numberOf(data, name)])), {
      color: this.#color,
      width: isTTY === true && terminal !== undefined ? Math.min(this.#width, terminal) : this.#width,
      numberWidth: NUMBER_WIDTH,
      ...(this.#columns !== undefined && { columns: this.#columns }),
    });
  }

  #warn(error: unknown): void {
    if (this.#hasWarned) return;
    this.#hasWarned = true;
    warn(
      'TENSORTALLY_CONSOLE',
      `ConsoleWriter.write: the stream takes no text (${codeOf(error) ?? messageOf(error)}); tables are missing from it, everything else goes on`,
    );
  }
}

/** @returns whether `work` settles before the time is over, and the event loop has had a turn to say so */
function settlesWithin(milliseconds: number, work: Promise<void>): Promise<boolean> {
  return new Promise((resolve) => {
    let timer = setTimeout(() => {
      timer = setTimeout(resolve, 0, false);
    }, milliseconds);
    void work.then(() => {
      clearTimeout(timer);
      resolve(true);
    });
  });
}

function numberOf(data: Readonly<Record<string, number>>, name: string): number | undefined {
  return Object.hasOwn(data, name) ? data[name] : undefined;
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
