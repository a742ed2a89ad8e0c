#!/usr/bin/env node
/** The program `tensortally`: hands the command line over and reports the outcome as exit status. */
import { hideBin } from 'yargs/helpers';
import { endWithOutput } from './closed-output.js';
import { runCli } from './run-cli.js';

endWithOutput();
process.exitCode = await runCli(hideBin(process.argv));
