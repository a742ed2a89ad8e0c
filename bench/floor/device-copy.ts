/**
 * The floor on a GPU: its memory busy with as many bytes as the inputs have, half of them read and half written.
 *
 * That is what the vendors' copy rates count. Fenced by a read-back of four bytes.
 */
import * as tf from '@tensorflow/tfjs-core';

interface GpuBuffer {
  mapAsync(mode: number): Promise<void>;
  unmap(): void;
  destroy(): void;
}

interface Gpu {
  readonly device: {
    createBuffer(descriptor: { size: number; usage: number }): GpuBuffer;
    createCommandEncoder(): {
      copyBufferToBuffer(from: GpuBuffer, fromAt: number, to: GpuBuffer, toAt: number, size: number): void;
      finish(): unknown;
    };
    readonly queue: { submit(commands: readonly unknown[]): void };
  };
}

/** GPUBufferUsage: MAP_READ, COPY_SRC, COPY_DST; fixed by the WebGPU specification. */
const [MAP_READ, COPY_SRC, COPY_DST] = [0x1, 0x4, 0x8];
const READ_MODE = 0x1;

/** A copy that can be run again and again. */
export interface DeviceCopy {
  run(): Promise<void>;
  dispose(): void;
}

/** Through the GPU's own copy command. */
export function webGpuCopy(traffic: number): DeviceCopy {
  const { device } = tf.backend() as unknown as Gpu;
  const size = Math.max(4, Math.ceil(traffic / 8) * 4);
  const from = device.createBuffer({ size, usage: COPY_SRC | COPY_DST });
  const to = device.createBuffer({ size, usage: COPY_SRC | COPY_DST });
  const fence = device.createBuffer({ size: 4, usage: MAP_READ | COPY_DST });
  return {
    run: async () => {
      const encoder = device.createCommandEncoder();
      encoder.copyBufferToBuffer(from, 0, to, 0, size);
      encoder.copyBufferToBuffer(to, size - 4, fence, 0, 4);
      device.queue.submit([encoder.finish()]);
      await fence.mapAsync(READ_MODE);
      fence.unmap();
    },
    dispose: () => {
      for (const buffer of [from, to, fence]) buffer.destroy();
    },
  };
}

/** Through an elementwise op, which TensorFlow runs at the rate of a copy. */
export function tensorFlowCopy(traffic: number): DeviceCopy {
  const from = tf.zeros([Math.max(1, Math.ceil(traffic / 8))]);
  return {
    run: async () => {
      const last = tf.tidy(() => tf.slice(tf.neg(from), [from.size - 1], [1]));
      await last.data();
      last.dispose();
    },
    dispose: () => {
      from.dispose();
    },
  };
}
