/** A measuring process must not outlive the program that asked for it: nobody would read the result. */
import { Worker } from 'node:worker_threads';

/** How often it is looked, in milliseconds. */
const INTERVAL = 250;

/**
 * Ends this process soon after its parent, however that ended and whatever this process is computing.
 *
 * `disconnect` alone is heard between two computations only, and one may take minutes; so a thread of its own looks.
 */
export function endWithParent(): void {
  if (!process.connected) process.exit(); // gone while this process was loading
  process.once('disconnect', () => process.exit());
  // A process without a parent gets another one. Windows keeps the number; there, `disconnect` has to do.
  const watch = `
    const parent = ${process.ppid};
    setInterval(() => { if (process.ppid !== parent) process.kill(process.pid, 'SIGKILL'); }, ${INTERVAL});
  `;
  new Worker(watch, { eval: true }).unref();
}
