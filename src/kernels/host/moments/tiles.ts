/**
 * Programs as SIMD operations on tiles: every node is computed for some thousand elements before the next one.
 *
 * A plan says in which order and in which buffers. Buffers are float64 and few: one is free again as soon as the last
 * node that reads it has. What is the same for the whole tile, a constant or one value per row, is a cell instead.
 */
import { type Operation, type ProgramNode, argsOf } from '../../program.js';
import type { SimdExports } from '../../simd/instance.js';

/** Where an operand is: in the buffer or the cell of that index. */
export type Place = { readonly buffer: number } | { readonly cell: number };

/** Where the values of a node are: an input that nothing is computed from is where it always was. */
export type Source = Place | { readonly input: string };

/**
 * What is done for a tile, in this order: loads of inputs as float64, differences of two inputs, other operations, and
 * the delivery of a node as soon as it is computed.
 */
export type TileStep =
  | { readonly kind: 'load'; readonly input: string; readonly buffer: number }
  | { readonly kind: 'difference'; readonly inputs: readonly [string, string]; readonly buffer: number }
  | {
      readonly kind: 'compute';
      readonly op: Operation;
      readonly args: readonly Place[];
      readonly buffer: number;
    }
  | { readonly kind: 'deliver'; readonly node: number; readonly from: Source };

export interface TilePlan {
  readonly steps: readonly TileStep[];
  /** Number of buffers. */
  readonly buffers: number;
  /** What the cells hold: a constant, or the value of the input of that name. */
  readonly cells: readonly (number | string)[];
}

export type InputKind = 'float32' | 'other' | 'cell';

/**
 * The plan of a program.
 *
 * @param delivered the nodes whose values are wanted; inputs among them are delivered as they are, not widened
 * @param kindOf how the tiles of an input are: of float32, of something else, or a `cell`, the same for all elements
 */
export function planTiles(
  nodes: readonly ProgramNode[],
  delivered: ReadonlySet<number>,
  kindOf: (input: string) => InputKind,
): TilePlan {
  const steps: TileStep[] = [];
  const cells: (number | string)[] = [];
  const places = new Map<number, Place>();
  const buffers = new BufferPool();
  const lastUse = new Map<number, number>();
  nodes.forEach((node, index) => {
    for (const arg of argsOf(node)) lastUse.set(arg, index);
  });

  const placeOf = (index: number): Place => {
    let place = places.get(index);
    const node = nodes[index]!;
    if (place === undefined && node.op === 'input') {
      // Loaded late, so that it is still in the cache for its first use.
      place = { buffer: buffers.take() };
      places.set(index, place);
      steps.push({ kind: 'load', input: node.name, buffer: place.buffer });
    }
    return place!;
  };

  /** The inputs of a difference of two float32 that nothing has loaded yet. */
  const differenceOf = (node: ProgramNode): readonly [string, string] | undefined => {
    if (node.op !== 'subtract') return undefined;
    const names = node.args.flatMap((arg) => {
      const operand = nodes[arg]!;
      const isReady = places.has(arg) || operand.op !== 'input' || kindOf(operand.name) !== 'float32';
      return isReady ? [] : [operand.name];
    });
    return names.length === 2 ? [names[0]!, names[1]!] : undefined;
  };

  nodes.forEach((node, index) => {
    if (node.op === 'constant' || (node.op === 'input' && kindOf(node.name) === 'cell')) {
      places.set(index, { cell: cells.push(node.op === 'constant' ? node.value : node.name) - 1 });
    } else if (node.op !== 'input') {
      const difference = differenceOf(node);
      const args = difference === undefined ? node.args.map(placeOf) : [];
      // The result may go where an operand was: operations are element by element.
      for (const arg of new Set(node.args)) {
        const place = places.get(arg);
        if (lastUse.get(arg) === index && place !== undefined && 'buffer' in place)
          buffers.release(place.buffer);
      }
      const buffer = buffers.take();
      places.set(index, { buffer });
      steps.push(
        difference === undefined
          ? { kind: 'compute', op: node.op, args, buffer }
          : { kind: 'difference', inputs: difference, buffer },
      );
    }
    if (!delivered.has(index)) return;
    const place = places.get(index);
    steps.push({
      kind: 'deliver',
      node: index,
      from: place ?? { input: (node as { readonly name: string }).name },
    });
    if (place !== undefined && 'buffer' in place && !lastUse.has(index)) buffers.release(place.buffer);
  });
  return { steps, buffers: buffers.size, cells };
}

/** Buffers by number, the lowest free one first. */
class BufferPool {
  size = 0;
  readonly #free: number[] = [];

  take(): number {
    return this.#free.pop() ?? this.size++;
  }

  release(buffer: number): void {
    this.#free.push(buffer);
  }
}

/** An operand at its address: 16 bytes further for every two elements, or 0, a cell. */
export interface Operand {
  readonly address: number;
  readonly step: 0 | 16;
}

/** The function that computes `op` for the first `n` elements of its operands and writes them to `out`. */
export function computation(
  simd: SimdExports,
  op: Operation,
  args: readonly Operand[],
  out: number,
): (n: number) => void {
  if (op === 'select') {
    const [a, b, c] = args as readonly [Operand, Operand, Operand];
    return (n) => {
      simd.choose(a.address, a.step, b.address, b.step, c.address, c.step, out, n);
    };
  }
  if (op in UNARY) {
    const compute = simd[UNARY[op as keyof typeof UNARY]];
    const [a] = args as readonly [Operand];
    return (n) => {
      compute(a.address, a.step, out, n);
    };
  }
  const [first, second] = args as readonly [Operand, Operand];
  const [a, b] = op === 'greater' || op === 'greaterEqual' ? [second, first] : [first, second];
  const compute = simd[BINARY[op as keyof typeof BINARY]];
  return (n) => {
    compute(a.address, a.step, b.address, b.step, out, n);
  };
}

const UNARY = {
  negate: 'negate',
  abs: 'absolute',
  exp: 'exponential',
  expm1: 'expm1',
  expm1Residual: 'expm1Residual',
  log: 'logarithm',
  log1p: 'log1p',
  square: 'square',
  sqrt: 'squareRoot',
} as const satisfies Partial<Record<Operation, keyof SimdExports>>;

const BINARY = {
  add: 'add',
  subtract: 'subtract',
  multiply: 'multiply',
  divide: 'divide',
  min: 'smaller',
  max: 'larger',
  less: 'less',
  lessEqual: 'lessEqual',
  // With exchanged operands.
  greater: 'less',
  greaterEqual: 'lessEqual',
  equal: 'equal',
  notEqual: 'notEqual',
} as const satisfies Record<Exclude<Operation, keyof typeof UNARY | 'select'>, keyof SimdExports>;
