/** The floor of a work: reading its bytes once, on the processor that the active backend uses. */
import type { BackendReport } from '../../src/index.js';
import { tensorFlowCopy, webGpuCopy } from './device-copy.js';
import { SimdRead } from './simd-read.js';

export interface Floor {
  /** How it reads, for people. */
  readonly describe: string;
  readonly run: () => Promise<unknown>;
  readonly dispose: () => void;
}

export function floorOf({ backend, isGpu }: BackendReport, bytes: number): Floor {
  if (backend === 'webgpu') return { describe: 'device copy', ...webGpuCopy(bytes) };
  if (isGpu) return { describe: 'device copy', ...tensorFlowCopy(bytes) };
  const reading = new SimdRead(bytes);
  // Pages that were never written are all one page of zeros to the operating system.
  reading.words.forEach((_, i, words) => (words[i] = i));
  return {
    describe: 'SIMD sum on one thread',
    run: () => Promise.resolve(reading.read()),
    dispose: () => undefined,
  };
}
