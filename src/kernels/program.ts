/**
 * The program of a pass: the expressions of all its channels as one list of nodes, each computed once.
 *
 * Compiling folds constants, joins equal parts across channels and replaces the forms that cancel in float32
 * (`exp(x) − 1`, `log(1 + x)`, `expm1(x) − x`) by operations that do not. Every rule holds for −0 as well: 1 / −0 is not
 * 1 / 0. What a backend lowers is this list; nodes
 * only use nodes before them.
 */
import { kindOf } from '../arguments.js';
import { ValueError } from '../errors.js';
import {
  type BinaryOp,
  type Expression,
  type UnaryOp,
  binaryOps,
  operandsOf,
  partsOf,
  unaryOps,
} from './expression.js';

/** What a backend has to be able to compute. `expm1Residual` is expm1(x) − x; `select` takes a condition first. */
export type Operation = UnaryOp | BinaryOp | 'select' | 'expm1Residual';

/** One value per element. */
export type ProgramNode =
  | { readonly op: 'input'; readonly name: string }
  | { readonly op: 'constant'; readonly value: number }
  | { readonly op: Operation; readonly args: readonly number[] };

/** Nodes in the order in which they can be computed, and the node of every expression that was compiled. */
export interface Program {
  readonly nodes: readonly ProgramNode[];
  readonly outputs: readonly number[];
}

/**
 * The program that computes `expressions`, in their order.
 *
 * @param where the function that the user called, for messages
 */
export function compile(expressions: readonly Expression[], where = 'expression'): Program {
  const parts = partsOf(expressions, where);
  // Only a division tells the zeros apart.
  const hasSigns = parts.some((part) => part.kind === 'binary' && part.op === 'divide');
  const builder = new Builder(hasSigns, where);
  const compiled = new Map<Expression, number>();
  for (const part of parts) {
    const args = operandsOf(part).map((operand) => compiled.get(operand)!);
    compiled.set(part, builder.lower(part, args));
  }
  return prune({ nodes: builder.nodes, outputs: expressions.map((expression) => compiled.get(expression)!) });
}

/** The part of a program that computes the given ones of its nodes, in that order. */
export function prune({ nodes, outputs }: Program): Program {
  const used = new Set(outputs);
  for (let i = nodes.length - 1; i >= 0; i--) {
    if (used.has(i)) for (const arg of argsOf(nodes[i]!)) used.add(arg);
  }
  if (used.size === nodes.length) return { nodes, outputs };
  const kept = nodes.map((_, i) => i).filter((i) => used.has(i));
  const position = new Map(kept.map((old, i) => [old, i]));
  return {
    nodes: kept.map((i) => {
      const node = nodes[i]!;
      return 'args' in node ? { ...node, args: node.args.map((arg) => position.get(arg)!) } : node;
    }),
    outputs: outputs.map((output) => position.get(output)!),
  };
}

/** Names of the inputs that a program reads, in order of first use. */
export function programInputs({ nodes }: Pick<Program, 'nodes'>): string[] {
  return nodes.flatMap((node) => (node.op === 'input' ? [node.name] : []));
}

/** The nodes that a node uses. */
export function argsOf(node: ProgramNode): readonly number[] {
  return 'args' in node ? node.args : [];
}

function unknownOperation(where: string, op: unknown): ValueError {
  return new ValueError({
    where,
    input: 'op',
    expected: `one of ${[...Object.keys(unaryOps), ...Object.keys(binaryOps)].join(', ')}`,
    received: typeof op === 'string' ? op : kindOf(op),
    remedy: 'build expressions with the functions of `expression`',
  });
}

/** Operations whose operands may be exchanged. */
const COMMUTATIVE: ReadonlySet<string> = new Set(['add', 'multiply', 'min', 'max', 'equal', 'notEqual']);

/** The same text for nodes that say the same, and only for those. */
function signatureOf(node: ProgramNode): string {
  if (node.op === 'input') return `input ${node.name}`;
  // 1 / 0 is not 1 / −0.
  if (node.op === 'constant') return `constant ${Object.is(node.value, -0) ? '-0' : node.value}`;
  return `${node.op}(${node.args.join()})`;
}

class Builder {
  readonly nodes: ProgramNode[] = [];
  /** Index of every node by what it says, so that the same is never computed twice. */
  readonly #known = new Map<string, number>();
  readonly #hasSigns: boolean;

  readonly #where: string;

  /** @param hasSigns whether the sign of a zero may matter */
  constructor(hasSigns: boolean, where: string) {
    this.#hasSigns = hasSigns;
    this.#where = where;
  }

