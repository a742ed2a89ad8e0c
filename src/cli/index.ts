#!/usr/bin/env node
/** The program `tensortally`: hands the command line over and reports the outcome as exit status. */
import { hideBin } from 'yargs/helpers';
import { runCli } from './run-cli.js';

process.exitCode = await runCli(hideBin(process.argv));
