/** What a backend does to make a mask compact. */
import type { KernelBackend, Tensor } from '@tensorflow/tfjs-core';
import type { MaskStorage } from './compact-mask.js';

/**
 * Stores a checked mask, an element of which selects unless it is zero. The tensor may be disposed as soon as this
 * returns.
 */
export type MaskKernel = (backend: KernelBackend, mask: Tensor) => MaskStorage;
