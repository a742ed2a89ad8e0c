/**
 * What becomes of a command when nobody takes its output any more. Whoever reads it may stop (`tensortally explain |
 * head`); then the command is done, and that is no error. A full disk is one. Training goes on either way: its output
 * is a luxury.
 */
let isLuxury = false;
let hasWarned = false;

/** Ends the process as said above when stdout breaks, unless `outliveOutput` was called. */
export function endWithOutput(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (isLuxury) {
      const reason = error.code ?? error.message;
      if (!hasWarned) console.error(`tensortally: standard output is closed (${reason}); the run goes on`);
      hasWarned = true;
      return;
    }
    if (error.code === 'EPIPE') process.exit(0);
    process.stderr.write(`tensortally: cannot write to standard output: ${error.message}\n`);
    process.exit(1);
  });
}

/** From now on the process goes on when nobody takes its output. */
export function outliveOutput(): void {
  isLuxury = true;
}
