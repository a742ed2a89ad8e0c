/** What is found out about one backend, in a process of its own, and how that process tells. */
import { messageOf } from '../../arguments.js';
import { BackendError } from '../../errors.js';
import { initBackend, type BackendName, type BackendReport } from '../../kernels/index.js';
import { selfCheck } from './self-check.js';

/** `passed`: runs and computes rightly. `unavailable`: cannot run here. `failed`, `crashed`: it should, but does not. */
export type Examination =
  | { readonly outcome: 'passed'; readonly report: BackendReport }
  | { readonly outcome: 'unavailable'; readonly reason: string; readonly remedy: string }
  | { readonly outcome: 'failed'; readonly reason: string; readonly report?: BackendReport }
  | { readonly outcome: 'crashed'; readonly reason: string };

/** Starts the backend in this process and checks what it computes. */
export async function examine(name: 'auto' | BackendName): Promise<Examination> {
  let report: BackendReport;
  try {
    report = await initBackend(name);
  } catch (error) {
    if (!(error instanceof BackendError)) return { outcome: 'failed', reason: messageOf(error) };
    const { expected, received, remedy } = error;
    return { outcome: 'unavailable', reason: `expected ${expected}, got ${received}`, remedy };
  }
  try {
    const wrong = await selfCheck();
    return wrong === undefined ? { outcome: 'passed', report } : { outcome: 'failed', reason: wrong, report };
  } catch (error) {
    return { outcome: 'failed', reason: messageOf(error), report };
  }
}
