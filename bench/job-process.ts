/** The process that measures: native backends live in their process, so every job gets a fresh one. */
import { BackendError } from '../src/index.js';
import { DisagreementError } from './agreement.js';
import { endWithParent } from './end-with-parent.js';
import { execute } from './execute.js';
import type { Job, JobMessage } from './job.js';
import { scenarioNamed } from './scenarios/index.js';

function say(message: JobMessage): Promise<void> {
  return new Promise((resolve) => {
    process.send!(message, () => {
      resolve();
    });
  });
}

async function measured(job: Job): Promise<JobMessage> {
  try {
    const result = await execute(scenarioNamed(job.scenario)!, job, {
      clock: () => performance.now(),
      onProgress: (text) => void say({ kind: 'progress', text }),
    });
    return { kind: 'result', result };
  } catch (error) {
    if (error instanceof BackendError && error.where === 'initBackend') {
      return { kind: 'unavailable', reason: error.message };
    }
    const isTold = error instanceof BackendError || error instanceof DisagreementError;
    const reason =
      error instanceof Error ? ((isTold ? undefined : error.stack) ?? error.message) : String(error);
    return { kind: 'failed', reason };
  }
}

endWithParent();

process.once('message', (job) => {
  // Ends itself: a backend may keep threads alive.
  void measured(job as Job)
    .then(say)
    .finally(() => process.exit());
});
