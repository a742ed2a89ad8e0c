/**
 * Loads golden files: plain JSON facts with inputs and expected numbers (format 1).
 *
 * It decodes what JSON cannot say (non-finite numbers, tensors by fill or recipe, float32 rounding) and nothing
 * else; which reference a test must meet, and how closely, stays the test's decision.
 */

import { readFileSync } from 'node:fs';

export type GoldenDtype = 'float32' | 'int32' | 'bool';

/** A tensor as it stands in the file. */
export interface TensorSpec {
  readonly shape: readonly number[];
  readonly dtype: GoldenDtype;
  readonly data?: readonly number[];
  readonly fill?: number;
  readonly set?: readonly (readonly [index: number, value: number])[];
  readonly recipe?: SinRecipe;
}

/** `float32(sin(a·row + b·column + c) · s + o)`, evaluated in float64; some columns −Infinity afterwards. */
export interface SinRecipe {
  readonly kind: 'sin';
  readonly a: number;
  readonly b: number;
  readonly c: number;
  readonly s: number;
  readonly o: number;
  readonly negInfWhere?: { readonly columnModulo: number; readonly equals: number };
}

/** A tensor with its numbers, rounded to what the dtype can hold. */
export interface GoldenTensor {
  readonly shape: number[];
  readonly dtype: GoldenDtype;
  readonly values: Float32Array | Int32Array | Uint8Array;
}

export interface Tolerance {
  readonly rel: number;
  readonly abs: number;
}

/** Why a reference refuses; `kind` is our word for it. */
export interface GoldenError {
  readonly kind: string;
  readonly why: string;
  readonly peer?: unknown;
}

/** One expected metric: a number, or one per row. */
export type GoldenValue = number | readonly number[];

/** Metric key → value, as one reference computes it. */
export type GoldenReference = Readonly<Record<string, GoldenValue>>;

export interface GoldenCase {
  readonly id: string;
  readonly note: string;
  readonly inputs: Readonly<Record<string, unknown>>;
  readonly options: Readonly<Record<string, unknown>>;
  /** Reference name → what it says. Read it with `referenceOf`. */
  readonly expected: Readonly<Record<string, GoldenReference | { readonly error: GoldenError }>>;
  /** Every reference refuses. */
  readonly expectedError?: GoldenError;
  readonly expectedTensors?: Readonly<Record<string, TensorSpec>>;
  readonly tolerance: Tolerance;
  readonly toleranceByKey?: Readonly<Record<string, Tolerance>>;
  /** Keys whose value or intermediate leaves the float32 range. */
  readonly outsideFloat32?: readonly string[];
  /** Counts behind the means, e.g. rows and masked tokens. */
  readonly counts?: Readonly<Record<string, unknown>>;
  /** Reference name → keys in which it is known to differ from the recommended value. */
  readonly disagreements?: Readonly<Record<string, readonly string[]>>;
}

export interface GoldenSuite<C extends GoldenCase = GoldenCase> {
  readonly suite: string;
  readonly cases: readonly C[];
}

const NON_FINITE: Readonly<Record<string, number>> = { NaN: NaN, Infinity: Infinity, '-Infinity': -Infinity };

/** Reads `test/golden/<suite>.json`. Strings that spell a non-finite number become that number. */
export function loadGolden<C extends GoldenCase = GoldenCase>(suite: string): GoldenSuite<C> {
  const text = readFileSync(new URL(`../golden/${suite}.json`, import.meta.url), 'utf8');
  const parsed = JSON.parse(text, (_key, value: unknown) =>
    typeof value === 'string' ? (NON_FINITE[value] ?? value) : value,
  ) as GoldenSuite<C> & { format: number };
  if (parsed.format !== 1) throw new Error(`${suite}.json has format ${parsed.format}, this loader reads 1`);
  return parsed;
}

/** Whether an input of a case describes a tensor. */
export function isTensorSpec(input: unknown): input is TensorSpec {
  return typeof input === 'object' && input !== null && 'shape' in input && 'dtype' in input;
}

/** The numbers of a tensor, row-major, rounded to its dtype. */
export function decodeTensor(spec: TensorSpec): GoldenTensor {
  const size = spec.shape.reduce((a, b) => a * b, 1);
  const storage = { float32: Float32Array, int32: Int32Array, bool: Uint8Array }[spec.dtype];
  const values = new storage(size);
  if (spec.data !== undefined) {
    if (spec.data.length !== size) {
      throw new Error(`a tensor of shape [${spec.shape.join(', ')}] has ${spec.data.length} elements`);
    }
    values.set(spec.data);
  } else if (spec.recipe !== undefined) {
    const { a, b, c, s, o, negInfWhere } = spec.recipe;
    const columns = spec.shape.at(-1) ?? 1;
    for (let i = 0; i < size; i++) {
      const column = i % columns;
      const removed = negInfWhere ? column % negInfWhere.columnModulo === negInfWhere.equals : false;
      values[i] = removed ? -Infinity : Math.sin(a * Math.floor(i / columns) + b * column + c) * s + o;
    }
  } else if (spec.fill !== undefined) {
    values.fill(spec.fill);
    for (const [index, value] of spec.set ?? []) values[index] = value;
  } else {
    throw new Error('a tensor needs data, fill or recipe');
  }
  return { shape: [...spec.shape], dtype: spec.dtype, values };
}

/** All tensors among the inputs of a case, decoded. */
export function decodeInputs(inputs: Readonly<Record<string, unknown>>): Record<string, GoldenTensor> {
  const tensors: Record<string, GoldenTensor> = {};
  for (const [name, input] of Object.entries(inputs)) {
    if (isTensorSpec(input)) tensors[name] = decodeTensor(input);
  }
  return tensors;
}

/** The tolerance of one metric of a case. */
export function toleranceOf(golden: GoldenCase, key: string): Tolerance {
  return golden.toleranceByKey?.[key] ?? golden.tolerance;
}

/**
 * The first of the named references that the case has, e.g. `referenceOf(c, 'recommended', 'float64')` for what a
 * correct engine should report. Undefined if it has none of them.
 */
export function referenceOf(
  golden: GoldenCase,
  ...names: readonly string[]
): GoldenReference | { readonly error: GoldenError } | undefined {
  const name = names.find((candidate) => candidate in golden.expected);
  return name === undefined ? undefined : golden.expected[name];
}

/** Whether a reference refuses instead of giving numbers. */
export function isRefusal(
  reference: GoldenReference | { readonly error: GoldenError },
): reference is { readonly error: GoldenError } {
  return 'error' in reference;
}
