/**
 * Raw TensorFlow ops through the node backend's binding.
 *
 * tfjs offers no float64, but the binding runs any TensorFlow op on any TensorFlow dtype. `OpScope` calls ops by name
 * on raw tensor handles and deletes every handle that was not kept; its methods are named after the ops they run.
 */
import type { KernelBackend, TensorInfo } from '@tensorflow/tfjs-core';
import { messageOf } from '../../../arguments.js';
import { BackendError } from '../../../errors.js';

/** A handle of a tensor inside TensorFlow. */
export interface RawTensor {
  readonly id: number;
  readonly dtype: RawDtype;
}

/** TensorFlow's own numbers for the dtypes used here (tensorflow/core/framework/types.proto). */
export const RawDtype = { float32: 1, float64: 2, int32: 3, int64: 9, bool: 10 } as const;
export type RawDtype = (typeof RawDtype)[keyof typeof RawDtype];

/** Elementwise ops by the number of their operands, under TensorFlow's names. */
export type MapOp = 'Neg' | 'Abs' | 'Exp' | 'Expm1' | 'Log' | 'Log1p' | 'Square' | 'Sqrt';
export type ZipOp = 'AddV2' | 'Sub' | 'Mul' | 'RealDiv' | 'Minimum' | 'Maximum';
export type CompareOp = 'Less' | 'LessEqual' | 'Greater' | 'GreaterEqual' | 'Equal' | 'NotEqual';

interface OpAttribute {
  readonly name: string;
  readonly type: number;
  readonly value: number | boolean;
}

/** The native binding, as far as it is used here. */
interface Binding {
  readonly TF_ATTR_TYPE: number;
  readonly TF_ATTR_BOOL: number;
  readonly TF_ATTR_INT: number;
  createTensor(shape: readonly number[], dtype: number, values: Float32Array | Int32Array): number;
  deleteTensor(id: number): void;
  executeOp(
    name: string,
    attributes: readonly OpAttribute[],
    inputs: readonly number[],
    outputs: number,
  ): { readonly id: number; readonly dtype: number; readonly shape: readonly number[] }[];
  tensorDataSync(id: number): ArrayBufferView;
}

/** The node backend, as far as it is used here. */
interface NodeBackend {
  readonly binding: Binding;
  readonly isUsingGpuDevice: boolean;
  getInputTensorIds(tensors: readonly TensorInfo[]): number[];
}

const RAW_DTYPE_OF = new Map<string, RawDtype>([
  ['float32', RawDtype.float32],
  ['int32', RawDtype.int32],
  ['bool', RawDtype.bool],
]);

/** Runs `body` with a fresh scope on `backend` and deletes what the body did not `keep`, also when it throws. */
export function withOps<T>(backend: KernelBackend, where: string, body: (ops: OpScope) => T): T {
  const ops = new OpScope(backend as unknown as NodeBackend, where);
  try {
    return body(ops);
  } finally {
    ops.close();
  }
}

/** Whether TensorFlow keeps the tensors of this backend on a GPU. */
export function usesGpu(backend: KernelBackend): boolean {
  return (backend as unknown as NodeBackend).isUsingGpuDevice;
}

/** Deletes a tensor that a scope has let go of with `keep`. */
export function deleteRaw(backend: KernelBackend, { id }: RawTensor): void {
  (backend as unknown as NodeBackend).binding.deleteTensor(id);
}

/** TensorFlow ops by name. Results belong to the scope. */
export class OpScope {
  readonly #backend: NodeBackend;
  readonly #where: string;
  readonly #owned = new Set<number>();
  /** Small constants of this scope by what they hold: making one costs about as much as an op. */
  readonly #constants = new Map<string, RawTensor>();

  constructor(backend: NodeBackend, where: string) {
    this.#backend = backend;
    this.#where = where;
  }

