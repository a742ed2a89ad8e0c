/** Counts on TensorFlow's path for GPUs: ops run through the binding, tensors read, bytes of tensors that are alive. */
import type { KernelBackend } from '@tensorflow/tfjs-core';
import { type Counts, Peak } from './counts.js';

interface Output {
  readonly id: number;
  readonly dtype: number;
  readonly shape: readonly number[];
}

interface Binding {
  createTensor(shape: readonly number[], dtype: number, values: unknown): number;
  deleteTensor(id: number): void;
  executeOp(name: string, attributes: unknown, inputs: readonly number[], outputs: number): Output[];
  tensorDataSync(id: number): ArrayBufferView;
}

/** Bytes of an element by TensorFlow's dtype numbers (types.proto): float, double, int32, uint8, int64, bool. */
const ELEMENT_BYTES: Readonly<Record<number, number>> = { 1: 4, 2: 8, 3: 4, 4: 1, 9: 8, 10: 1 };

/** Ops whose result looks at its input's memory: they launch nothing. */
const VIEWS = new Set(['Reshape', 'Bitcast', 'Identity', 'ExpandDims', 'Squeeze']);

export async function countTensorFlow(backend: KernelBackend, body: () => Promise<unknown>): Promise<Counts> {
  // The functions of a native module cannot be replaced, but the backend's handle on the module can.
  const node = backend as unknown as { binding: Binding; isUsingGpuDevice: boolean };
  const { binding, isUsingGpuDevice } = node;
  let [launches, readBacks, readBackBytes] = [0, 0, 0];
  const peak = new Peak();
  const bytesOf = new Map<number, number>();
  const hold = (id: number, shape: readonly number[], dtype: number): void => {
    const bytes = shape.reduce((size, n) => size * n, 1) * (ELEMENT_BYTES[dtype] ?? 4);
    bytesOf.set(id, bytes);
    peak.add(bytes);
  };
  const counting: Binding = {
    createTensor: (shape, dtype, values) => {
      const id = binding.createTensor(shape, dtype, values);
      hold(id, shape, dtype);
      return id;
    },
    deleteTensor: (id) => {
      binding.deleteTensor(id);
      peak.add(-(bytesOf.get(id) ?? 0));
      bytesOf.delete(id);
    },
    executeOp: (name, attributes, inputs, outputs) => {
      const results = binding.executeOp(name, attributes, inputs, outputs);
      if (VIEWS.has(name)) return results;
      launches++;
      for (const { id, shape, dtype } of results) hold(id, shape, dtype);
      return results;
    },
    tensorDataSync: (id) => {
      readBacks++;
      const data = binding.tensorDataSync(id);
      readBackBytes += data.byteLength;
      return data;
    },
  };
  node.binding = Object.create(binding, describe(counting)) as Binding;
  // On a CPU the kernels read host memory and run no ops; what is counted is what a GPU would feel.
  node.isUsingGpuDevice = true;
  try {
    await body();
  } finally {
    node.binding = binding;
    node.isUsingGpuDevice = isUsingGpuDevice;
  }
  return { launches, readBacks, readBackBytes, peakBytes: peak.bytes };
}

function describe(methods: Binding): PropertyDescriptorMap {
  return Object.fromEntries(
    Object.entries(methods).map(([name, value]) => [name, { value: value as unknown }]),
  );
}
