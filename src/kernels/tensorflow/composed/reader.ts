/** Results on the `tensorflow` backend that wait to be read: one transfer for all of them. */
import type { KernelBackend } from '@tensorflow/tfjs-core';
import type { BlockReader } from '../../collect.js';
import { type RawTensor, deleteRaw, withOps } from './ops.js';

/** A float64 tensor on the device that waits to be read, and the number of its elements. */
export interface Float64Block {
  readonly tensor: RawTensor;
  readonly length: number;
}

const readers = new WeakMap<KernelBackend, BlockReader<Float64Block>>();

/** Reads float64 blocks of one node backend: joined on the device, transferred once. */
export function tensorflowReader(backend: KernelBackend): BlockReader<Float64Block> {
  const known = readers.get(backend);
  if (known !== undefined) return known;
  const reader: BlockReader<Float64Block> = {
    // The binding reads synchronously; the promise only keeps one interface for all devices.
    read: (blocks) =>
      Promise.resolve().then(() =>
        withOps(backend, 'collect', (ops) => {
          const [first, ...others] = blocks.map(({ tensor }) => tensor);
          if (others.length === 0) return [ops.readFloat64(first!)];
          const flat = [first!, ...others].map((tensor) => ops.reshape(tensor, -1));
          const bytes = ops.readFloat64(ops.concat(flat));
          let end = 0;
          return blocks.map(({ length }) => bytes.slice(end, (end += length * 8)));
        }),
      ),
    release: ({ tensor }) => {
      deleteRaw(backend, tensor);
    },
  };
  readers.set(backend, reader);
  return reader;
}
