/**
 * The scalar expression language: what a channel computes from the inputs at one element.
 *
 * An expression has one meaning, `evaluate` below: float64 arithmetic on the (float32, int32 or bool) inputs. Every
 * backend lowers the same program to its own code and is tested against that meaning. Numbers stand for constants and
 * strings for inputs: `exp(subtract('oldLogProbs', 'rolloutLogProbs'))`.
 */
import { kindOf } from '../arguments.js';
import { ValueError } from '../errors.js';

/** Functions of one operand. */
export const unaryOps = {
  negate: (x) => -x,
  abs: Math.abs,
  exp: Math.exp,
  expm1: Math.expm1,
  log: Math.log,
  log1p: Math.log1p,
  square: (x) => x * x,
  sqrt: Math.sqrt,
} as const satisfies Record<string, (x: number) => number>;

/** Functions of two operands. Comparisons give 1 or 0; with a NaN they are 0, except `notEqual`. */
export const binaryOps = {
  add: (a, b) => a + b,
  subtract: (a, b) => a - b,
  multiply: (a, b) => a * b,
  divide: (a, b) => a / b,
  min: (a, b) => Math.min(a, b),
  max: (a, b) => Math.max(a, b),
  less: (a, b) => Number(a < b),
  lessEqual: (a, b) => Number(a <= b),
  greater: (a, b) => Number(a > b),
  greaterEqual: (a, b) => Number(a >= b),
  equal: (a, b) => Number(a === b),
  notEqual: (a, b) => Number(a !== b),
} as const satisfies Record<string, (a: number, b: number) => number>;

export type UnaryOp = keyof typeof unaryOps;
export type BinaryOp = keyof typeof binaryOps;

/** A function of the named inputs at one element. Made by the functions below; equal parts are computed once. */
export type Expression =
  | { readonly kind: 'input'; readonly name: string }
  | { readonly kind: 'constant'; readonly value: number }
  | { readonly kind: 'unary'; readonly op: UnaryOp; readonly operand: Expression }
  | { readonly kind: 'binary'; readonly op: BinaryOp; readonly left: Expression; readonly right: Expression }
  | {
      readonly kind: 'select';
      readonly condition: Expression;
      readonly whenTrue: Expression;
      readonly whenFalse: Expression;
    };

/** What the functions below take: an expression, a finite number (a constant) or a string (the input of that name). */
export type Operand = Expression | number | string;

/** The value of the input called `name`. */
export function input(name: string): Expression {
  return inputOf(name, 'expression.input');
}

/** The same finite number at every element; `constant(1)` makes a channel that only counts. */
export function constant(value: number): Expression {
  return constantOf(value, 'expression.constant');
}

/** left + right. */
export const add = (left: Operand, right: Operand): Expression => binary('add', left, right);
/** left − right. */
export const subtract = (left: Operand, right: Operand): Expression => binary('subtract', left, right);
/** left · right. */
export const multiply = (left: Operand, right: Operand): Expression => binary('multiply', left, right);
/** left / right, with ±Infinity or NaN for a zero divisor. */
export const divide = (left: Operand, right: Operand): Expression => binary('divide', left, right);
/** The smaller of two; NaN if either is. */
export const min = (left: Operand, right: Operand): Expression => binary('min', left, right);
/** The larger of two; NaN if either is. */
export const max = (left: Operand, right: Operand): Expression => binary('max', left, right);
/** 1 where left < right, else 0. */
export const less = (left: Operand, right: Operand): Expression => binary('less', left, right);
/** 1 where left ≤ right, else 0. */
export const lessEqual = (left: Operand, right: Operand): Expression => binary('lessEqual', left, right);
/** 1 where left > right, else 0. */
export const greater = (left: Operand, right: Operand): Expression => binary('greater', left, right);
/** 1 where left ≥ right, else 0. */
export const greaterEqual = (left: Operand, right: Operand): Expression =>
  binary('greaterEqual', left, right);
/** 1 where both are the same number, else 0. */
export const equal = (left: Operand, right: Operand): Expression => binary('equal', left, right);
/** 1 where they differ or either is NaN, else 0. */
export const notEqual = (left: Operand, right: Operand): Expression => binary('notEqual', left, right);

/** −x. */
export const negate = (x: Operand): Expression => unary('negate', x);
/** |x|. */
export const abs = (x: Operand): Expression => unary('abs', x);
/** e to the power of x. */
export const exp = (x: Operand): Expression => unary('exp', x);
/** exp(x) − 1 without cancellation near 0; `subtract(expm1(x), x)` has none either. */
export const expm1 = (x: Operand): Expression => unary('expm1', x);
/** Natural logarithm: −Infinity for 0, NaN below. */
export const log = (x: Operand): Expression => unary('log', x);
/** log(1 + x) without cancellation near 0. */
export const log1p = (x: Operand): Expression => unary('log1p', x);
/** x · x. */
export const square = (x: Operand): Expression => unary('square', x);
/** Square root: NaN below 0. */
export const sqrt = (x: Operand): Expression => unary('sqrt', x);

