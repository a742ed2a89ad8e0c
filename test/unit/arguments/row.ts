/**
 * How a public function is described so that every kind of value can be tried in each of its parameters. Not a test.
 */

/** One value of every kind. */
export const VALUES = {
  undefined: undefined,
  null: null,
  number: 5,
  text: 'text',
  array: [],
  boolean: true,
  bigint: 1n,
  symbol: Symbol('symbol'),
  function: () => undefined,
  object: Object.create(null) as object,
} as const;
export type Kind = keyof typeof VALUES;

/** A parameter: a value that fits, and the kinds that are taken or mean something. */
export interface Parameter {
  readonly fits: unknown;
  readonly takes: readonly Kind[];
  /** Kinds that would be taken and do harm, e.g. open a file of that name. */
  readonly spares?: readonly Kind[];
}

export const name = (fits: string): Parameter => ({ fits, takes: ['text'] });
export const optionalName: Parameter = { fits: 'a', takes: ['text', 'undefined'] };
export const options = (fits: object = {}): Parameter => ({ fits, takes: ['undefined', 'object'] });
export const record = (fits: object): Parameter => ({ fits, takes: ['object'] });
export const number = (fits: number): Parameter => ({ fits, takes: ['number'] });
export const body: Parameter = { fits: () => 7, takes: ['function'] };
/** An option or field: left out where it is undefined. */
export const flag: Parameter = { fits: true, takes: ['undefined', 'boolean'] };
export const count: Parameter = { fits: 3, takes: ['undefined', 'number'] };
export const clock: Parameter = { fits: () => 1, takes: ['undefined', 'function'] };
export const anything: Parameter = { fits: 1, takes: Object.keys(VALUES) as Kind[] };

export interface Row {
  readonly parameters: readonly Parameter[];
  /** Whether a refusal has to be a rejection. */
  readonly isAsync?: boolean;
  readonly call: (...args: never[]) => unknown;
}

/** Functions by the name of their export; `Class#method`, and `function{option}` for what is inside an argument. */
export type Rows = Readonly<Record<string, () => Row>>;
