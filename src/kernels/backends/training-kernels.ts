/** Which kernels a training step of tfjs needs beyond a forward pass, and which of them a backend lacks. */
import { getKernel } from '@tensorflow/tfjs-core';

/**
 * The kernels that tfjs-core 4.22 runs for gradients alone; a test holds the list to its sources. All else that
 * gradients and optimizers run is arithmetic, which every backend has.
 */
const GRADIENT_KERNELS = [
  'AvgPool3DGrad',
  'AvgPoolGrad',
  'Conv2DBackpropFilter',
  'Conv2DBackpropInput',
  'Conv3DBackpropFilterV2',
  'Conv3DBackpropInputV2',
  'DepthwiseConv2dNativeBackpropFilter',
  'DepthwiseConv2dNativeBackpropInput',
  'Dilation2DBackpropFilter',
  'Dilation2DBackpropInput',
  'EluGrad',
  'LRNGrad',
  'MaxPool3DGrad',
  'MaxPoolGrad',
  'ResizeBilinearGrad',
  'ResizeNearestNeighborGrad',
  'UnsortedSegmentSum',
] as const;

function hasKernel(kernel: string, backend: string): boolean {
  return (getKernel(kernel, backend) as unknown) !== undefined;
}

/** Kernels that gradients need and that `backend` has none of: layers with these gradients cannot be trained on it. */
export function missingTrainingKernels(backend: string): string[] {
  return GRADIENT_KERNELS.filter((kernel) => !hasKernel(kernel, backend));
}
