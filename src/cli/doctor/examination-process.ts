/** The process in which one backend is examined: its name is the argument, the finding goes to the parent by IPC. */
import type { BackendName } from '../../kernels/index.js';
import { examine } from './examination.js';

const finding = await examine(process.argv[2] as 'auto' | BackendName);
// Ends itself: a backend may keep threads alive.
process.send?.(finding, () => process.exit());
