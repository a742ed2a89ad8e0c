/** `tensortally demo`: trains a small policy with PPO and watches it with this engine. */
import type { CommandModule } from 'yargs';
import { backendNames, type BackendName } from '../kernels/index.js';
import { outliveOutput } from './closed-output.js';
import { shownNumber } from './parser-configuration.js';

interface DemoArguments {
  readonly steps: number | undefined;
  readonly backend: 'auto' | BackendName;
  readonly seed: number;
  readonly out: string | undefined;
  readonly all: boolean;
}

export const demoCommand: CommandModule<object, DemoArguments> = {
  command: 'demo',
  describe: 'Train a small policy with PPO and show its metrics',
  builder: (command) =>
    command
      .option('steps', {
        type: 'number',
        describe: 'Training steps; left out, up to 100 in about two minutes',
        requiresArg: true,
      })
      .option('backend', {
        choices: ['auto', ...backendNames] as const,
        default: 'auto' as const,
        describe: 'Where to run',
        requiresArg: true,
      })
      .option('seed', { type: 'number', default: 1, describe: 'Seed of all randomness', requiresArg: true })
      .option('out', { type: 'string', describe: 'Folder to write the metrics to', requiresArg: true })
      .option('all', { type: 'boolean', default: false, describe: 'Print all metrics of the last step' })
      .check(({ steps, seed }) => {
        if (steps !== undefined && (!Number.isInteger(steps) || steps < 1))
          throw new Error(`--steps must be a whole number of at least 1, got ${shownNumber(steps)}`);
        if (!Number.isInteger(seed) || seed < 0)
          throw new Error(`--seed must be a whole number of at least 0, got ${shownNumber(seed)}`);
        return true;
      }),
  handler: async ({ steps, backend, seed, out, all }) => {
    // Only here: the other commands shall not load a training example.
    const { runDemo } = await import('../../examples/ppo/run.js');
    outliveOutput(); // the journal is what the run is for
    await runDemo({ steps, backend, seed, out, all });
  },
};
