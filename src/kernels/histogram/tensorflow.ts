/** Histograms on the `tensorflow` backend: TensorFlow ops on a GPU, the loop of the host where its memory holds the tensors. */
import { readArray } from '../host-arrays.js';
import { usesGpu } from '../tensorflow-ops.js';
import { hostKernel } from './host-loop.js';
import type { HistogramKernel } from './request.js';
import { deviceHistograms } from './tensorflow-device.js';

const hostHistograms = hostKernel(readArray);

export const tensorflowHistograms: HistogramKernel = (request) =>
  usesGpu(request.backend) ? deviceHistograms(request) : hostHistograms(request);
