/**
 * `toBeCloseToReference`: compares numbers with a reference, one bound per element, blind to nothing.
 *
 * The class of a number (NaN, +Infinity, −Infinity, finite) must agree before any distance is taken: |5 − Infinity|
 * is within an infinite bound, and every comparison with NaN is false, so a matcher that only subtracts accepts both.
 */

import { expect } from 'vitest';

/** How far an element may be from its reference r: `abs + rel · |r|`. Both default to 0, which means equal. */
export interface Bound {
  /** One number for all elements, or one per element. */
  readonly abs?: number | ArrayLike<number>;
  readonly rel?: number;
}

/** One element that is not close enough. */
export interface Mismatch {
  readonly index: number;
  readonly actual: number;
  readonly reference: number;
  readonly why: string;
}

function classOf(x: number): string {
  if (Number.isNaN(x)) return 'NaN';
  if (Number.isFinite(x)) return 'finite';
  return x > 0 ? '+Infinity' : '-Infinity';
}

/** Every element of `actual` that differs in class from `reference` or is further from it than `bound` allows. */
export function mismatches(
  actual: ArrayLike<number>,
  reference: ArrayLike<number>,
  bound: Bound,
): Mismatch[] {
  const found: Mismatch[] = [];
  for (let index = 0; index < reference.length; index++) {
    const a = actual[index]!;
    const r = reference[index]!;
    if (classOf(a) !== classOf(r)) {
      const why = `is ${classOf(a)} where the reference is ${classOf(r)}`;
      found.push({ index, actual: a, reference: r, why });
      continue;
    }
    if (!Number.isFinite(r) || a === r) continue;
    const abs = typeof bound.abs === 'object' ? bound.abs[index]! : (bound.abs ?? 0);
    const allowed = abs + (bound.rel ?? 0) * Math.abs(r);
    const error = Math.abs(a - r);
    // Not `error > allowed`: a NaN bound must refuse, too.
    if (error <= allowed) continue;
    const why = `is off by ${error}, ${allowed === 0 ? 'and nothing is allowed' : `${(error / allowed).toPrecision(3)} times the bound ${allowed}`}`;
    found.push({ index, actual: a, reference: r, why });
  }
  return found;
}

const SHOWN = 5;

function matchReference(
  received: number | ArrayLike<number>,
  reference: number | ArrayLike<number>,
  bound: Bound,
): { pass: boolean; message: () => string } {
  const actual = typeof received === 'number' ? [received] : received;
  const wanted = typeof reference === 'number' ? [reference] : reference;
  if (actual.length !== wanted.length) {
    return { pass: false, message: () => `has ${actual.length} elements, the reference ${wanted.length}` };
  }
  const found = mismatches(actual, wanted, bound);
  const lines = found
    .slice(0, SHOWN)
    .map((m) => `  [${m.index}] ${m.actual} (reference ${m.reference}) ${m.why}`);
  return {
    pass: found.length === 0,
    message: () =>
      found.length === 0
        ? `all ${wanted.length} elements are close to the reference`
        : [`${found.length} of ${wanted.length} elements are not close to the reference:`, ...lines].join(
            '\n',
          ),
  };
}

declare module 'vitest' {
  // The type parameter has to be spelled as in the interface that this extends.
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  interface Matchers<T = any> {
    /** Asserts that a number, or every element of a list, has the reference's class and lies within `bound` of it. */
    toBeCloseToReference(reference: number | ArrayLike<number>, bound: Bound): T;
  }
}

expect.extend({ toBeCloseToReference: matchReference });
