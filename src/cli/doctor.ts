/** `tensortally doctor`: which backends run here, on what, whether they compute rightly, and what to do if not. */
import type { CommandModule } from 'yargs';
import { diagnose, examineInProcess } from './doctor/diagnosis.js';
import { describeDiagnosis } from './doctor/description.js';
import { printJson, printLines } from './output.js';

interface DoctorArguments {
  readonly json: boolean;
}

export const doctorCommand: CommandModule<object, DoctorArguments> = {
  command: 'doctor',
  describe: 'Show which backends run here, and check what they compute',
  builder: (command) =>
    command.option('json', { type: 'boolean', default: false, describe: 'Print the findings as JSON' }),
  handler: async ({ json }) => {
    const diagnosis = await diagnose(examineInProcess);
    // Wide enough that a column of words remains on a very narrow terminal.
    const width = Math.max(60, process.stdout.columns || 100);
    if (json) printJson(diagnosis);
    else printLines(describeDiagnosis(diagnosis, width));
    if (!diagnosis.healthy) process.exitCode = 1;
  },
};
