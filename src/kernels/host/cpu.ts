/** tfjs' `cpu` backend: tiles of the arrays that hold the tensors, copied to where the SIMD module can read them. */
import type { Backend } from '../backends/backend.js';
import { cpuArray } from './arrays.js';
import { hostHistograms } from './histogram.js';
import { cpuHost } from './hosts.js';
import { cpuLogits } from './logits.js';
import { hostMask } from './masks.js';
import { hostMoments } from './moments/loop.js';

export const cpuBackend: Backend = {
  moments: hostMoments(cpuHost),
  logits: cpuLogits,
  histograms: hostHistograms(cpuArray),
  masks: hostMask(cpuHost),
};
