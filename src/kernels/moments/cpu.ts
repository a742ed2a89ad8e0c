/** Masked moments on tfjs' `cpu` backend: tiles of the arrays that hold the tensors, copied to a memory of our own. */
import { cpuHost } from '../hosts.js';
import { hostKernel } from './host-loop.js';

export const cpuMoments = hostKernel(cpuHost);
