/** The `webgpu` backend: WGSL programs of our own in the command stream of tfjs. */
import type { Backend } from '../backends/backend.js';
import { webgpuHistograms } from './histogram/kernel.js';
import { webgpuLogits } from './logits/kernel.js';
import { webgpuMask } from './masks.js';
import { webgpuMoments } from './moments/kernel.js';

export const webgpuBackend: Backend = {
  moments: webgpuMoments,
  logits: webgpuLogits,
  histograms: webgpuHistograms,
  masks: webgpuMask,
};
