/**
 * Programs as TensorFlow ops.
 *
 * In float64 the ops are the meaning of the nodes, down to the last bits. Float32 is used where it cannot be told from
 * it: for channels that are inputs, chosen or compared, or one sum or difference of them, which is rounded once.
 */
import { type Operation, type ProgramNode, argsOf } from '../../program.js';
import { type CompareOp, type MapOp, type OpScope, RawDtype, type RawTensor, type ZipOp } from './ops.js';

const MAPS: Readonly<Partial<Record<Operation, MapOp>>> = {
  negate: 'Neg',
  abs: 'Abs',
  exp: 'Exp',
  expm1: 'Expm1',
  log: 'Log',
  log1p: 'Log1p',
  square: 'Square',
  sqrt: 'Sqrt',
};

const ZIPS: Readonly<Partial<Record<Operation, ZipOp>>> = {
  add: 'AddV2',
  subtract: 'Sub',
  multiply: 'Mul',
  divide: 'RealDiv',
  min: 'Minimum',
  max: 'Maximum',
};

const COMPARISONS: Readonly<Partial<Record<Operation, CompareOp>>> = {
  less: 'Less',
  lessEqual: 'LessEqual',
  greater: 'Greater',
  greaterEqual: 'GreaterEqual',
  equal: 'Equal',
  notEqual: 'NotEqual',
};

/**
 * The values of the `wanted` nodes, all of one dtype.
 *
 * Values have the shape of the inputs they are made of, so a constant is a scalar.
 *
 * @param read the tensor of an input, of a shape that broadcasts with the others
 */
export function lowerToOps(
  ops: OpScope,
  nodes: readonly ProgramNode[],
  wanted: readonly number[],
  read: (name: string) => RawTensor,
): RawTensor[] {
  const inputs = new Map<string, RawTensor>();
  for (const node of nodes) if (node.op === 'input') inputs.set(node.name, read(node.name));
  const precision = precisionOf(nodes, inputs);
  const isSingle = wanted.every((node) => precision[node] !== 'double');
  const dtype = isSingle ? RawDtype.float32 : RawDtype.float64;
  return new Lowering(ops, nodes, inputs, dtype).values(wanted);
}

/** What float32 makes of a node: its very value, its value rounded once, or something else. */
type Precision = 'exact' | 'rounded' | 'double';

function precisionOf(
  nodes: readonly ProgramNode[],
  inputs: ReadonlyMap<string, RawTensor>,
): readonly Precision[] {
  const precision: Precision[] = [];
  for (const node of nodes) {
    if (node.op === 'input') {
      // int32 has more digits than float32.
      precision.push(inputs.get(node.name)!.dtype === RawDtype.int32 ? 'double' : 'exact');
    } else if (node.op === 'constant') {
      precision.push(Math.fround(node.value) === node.value ? 'exact' : 'double');
    } else {
      const isExact = node.args.every((arg) => precision[arg] === 'exact');
      precision.push(
        !isExact ? 'double' : (ROUNDING.get(node.op) ?? (node.op in COMPARISONS ? 'exact' : 'double')),
      );
    }
  }
  return precision;
}

/** Operations on exact operands that float32 does exactly, or with one rounding of the result. */
const ROUNDING: ReadonlyMap<string, Precision> = new Map<Operation, Precision>([
  ['negate', 'exact'],
  ['abs', 'exact'],
  ['min', 'exact'],
  ['max', 'exact'],
  ['select', 'exact'],
  ['add', 'rounded'],
  ['subtract', 'rounded'],
]);

class Lowering {
  readonly #ops: OpScope;
  readonly #nodes: readonly ProgramNode[];
  readonly #inputs: ReadonlyMap<string, RawTensor>;
  readonly #dtype: RawDtype;
  readonly #hasSigns: boolean;
  readonly #values = new Map<number, RawTensor>();

  constructor(
    ops: OpScope,
    nodes: readonly ProgramNode[],
    inputs: ReadonlyMap<string, RawTensor>,
    dtype: RawDtype,
  ) {
    this.#ops = ops;
    this.#nodes = nodes;
    this.#inputs = inputs;
    this.#dtype = dtype;
    this.#hasSigns = nodes.some(({ op }) => op === 'divide');
  }