  lower(part: Expression, args: readonly number[]): number {
    switch (part.kind) {
      case 'input':
        return this.#add({ op: 'input', name: part.name });
      case 'constant':
        // Made by hand: `constant` refuses what is not finite.
        if (Number.isFinite(part.value)) return this.#constant(part.value);
        throw unknownOperation(this.#where, `a constant that is ${kindOf(part.value)}`);
      case 'unary':
        if (Object.hasOwn(unaryOps, part.op)) return this.#unary(part.op, args[0]!);
        throw unknownOperation(this.#where, part.op);
      case 'binary':
        if (Object.hasOwn(binaryOps, part.op)) return this.#binary(part.op, args[0]!, args[1]!);
        throw unknownOperation(this.#where, part.op);
      case 'select':
        return this.#select(args[0]!, args[1]!, args[2]!);
    }
  }

  #add(node: ProgramNode): number {
    const key = signatureOf(node);
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    this.#known.set(key, this.nodes.length);
    return this.nodes.push(node) - 1;
  }

  #constant(value: number): number {
    return this.#add({ op: 'constant', value });
  }

  #valueOf(index: number): number | undefined {
    const node = this.nodes[index]!;
    return node.op === 'constant' ? node.value : undefined;
  }

  /** Operand of the node `index` if that is the unary operation `op`. */
  #operandOf(index: number, op: Operation): number | undefined {
    const node = this.nodes[index]!;
    return node.op === op && 'args' in node ? node.args[0] : undefined;
  }

  #unary(op: UnaryOp, x: number): number {
    const value = this.#valueOf(x);
    const folded = value === undefined ? NaN : unaryOps[op](value);
    // An infinity or NaN is left to the backends: not all of them can write one as a constant.
    if (Number.isFinite(folded)) return this.#constant(folded);
    if (op === 'log') {
      const rest = this.#withoutOne(x);
      if (rest !== undefined) return this.#positiveZero(this.#add({ op: 'log1p', args: [rest] }));
    }
    return this.#add({ op, args: [x] });
  }

  #binary(op: BinaryOp, left: number, right: number): number {
    const [a, b] = [this.#valueOf(left), this.#valueOf(right)];
    const folded = a === undefined || b === undefined ? NaN : binaryOps[op](a, b);
    if (Number.isFinite(folded)) return this.#constant(folded);
    // −0 + 0 and −0 − −0 are 0.
    if (op === 'add' && Object.is(b, -0)) return left;
    if (op === 'add' && Object.is(a, -0)) return right;
    if (op === 'subtract' && Object.is(b, 0)) return left;
    if (b === 1 && (op === 'multiply' || op === 'divide')) return left;
    if (a === 1 && op === 'multiply') return right;
    if (op === 'multiply' && left === right) return this.#unary('square', left);
    if (op === 'subtract' || op === 'add') {
      const accurate = this.#withoutCancellation(op, left, right);
      if (accurate !== undefined) return accurate;
    }
    const args = COMMUTATIVE.has(op) && left > right ? [right, left] : [left, right];
    return this.#add({ op, args });
  }

  /** `exp(x) − 1`, `expm1(x) − x` and `exp(x) − x − 1` as operations that keep their digits near 0. */
  #withoutCancellation(op: 'add' | 'subtract', left: number, right: number): number | undefined {
    const sign = op === 'add' ? 1 : -1;
    if (op === 'subtract' && this.#operandOf(this.#withoutZero(left), 'expm1') === right) {
      return this.#add({ op: 'expm1Residual', args: [right] });
    }
    const isMinusOne = (index: number): boolean => this.#valueOf(index) === -sign;
    const minuend = isMinusOne(right) ? left : op === 'add' && isMinusOne(left) ? right : undefined;
    if (minuend === undefined) return undefined;
    const power = this.#operandOf(minuend, 'exp');
    if (power !== undefined) return this.#positiveZero(this.#add({ op: 'expm1', args: [power] }));
    const node = this.nodes[minuend]!;
    if (node.op !== 'subtract') return undefined;
    const [first, second] = node.args as readonly [number, number];
    return this.#operandOf(first, 'exp') === second
      ? this.#add({ op: 'expm1Residual', args: [second] })
      : undefined;
  }

  /** A node that may be −0 in place of one that is 0 then. */
  #positiveZero(index: number): number {
    return this.#hasSigns ? this.#add({ op: 'add', args: [index, this.#constant(0)] }) : index;
  }

  /** `x` if the node is `#positiveZero` of x. */
  #withoutZero(index: number): number {
    const node = this.nodes[index]!;
    return node.op === 'add' && Object.is(this.#valueOf(node.args[1]!), 0) ? node.args[0]! : index;
  }

  /** `x` if the node is 1 + x. */
  #withoutOne(index: number): number | undefined {
    const node = this.nodes[index]!;
    if (node.op !== 'add') return undefined;
    const [left, right] = node.args as readonly [number, number];
    if (this.#valueOf(left) === 1) return right;
    return this.#valueOf(right) === 1 ? left : undefined;
  }

  #select(condition: number, whenTrue: number, whenFalse: number): number {
    const known = this.#valueOf(condition);
    if (known !== undefined) return known !== 0 ? whenTrue : whenFalse;
    if (whenTrue === whenFalse) return whenTrue;
    return this.#add({ op: 'select', args: [condition, whenTrue, whenFalse] });
  }
}
