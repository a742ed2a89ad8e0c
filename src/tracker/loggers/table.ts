/** Numbers by name as a table of text: sorted names in columns, one number beside each. */
import { assertOptions } from '../../arguments.js';
import { printable } from '../../printable.js';
import { assertNumbers } from './commit.js';

export interface TableOptions {
  /** Characters per line; default unlimited. */
  readonly width?: number;
  /** Most name–number pairs side by side; default 4. */
  readonly columns?: number;
  /** Use colour; default false. */
  readonly color?: boolean;
  /** Characters for a number at least; default: as many as the longest here has. */
  readonly numberWidth?: number;
}

/** Characters of the longest number that `formatNumber` writes. */
export const NUMBER_WIDTH = 11;

/** Fewest characters of a name that is shortened. */
const LEAST_NAME = 8;

/** A cell; both texts are printable. */
interface Pair {
  readonly name: string;
  readonly number: string;
  readonly isFinite: boolean;
}

/**
 * A table of `data`: sorted by name, top to bottom and then to the right, `__count` names left out.
 *
 * As many columns as fit the width, up to `columns`; one always is there. Names that are too long even for one lose
 * their middle. Control characters in names are spelled out.
 *
 * @throws MissingInputError or ValueError for data that is not a record of numbers, or for invalid options
 */
export function formatTable(data: Readonly<Record<string, number>>, options: TableOptions = {}): string {
  assertNumbers('formatTable', data);
  assertOptions('formatTable', options, {
    width: 'number',
    columns: 'number',
    color: 'boolean',
    numberWidth: 'number',
  });
  return formatRows(new Map(Object.entries(data)), options);
}

/** As `formatTable`; undefined is a row whose number is not there this time. */
export function formatRows(
  rows: ReadonlyMap<string, number | undefined>,
  { width = Infinity, columns = 4, color = false, numberWidth = 0 }: TableOptions,
): string {
  const pairs = [...rows]
    .filter(([name]) => isShown(name))
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => ({
      name: printable(name),
      number: value === undefined ? '' : formatNumber(value),
      isFinite: value === undefined || Number.isFinite(value),
    }));
  if (pairs.length === 0) return '(no statistics)\n';
  let layout = layOut(shortened(pairs, width, numberWidth), 1, numberWidth);
  for (let n = Math.min(columns, pairs.length); n > 1; n--) {
    const wider = layOut(pairs, n, numberWidth);
    if (wider.width <= width) {
      layout = wider;
      break;
    }
  }
  return draw(layout, color);
}

/** Counts are for merging, not for people. */
export function isShown(name: string): boolean {
  return !name.endsWith('__count');
}

/** "│ name  number " per column, and the last border. */
const FRAME = 6;

function shortened(pairs: readonly Pair[], width: number, numberWidth: number): readonly Pair[] {
  const numbers = Math.max(numberWidth, widest(pairs.map(({ number }) => number)));
  const room = Math.max(LEAST_NAME, width - numbers - FRAME);
  return pairs.map((pair) => ({ ...pair, name: withoutMiddle(pair.name, room) }));
}

/** What a name begins and ends with tells more than its middle: the scope and the statistic. */
function withoutMiddle(name: string, room: number): string {
  if (widthOf(name) <= room) return name;
  const characters = Array.from(name);
  let [head, tail] = [0, characters.length];
  let left = room - 1;
  for (let isHead = true; head < tail; isHead = !isHead) {
    left -= widthOf(characters[isHead ? head : tail - 1]!);
    if (left < 0) break;
    if (isHead) head++;
    else tail--;
  }
  return `${characters.slice(0, head).join('')}…${characters.slice(tail).join('')}`;
}

interface Layout {
  readonly columns: readonly { pairs: readonly Pair[]; nameWidth: number; numberWidth: number }[];
  readonly rows: number;
  readonly width: number;
}

function layOut(pairs: readonly Pair[], count: number, leastNumber: number): Layout {
  const rows = Math.ceil(pairs.length / count);
  const columns = [];
  for (let start = 0; start < pairs.length; start += rows) {
    const column = pairs.slice(start, start + rows);
    columns.push({
      pairs: column,
      nameWidth: widest(column.map(({ name }) => name)),
      numberWidth: Math.max(leastNumber, widest(column.map(({ number }) => number))),
    });
  }
  const width = columns.reduce((sum, c) => sum + c.nameWidth + c.numberWidth + FRAME - 1, 1);
  return { columns, rows, width };
}

function widest(texts: readonly string[]): number {
  return texts.reduce((width, text) => Math.max(width, widthOf(text)), 0);
}

const PLAIN = /^[ -~]*$/;
const COMBINING = /\p{M}/u;
/** Scripts and pictures that terminals draw two columns wide: East Asian Width W and F (Unicode 17), and emoji. */
const WIDE =
  /[\u1100-\u115f\u2329\u232a\u2630-\u2637\u268a-\u268f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe10-\ufe19\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{16fe0}-\u{18dff}\u{1aff0}-\u{1b2ff}\u{1d300}-\u{1d376}\u{1f200}-\u{1f265}\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}/u;

/** Columns of a terminal that a printable text takes. */
function widthOf(text: string): number {
  if (PLAIN.test(text)) return text.length;
  let width = 0;
  for (const character of text) width += COMBINING.test(character) ? 0 : WIDE.test(character) ? 2 : 1;
  return width;
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
      const margin = ' '.repeat(nameWidth - widthOf(name));
      return ` ${name}${margin}  ${isFinite ? padded : alarm(padded)} `;
    });
    lines.push(dim('│') + cells.join(dim('│')) + dim('│'));
  }
  lines.push(rule('└', '┴', '┘'));
  return lines.join('\n') + '\n';
}

/**
 * Integers in full; other numbers with five significant digits, in scientific notation far from 1. At most
 * `NUMBER_WIDTH` characters.
 */
export function formatNumber(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  const magnitude = Math.abs(value);
  if (Number.isInteger(value) && magnitude < 1e10) return String(value);
  if (magnitude < 1e-3 || magnitude >= 1e7) return value.toExponential(3);
  return value.toFixed(Math.max(0, 4 - Math.floor(Math.log10(magnitude))));
}