/** `x` held between `low` and `high`; NaN stays NaN. */
export function clamp(x: Operand, low: Operand, high: Operand): Expression {
  const where = 'expression.clamp';
  return min(max(expressionOf(x, where), expressionOf(low, where)), expressionOf(high, where));
}

/** `whenTrue` where `condition` is not 0 (NaN is not 0), else `whenFalse`; what the other one holds never matters. */
export function select(condition: Operand, whenTrue: Operand, whenFalse: Operand): Expression {
  const where = 'expression.select';
  return {
    kind: 'select',
    condition: expressionOf(condition, where),
    whenTrue: expressionOf(whenTrue, where),
    whenFalse: expressionOf(whenFalse, where),
  };
}

function unary(op: UnaryOp, x: Operand): Expression {
  return { kind: 'unary', op, operand: expressionOf(x, `expression.${op}`) };
}

function binary(op: BinaryOp, left: Operand, right: Operand): Expression {
  const where = `expression.${op}`;
  return { kind: 'binary', op, left: expressionOf(left, where), right: expressionOf(right, where) };
}

function inputOf(name: string, where: string): Expression {
  if (typeof name === 'string' && name !== '') return { kind: 'input', name };
  throw invalid(where, 'a name', name);
}

function constantOf(value: number, where: string): Expression {
  if (Number.isFinite(value)) return { kind: 'constant', value };
  throw invalid(where, 'a finite number', value);
}

/**
 * The expression that an operand stands for.
 *
 * @param where the function that the user called, for the message
 * @throws ValueError for anything but an expression
 */
export function expressionOf(operand: Operand, where = 'expression.expressionOf'): Expression {
  if (typeof operand === 'number') return constantOf(operand, where);
  if (typeof operand === 'string') return inputOf(operand, where);
  if (isExpression(operand)) return operand;
  throw invalid(where, 'an expression, a finite number or the name of an input', operand);
}

function isExpression(value: unknown): value is Expression {
  const kind = (value as Partial<Expression> | null)?.kind;
  return (
    kind === 'input' || kind === 'constant' || kind === 'unary' || kind === 'binary' || kind === 'select'
  );
}

function invalid(where: string, expected: string, received: unknown): ValueError {
  return new ValueError({
    where,
    input: 'operand',
    expected,
    received: kindOf(received),
    remedy: "build expressions with the functions of `expression`, e.g. exp(subtract('a', 'b'))",
  });
}

/** The parts that an expression is made of, in order; none for inputs and constants. */
export function operandsOf(expression: Expression): readonly Expression[] {
  switch (expression.kind) {
    case 'input':
    case 'constant':
      return [];
    case 'unary':
      return [expression.operand];
    case 'binary':
      return [expression.left, expression.right];
    case 'select':
      return [expression.condition, expression.whenTrue, expression.whenFalse];
  }
}

/**
 * Every expression object that `roots` are made of, each once, parts before what uses them.
 *
 * Neither depth nor sharing costs: a sum of ten thousand terms needs no stack, and `x = add(x, x)` repeated forty
 * times is forty objects, not 2^40.
 */
export function partsOf(roots: readonly Expression[], where = 'expression.partsOf'): Expression[] {
  const done = new Set<Expression>();
  const waiting = [...roots].reverse();
  while (waiting.length > 0) {
    const next = waiting.at(-1)!;
    if (!isExpression(next) || (next.kind === 'input' && typeof next.name !== 'string')) {
      throw invalid(where, 'an expression', next);
    }
    const missing = done.has(next) ? [] : operandsOf(next).filter((part) => !done.has(part));
    if (missing.length > 0) {
      for (const part of missing.reverse()) waiting.push(part);
    } else {
      done.add(next);
      waiting.pop();
    }
  }
  return [...done];
}

/** The meaning of an expression: its float64 value given the values of the inputs. */
export function evaluate(expression: Expression, read: (name: string) => number): number {
  const values = new Map<Expression, number>();
  for (const part of partsOf([expression], 'expression.evaluate')) {
    const operands = operandsOf(part).map((operand) => values.get(operand)!);
    values.set(part, valueOf(part, operands, read));
  }
  return values.get(expression)!;
}

function valueOf(part: Expression, operands: readonly number[], read: (name: string) => number): number {
  switch (part.kind) {
    case 'input':
      return read(part.name);
    case 'constant':
      return part.value;
    case 'unary':
      return unaryOps[part.op](operands[0]!);
    case 'binary':
      return binaryOps[part.op](operands[0]!, operands[1]!);
    case 'select':
      return operands[0] !== 0 ? operands[1]! : operands[2]!;
  }
}

/** Names of the inputs that `expression` reads, each once, in order of first use. */
export function inputNames(expression: Expression, where = 'expression.inputNames'): string[] {
  const names = partsOf([expression], where).flatMap((part) => (part.kind === 'input' ? [part.name] : []));
  return [...new Set(names)];
}
