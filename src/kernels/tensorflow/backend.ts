/**
 * The `tensorflow` backend: TensorFlow ops on a GPU, the kernels of the host on a CPU.
 *
 * Without a GPU the tensors are in host memory, and reading them once costs less than any temporary that an op would
 * write: the host's own kernels are several times as fast as the best sequence of ops. Logits are the exception.
 */
import type { Backend } from '../backends/backend.js';
import { readArray } from '../host/arrays.js';
import { hostHistograms } from '../host/histogram.js';
import { tensorflowHost } from '../host/hosts.js';
import { hostMask } from '../host/masks.js';
import { hostMoments } from '../host/moments/loop.js';
import { deviceHistograms } from './composed/histogram.js';
import { composedLogits } from './composed/logits.js';
import { deviceMask } from './composed/masks.js';
import { deviceMoments } from './composed/moments.js';
import { usesGpu } from './composed/ops.js';

const onDevice: Backend = {
  moments: deviceMoments,
  logits: composedLogits,
  histograms: deviceHistograms,
  masks: deviceMask,
};

const onHost: Backend = {
  moments: hostMoments(tensorflowHost),
  logits: composedLogits,
  histograms: hostHistograms(readArray),
  masks: hostMask(tensorflowHost),
};

export const tensorflowBackend: Backend = {
  moments: (request) => (usesGpu(request.backend) ? onDevice : onHost).moments(request),
  logits: composedLogits,
  histograms: (request) => (usesGpu(request.backend) ? onDevice : onHost).histograms(request),
  masks: (backend, mask) => (usesGpu(backend) ? onDevice : onHost).masks(backend, mask),
};
