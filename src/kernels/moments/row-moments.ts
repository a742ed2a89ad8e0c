/** Finished moments of many rows: an array of them, and their columns. */
import { Moments, type NonFinitePolicy, meanOf, MomentsTable } from '../../rows/index.js';

/** Where the rows of a `RowMoments` come from. */
interface Source {
  readonly table: MomentsTable;
  readonly nonFinite: NonFinitePolicy;
  /** Whether the elements exist, and may have been changed. */
  isTouched: boolean;
}

const sources = new WeakMap<object, Source>();

type Column = 'count' | 'nan' | 'posInf' | 'negInf' | 'sum' | 'mean' | 'm2' | 'min' | 'max';

/** Where `MomentsTable.cells` has the columns that are stored. */
const CELL: Readonly<Partial<Record<Column, number>>> = { count: 0, sum: 4, m2: 5, min: 6, max: 7 };

/**
 * Moments per row, `rows[i].mean`, which can also be read by column, `rows.mean[i]`.
 *
 * An array, but its elements are made when the first of them is touched: one object of ten numbers per row costs more
 * than the reduction itself, and a column needs none of them. Methods that make new arrays (`map`, `filter`, `slice`)
 * return plain arrays; `[...rows]` can be sent to a worker, the rows themselves cannot.
 */
export class RowMoments extends Array<Moments> {
  static override get [Symbol.species](): ArrayConstructor {
    return Array;
  }

  /** Finishes every row of a table. */
  static fromTable(table: MomentsTable, nonFinite: NonFinitePolicy = 'propagate'): RowMoments {
    const rows = new RowMoments();
    rows.length = table.length;
    const proxy = new Proxy(rows, whenTouched);
    const source: Source = { table, nonFinite, isTouched: false };
    sources.set(rows, source);
    sources.set(proxy, source);
    return proxy;
  }

  get count(): Float64Array {
    return column(this, 'count');
  }
  get nan(): Float64Array {
    return column(this, 'nan');
  }
  get posInf(): Float64Array {
    return column(this, 'posInf');
  }
  get negInf(): Float64Array {
    return column(this, 'negInf');
  }
  get sum(): Float64Array {
    return column(this, 'sum');
  }
  get mean(): Float64Array {
    return column(this, 'mean');
  }
  get m2(): Float64Array {
    return column(this, 'm2');
  }
  get min(): Float64Array {
    return column(this, 'min');
  }
  get max(): Float64Array {
    return column(this, 'max');
  }

  /** What `console.log` shows: the elements, which it would otherwise look for behind our back. */
  [Symbol.for('nodejs.util.inspect.custom')](): Moments[] {
    return [...this];
  }

  /** `variance(correction)` of every row. */
  variance(correction = 1): Float64Array {
    const { count, m2 } = this;
    return count.map((n, i) => (n > correction ? m2[i]! / (n - correction) : NaN));
  }

  /** `std(correction)` of every row. */
  std(correction = 1): Float64Array {
    return this.variance(correction).map(Math.sqrt);
  }
}

/** What can be asked of the rows without making them. */
const COLUMNS: ReadonlySet<string | symbol> = new Set<string>([
  ...['count', 'nan', 'posInf', 'negInf', 'sum', 'mean', 'm2', 'min', 'max'],
  ...['variance', 'std', 'length', 'constructor', 'then'],
]);

/** Makes the elements before anything sees or changes them. */
const whenTouched: ProxyHandler<RowMoments> = {
  get: (rows, key, receiver) => Reflect.get(COLUMNS.has(key) ? rows : filled(rows), key, receiver) as unknown,
  set: (rows, key, value) => Reflect.set(filled(rows), key, value),
  has: (rows, key) => Reflect.has(filled(rows), key),
  deleteProperty: (rows, key) => Reflect.deleteProperty(filled(rows), key),
  defineProperty: (rows, key, attributes) => Reflect.defineProperty(filled(rows), key, attributes),
  preventExtensions: (rows) => Reflect.preventExtensions(filled(rows)),
  ownKeys: (rows) => Reflect.ownKeys(filled(rows)),
  getOwnPropertyDescriptor: (rows, key) => Reflect.getOwnPropertyDescriptor(filled(rows), key),
};

function filled(rows: RowMoments): RowMoments {
  const source = sources.get(rows);
  if (source !== undefined && !source.isTouched) {
    source.isTouched = true;
    const { table, nonFinite } = source;
    for (let i = 0; i < table.length; i++) rows[i] = new Moments(table.row(i), nonFinite);
  }
  return rows;
}

/** A column, from the table where the rows have one. */
function column(rows: RowMoments, name: Column): Float64Array {
  const source = sources.get(rows);
  if (source === undefined || source.isTouched) return Float64Array.from(rows, (row) => row[name]);
  const { table, nonFinite } = source;
  const { cells, length } = table;
  const values = new Float64Array(length);
  const cell = CELL[name];
  for (let i = 0, at = 0; i < length; i++, at += MomentsTable.WIDTH) {
    const strange = cells[at + 1]! + cells[at + 2]! + cells[at + 3]!;
    // Neither does a row whose sum is beyond float64 hold its numbers as they are.
    if (cells[at] === 0 || strange > 0 || !Number.isFinite(cells[at + 4]!))
      values[i] = new Moments(table.row(i), nonFinite)[name];
    else if (cell !== undefined) values[i] = cells[at + cell]!;
    else if (name === 'mean') {
      values[i] = meanOf(cells[at + 4]!, cells[at]!, cells[at + 6]!, cells[at + 7]!, cells[at + 5]!);
    }
  }
  return values;
}
