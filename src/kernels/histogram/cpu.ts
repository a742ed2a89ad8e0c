/** Histograms on tfjs' `cpu` backend. */
import { cpuArray } from '../host-arrays.js';
import { hostKernel } from './host-loop.js';

export const cpuHistograms = hostKernel(cpuArray);
