#!/usr/bin/env node
/** The program `tensortally`: hands the command line over and reports the outcome as exit status. */
import { hideBin } from 'yargs/helpers';
import { runCli } from './run-cli.js';

// Whoever reads us may stop reading (`tensortally demo | head`); that is no error.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit(0);
});

process.exitCode = await runCli(hideBin(process.argv));
