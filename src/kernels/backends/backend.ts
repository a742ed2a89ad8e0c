/** What a backend is for the operations: one kernel for each of them. */
import type { HistogramKernel } from '../histogram/request.js';
import type { LogitsKernel } from '../logits/request.js';
import type { MaskKernel } from '../masks/request.js';
import type { MomentsKernel } from '../moments/request.js';

/** The kernels of a backend. An operation is one more of them: a backend without it does not compile. */
export interface Backend {
  readonly moments: MomentsKernel;
  readonly logits: LogitsKernel;
  readonly histograms: HistogramKernel;
  readonly masks: MaskKernel;
}