  /** The numbers of the `wanted` nodes. What no later node uses is deleted on the way. */
  values(wanted: readonly number[]): RawTensor[] {
    const lastUse = this.#lastUses(wanted);
    this.#nodes.forEach((node, index) => {
      if (!lastUse.has(index)) return;
      this.#values.set(index, this.#lower(node));
      for (const arg of new Set(argsOf(node))) {
        if (lastUse.get(arg) === index && this.#nodes[arg]!.op !== 'constant') this.#release(arg);
      }
    });
    return wanted.map((index) => this.#number(index));
  }

  /** For every node that is needed, the last node that uses it. */
  #lastUses(wanted: readonly number[]): Map<number, number> {
    const lastUse = new Map(wanted.map((index) => [index, Infinity]));
    for (let i = this.#nodes.length - 1; i >= 0; i--) {
      if (!lastUse.has(i)) continue;
      for (const arg of argsOf(this.#nodes[i]!)) if (!lastUse.has(arg)) lastUse.set(arg, i);
    }
    return lastUse;
  }

  #release(index: number): void {
    this.#ops.release(this.#values.get(index)!);
    this.#values.delete(index);
  }

  #lower(node: ProgramNode): RawTensor {
    const ops = this.#ops;
    if (node.op === 'input') return this.#inputs.get(node.name)!;
    if (node.op === 'constant') return this.#constant(node.value);
    const [a, b, c] = node.args as readonly [number, number, number];
    if (node.op === 'select') {
      // Numbers first: a condition that is also a branch becomes a number on the way.
      const [yes, no] = [this.#number(b), this.#number(c)];
      return ops.select(this.#truth(a), yes, no);
    }
    if (node.op === 'expm1Residual') {
      const x = this.#number(a);
      return ops.nest((inner) => inner.sub(inner.map('Expm1', x), x));
    }
    const map = MAPS[node.op];
    if (map !== undefined) return ops.map(map, this.#number(a));
    if (node.op === 'min' || node.op === 'max') return this.#extreme(node.op, a, b);
    const zip = ZIPS[node.op];
    if (zip !== undefined) return ops.zip(zip, this.#number(a), this.#number(b));
    // Stays bool until somebody counts with it: a select takes it as it is.
    return ops.compare(COMPARISONS[node.op]!, this.#number(a), this.#number(b));
  }

  /** The smaller or larger of two. Which of two zeros TensorFlow takes is not said, and only a division tells. */
  #extreme(op: 'min' | 'max', a: number, b: number): RawTensor {
    const [x, y] = [this.#number(a), this.#number(b)];
    const zip = ZIPS[op]!;
    if (!this.#hasSigns || this.#isNotZero(a) || this.#isNotZero(b)) return this.#ops.zip(zip, x, y);
    return this.#ops.nest((ops) => {
      // 0 + −0 is 0, the larger; the smaller by turning both around.
      const zero =
        op === 'max'
          ? ops.zip('AddV2', x, y)
          : ops.map('Neg', ops.zip('AddV2', ops.map('Neg', x), ops.map('Neg', y)));
      const areZero = ops.compare(
        'Equal',
        ops.zip('Maximum', ops.map('Abs', x), ops.map('Abs', y)),
        this.#constant(0),
      );
      return ops.select(areZero, zero, ops.zip(zip, x, y));
    });
  }

  #isNotZero(index: number): boolean {
    const node = this.#nodes[index]!;
    return node.op === 'constant' && node.value !== 0;
  }

  #constant(value: number): RawTensor {
    return this.#dtype === RawDtype.float32 ? this.#ops.scalar(value) : this.#ops.scalar64(value);
  }

  #number(index: number): RawTensor {
    const value = this.#values.get(index)!;
    if (value.dtype === this.#dtype) return value;
    const number = this.#ops.cast(value, this.#dtype);
    this.#ops.release(value);
    this.#values.set(index, number);
    return number;
  }

  #truth(index: number): RawTensor {
    const value = this.#values.get(index)!;
    if (value.dtype === RawDtype.bool) return value;
    const number = this.#number(index);
    return this.#ops.notEqual(number, this.#constant(0));
  }
}
