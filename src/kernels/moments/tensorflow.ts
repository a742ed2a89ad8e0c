/**
 * Masked moments on the `tensorflow` backend: TensorFlow ops on a GPU, the SIMD module on a CPU.
 *
 * Without a GPU the tensors are in host memory, and reading them once costs less than any temporary that an op would
 * write: the host's own kernel is several times as fast as the best sequence of ops.
 */
import { tensorflowHost } from '../hosts.js';
import { usesGpu } from '../tensorflow-ops.js';
import { hostKernel } from './host-loop.js';
import type { MomentsKernel } from './request.js';
import { deviceMoments } from './tensorflow-device.js';

const hostMoments = hostKernel(tensorflowHost);

export const tensorflowMoments: MomentsKernel = (request) =>
  usesGpu(request.backend) ? deviceMoments(request) : hostMoments(request);