  /** The handle behind a tfjs tensor. It stays the tensor's. */
  input(info: TensorInfo): RawTensor {
    const [id] = this.#backend.getInputTensorIds([info]);
    return { id: id!, dtype: RAW_DTYPE_OF.get(info.dtype)! };
  }

  /** A float32 scalar. */
  scalar(value: number): RawTensor {
    return this.#constant(`scalar ${signed(value)}`, () =>
      this.#create([], RawDtype.float32, Float32Array.of(value)),
    );
  }

  /** A float64 scalar. The binding makes no float64 tensors, so it is summed from float32 parts, scaled into range. */
  scalar64(value: number): RawTensor {
    return this.#constant(`scalar64 ${signed(value)}`, () => {
      if (Math.fround(value) === value || !Number.isFinite(value))
        return this.cast(this.scalar(value), RawDtype.float64);
      const up = Math.abs(value) < 2 ** -70;
      const inRange = up || Math.abs(value) > 2 ** 120 ? this.#scaled(value, up ? 100 : -100) : undefined;
      if (inRange !== undefined) return inRange;
      const high = Math.fround(value);
      const middle = Math.fround(value - high);
      const parts = [high, middle, value - high - middle].map((part) =>
        this.cast(this.scalar(part), RawDtype.float64),
      );
      return parts.reduce((sum, part) => this.zip('AddV2', sum, part));
    });
  }

  #scaled(value: number, exponent: number): RawTensor {
    return this.zip('Mul', this.scalar64(value * 2 ** exponent), this.scalar64(2 ** -exponent));
  }

  /** An int32 vector: shapes, axes and the like, which TensorFlow keeps in host memory. */
  ints(...values: number[]): RawTensor {
    return this.#constant(`ints ${values.join()}`, () =>
      this.#create([values.length], RawDtype.int32, Int32Array.from(values)),
    );
  }

  reshape(x: RawTensor, ...shape: number[]): RawTensor {
    return this.#run(
      'Reshape',
      [this.#type('T', x), this.#tshape('Tshape')],
      [x, this.ints(...shape)],
      x.dtype,
    );
  }

  slice(x: RawTensor, begin: readonly number[], size: readonly number[]): RawTensor {
    return this.#run(
      'Slice',
      [this.#type('T', x), this.#tshape('Index')],
      [x, this.ints(...begin), this.ints(...size)],
      x.dtype,
    );
  }

  broadcastTo(x: RawTensor, ...shape: number[]): RawTensor {
    return this.#run(
      'BroadcastTo',
      [this.#type('T', x), this.#tshape('Tidx')],
      [x, this.ints(...shape)],
      x.dtype,
    );
  }

  /** `x` itself if it has that dtype already. */
  cast(x: RawTensor, dtype: RawDtype): RawTensor {
    if (x.dtype === dtype) return x;
    const attributes = [
      this.#type('SrcT', x),
      this.#dtype('DstT', dtype),
      { name: 'Truncate', type: this.#backend.binding.TF_ATTR_BOOL, value: false },
    ];
    return this.#run('Cast', attributes, [x], dtype);
  }

  /** The same bits as another dtype of the same width. */
  bitcast(x: RawTensor, dtype: RawDtype): RawTensor {
    return this.#run('Bitcast', [this.#type('T', x), this.#dtype('type', dtype)], [x], dtype);
  }

  /** Stacks tensors of one shape and dtype along a new first axis. */
  pack(xs: readonly RawTensor[]): RawTensor {
    const attributes = [this.#int('N', xs.length), this.#type('T', xs[0]!), this.#int('axis', 0)];
    return this.#run('Pack', attributes, xs, xs[0]!.dtype);
  }

  /** Joins tensors of one dtype along an axis, by default the first. */
  concat(xs: readonly RawTensor[], axis = 0): RawTensor {
    if (xs.length === 1) return xs[0]!;
    const attributes = [this.#int('N', xs.length), this.#type('T', xs[0]!), this.#tshape('Tidx')];
    return this.#run('ConcatV2', attributes, [...xs, this.#index(axis)], xs[0]!.dtype);
  }

  select(condition: RawTensor, yes: RawTensor, no: RawTensor): RawTensor {
    return this.#run('SelectV2', [this.#type('T', yes)], [condition, yes, no], yes.dtype);
  }

  logicalAnd(a: RawTensor, b: RawTensor): RawTensor {
    return this.#run('LogicalAnd', [], [a, b], RawDtype.bool);
  }

  isFinite(x: RawTensor): RawTensor {
    return this.#run('IsFinite', [this.#type('T', x)], [x], RawDtype.bool);
  }

  isNan(x: RawTensor): RawTensor {
    return this.#run('IsNan', [this.#type('T', x)], [x], RawDtype.bool);
  }

  equal(a: RawTensor, b: RawTensor): RawTensor {
    return this.compare('Equal', a, b);
  }

  notEqual(a: RawTensor, b: RawTensor): RawTensor {
    return this.compare('NotEqual', a, b);
  }

  sub(a: RawTensor, b: RawTensor): RawTensor {
    return this.zip('Sub', a, b);
  }

  /** An elementwise op of one operand that keeps its dtype. */
  map(op: MapOp, x: RawTensor): RawTensor {
    return this.#run(op, [this.#type('T', x)], [x], x.dtype);
  }

  /** An elementwise op of two operands of one dtype that keeps it. */
  zip(op: ZipOp, a: RawTensor, b: RawTensor): RawTensor {
    return this.#run(op, [this.#type('T', a)], [a, b], a.dtype);
  }

  /** A comparison of two operands of one dtype; bool. */
  compare(op: CompareOp, a: RawTensor, b: RawTensor): RawTensor {
    const attributes = [this.#type('T', a)];
    if (op === 'Equal' || op === 'NotEqual') {
      attributes.push({
        name: 'incompatible_shape_error',
        type: this.#backend.binding.TF_ATTR_BOOL,
        value: true,
      });
    }
    return this.#run(op, attributes, [a, b], RawDtype.bool);
  }

  sum(x: RawTensor, ...axes: number[]): RawTensor {
    return this.#reduce('Sum', x, axes);
  }

  /** Square root of the sum of squares. */
  euclideanNorm(x: RawTensor, ...axes: number[]): RawTensor {
    return this.#reduce('EuclideanNorm', x, axes);
  }

  min(x: RawTensor, ...axes: number[]): RawTensor {
    return this.#reduce('Min', x, axes);
  }

  max(x: RawTensor, ...axes: number[]): RawTensor {
    return this.#reduce('Max', x, axes);
  }

  /** a · b, which is 0 wherever b is 0, also where a is infinite or NaN. */
  mulNoNan(a: RawTensor, b: RawTensor): RawTensor {
    return this.#run('MulNoNan', [this.#type('T', a)], [a, b], a.dtype);
  }

  /** The elements of each row of a matrix `x` that the same row of the int64 matrix `columns` names. */
  gatherColumns(x: RawTensor, columns: RawTensor): RawTensor {
    const attributes = [
      this.#type('Tparams', x),
      this.#type('Tindices', columns),
      this.#dtype('Taxis', RawDtype.int32),
      this.#int('batch_dims', 1),
    ];
    return this.#run('GatherV2', attributes, [x, columns, this.#index(1)], x.dtype);
  }

  /** How often each integer from 0 to below `size` occurs in an int32 vector, as int32. */
  countIntegers(x: RawTensor, size: number): RawTensor {
    const { binding } = this.#backend;
    const attributes = [
      this.#dtype('Tidx', RawDtype.int32),
      this.#dtype('T', RawDtype.int32),
      { name: 'binary_output', type: binding.TF_ATTR_BOOL, value: false },
    ];
    // No weights: each counts as one.
    return this.#run('DenseBincount', attributes, [x, this.#index(size), this.ints()], RawDtype.int32);
  }

  /** Runs `body` in a scope of its own; only its result lives on, in this one. Keeps the peak of temporaries low. */
  nest(body: (inner: OpScope) => RawTensor): RawTensor {
    const inner = new OpScope(this.#backend, this.#where);
    try {
      const result = inner.keep(body(inner));
      this.#owned.add(result.id);
      return result;
    } finally {
      inner.close();
    }
  }

  /** Deletes `x` if it is a result of this scope; the tensors of others stay. */
  release(x: RawTensor): void {
    if (this.#owned.delete(x.id)) this.#backend.binding.deleteTensor(x.id);
  }

  /** Takes `x` out of the scope; the caller deletes it. */
  keep(x: RawTensor): RawTensor {
    this.#owned.delete(x.id);
    return x;
  }

  /** The numbers of a float64 tensor. Waits for the device. */
  readFloat64(x: RawTensor): ArrayBuffer {
    // The binding reads int64 but not float64.
    const bits = this.#backend.binding.tensorDataSync(this.bitcast(x, RawDtype.int64).id);
    return bits.buffer.slice(bits.byteOffset, bits.byteOffset + bits.byteLength) as ArrayBuffer;
  }

  /** Deletes everything that was not kept. */
  close(): void {
    for (const id of this.#owned) this.#backend.binding.deleteTensor(id);
    this.#owned.clear();
  }

  #reduce(name: string, x: RawTensor, axes: readonly number[]): RawTensor {
    const attributes = [
      this.#type('T', x),
      this.#tshape('Tidx'),
      { name: 'keep_dims', type: this.#backend.binding.TF_ATTR_BOOL, value: true },
    ];
    return this.#run(name, attributes, [x, this.ints(...axes)], x.dtype);
  }

  /** An int32 scalar, for the number of an axis. */
  #index(value: number): RawTensor {
    return this.#constant(`index ${value}`, () => this.#create([], RawDtype.int32, Int32Array.of(value)));
  }

  #constant(key: string, make: () => RawTensor): RawTensor {
    const known = this.#constants.get(key);
    if (known !== undefined) return known;
    const made = make();
    this.#constants.set(key, made);
    return made;
  }

  #create(shape: readonly number[], dtype: RawDtype, values: Float32Array | Int32Array): RawTensor {
    const id = this.#backend.binding.createTensor(shape, dtype, values);
    this.#owned.add(id);
    return { id, dtype };
  }

  #run(
    name: string,
    attributes: readonly OpAttribute[],
    inputs: readonly RawTensor[],
    dtype: RawDtype,
  ): RawTensor {
    try {
      const [output] = this.#backend.binding.executeOp(
        name,
        attributes,
        inputs.map((x) => x.id),
        1,
      );
      this.#owned.add(output!.id);
      return { id: output!.id, dtype };
    } catch (cause) {
      throw new BackendError(
        {
          where: this.#where,
          expected: `TensorFlow to run its op ${name}`,
          received: messageOf(cause),
          remedy:
            'free device memory or pass fewer elements at once; `tensortally doctor` checks the installation',
        },
        { cause },
      );
    }
  }

  #type(name: string, x: RawTensor): OpAttribute {
    return this.#dtype(name, x.dtype);
  }

  #tshape(name: string): OpAttribute {
    return this.#dtype(name, RawDtype.int32);
  }

  #dtype(name: string, dtype: RawDtype): OpAttribute {
    return { name, type: this.#backend.binding.TF_ATTR_TYPE, value: dtype };
  }

  #int(name: string, value: number): OpAttribute {
    return { name, type: this.#backend.binding.TF_ATTR_INT, value };
  }
}

/** A number as text that tells −0 from 0. */
function signed(value: number): string {
  return Object.is(value, -0) ? '-0' : String(value);
}
