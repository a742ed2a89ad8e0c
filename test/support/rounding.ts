/**
 * How far a device may be off when it computes an expression in its own precision.
 *
 * Running error analysis: beside the float64 value of every part goes a bound on what rounding every operation to
 * within `unit` (relative) can have done to it. Where a comparison could fall on either side, or a value could leave
 * the range of float32, there is no bound, and the element is no test.
 *
 * @source Higham 2002, "Accuracy and Stability of Numerical Algorithms", section 3.3.
 */
import { type Expression, binaryOps, operandsOf, partsOf, unaryOps } from '../../src/kernels/expression.js';

export interface Rounded {
  readonly value: number;
  /** Largest absolute error; Infinity where nothing can be said. */
  readonly error: number;
}

/** Beyond these float32 overflows, and below it may be flushed to zero. */
const LARGEST = 1e38;
const SMALLEST = 2 ** -126;

/** Value and error bound of `expression`, given exact inputs. */
export function roundedValue(expression: Expression, read: (name: string) => number, unit: number): Rounded {
  const known = new Map<Expression, Rounded>();
  for (const part of partsOf([expression])) {
    const operands = operandsOf(part).map((operand) => known.get(operand)!);
    known.set(part, step(part, operands, read, unit));
  }
  return known.get(expression)!;
}

function step(
  part: Expression,
  operands: readonly Rounded[],
  read: (name: string) => number,
  unit: number,
): Rounded {
  if (part.kind === 'input') return { value: read(part.name), error: 0 };
  if (part.kind === 'constant') return { value: part.value, error: unit * Math.abs(part.value) };
  if (part.kind === 'select') {
    const [condition, yes, no] = operands as [Rounded, Rounded, Rounded];
    const isSure = condition.error === 0 || Math.abs(condition.value) > condition.error;
    return isSure ? (condition.value !== 0 ? yes : no) : { value: NaN, error: Infinity };
  }
  const [a, b] = operands as [Rounded, Rounded];
  if (part.kind === 'unary') return rounded(unaryOps[part.op](a.value), inherited(part.op, a), unit, part.op);
  const value = binaryOps[part.op](a.value, b.value);
  if (COMPARISONS.has(part.op)) {
    const doubt = a.error + b.error;
    const isSure = doubt === 0 || Math.abs(a.value - b.value) > doubt;
    return { value, error: isSure ? 0 : Infinity };
  }
  return rounded(value, inheritedFromTwo(part.op, a, b, value), unit, part.op);
}

const COMPARISONS: ReadonlySet<string> = new Set([
  ...['less', 'lessEqual', 'greater', 'greaterEqual', 'equal', 'notEqual'],
]);

/** Operations that add no rounding of their own. */
const EXACT: ReadonlySet<string> = new Set(['negate', 'abs', 'min', 'max']);

function rounded(value: number, before: number, unit: number, op: string): Rounded {
  // A special value of exact operands is certain; one of rounded operands is not.
  if (!Number.isFinite(value)) return { value, error: before === 0 ? 0 : Infinity };
  if (Math.abs(value) > LARGEST) return { value, error: Infinity };
  const own = EXACT.has(op) ? 0 : unit * (Math.abs(value) + before) + SMALLEST;
  return { value, error: before + own };
}

/** What an error of the operand becomes, by the largest slope between the ends of its interval. */
function inherited(op: keyof typeof unaryOps, { value, error }: Rounded): number {
  if (error === 0 || !Number.isFinite(error)) return error;
  const f = unaryOps[op];
  const spread = Math.max(Math.abs(f(value + error) - f(value)), Math.abs(f(value - error) - f(value)));
  // A domain that ends inside the interval leaves nothing to say.
  return Number.isNaN(spread) ? Infinity : 2 * spread;
}

function inheritedFromTwo(op: keyof typeof binaryOps, a: Rounded, b: Rounded, value: number): number {
  if (a.error === 0 && b.error === 0) return 0;
  if (!Number.isFinite(a.error) || !Number.isFinite(b.error)) return Infinity;
  if (op === 'multiply') {
    return Math.abs(a.value) * b.error + Math.abs(b.value) * a.error + a.error * b.error;
  }
  if (op === 'divide') {
    const least = Math.abs(b.value) - b.error;
    return least > 0 ? (a.error + Math.abs(value) * b.error) / least : Infinity;
  }
  return a.error + b.error;
}
