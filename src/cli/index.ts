#!/usr/bin/env node
/** The program `tensortally`: hands the command line over and reports the outcome as exit status. */
import { hideBin } from 'yargs/helpers';
import { runCli } from './run-cli.js';

// Whoever reads us may stop reading (`tensortally demo | head`); that is no error. A full disk is one.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0);
  process.stderr.write(`tensortally: cannot write to standard output: ${error.message}\n`);
  process.exit(1);
});

process.exitCode = await runCli(hideBin(process.argv));
