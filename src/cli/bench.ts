/** `tensortally bench`: what the statistics cost here, against composed operations, torch, and reading the bytes. */
import type { CommandModule } from 'yargs';
import { backendNames, type BackendName } from '../kernels/index.js';
import { parserConfiguration, shownNumber } from './parser-configuration.js';

interface BenchArguments {
  readonly scenarios: string[] | undefined;
  readonly backend: ('auto' | BackendName)[] | undefined;
  readonly size: ('tiny' | 'small' | 'medium' | 'large')[] | undefined;
  readonly rounds: number;
  readonly seconds: number;
  readonly torch: string | undefined;
  readonly threads: number;
  readonly json: boolean;
  readonly check: boolean;
}

export const benchCommand: CommandModule<object, BenchArguments> = {
  command: 'bench [scenarios..]',
  describe: 'Measure what the statistics cost on this machine',
  builder: async (command) => {
    // Only here: the other commands shall not load the benchmarks.
    const { scenarios } = await import('../../bench/scenarios/index.js');
    const width = Math.max(...scenarios.map(({ name }) => name.length));
    return (
      command
        // Else only the last scenario would count.
        .parserConfiguration({ ...parserConfiguration, 'duplicate-arguments-array': true })
        .positional('scenarios', {
          type: 'string',
          array: true,
          describe: 'What to measure; left out, everything',
        })
        .option('backend', {
          array: true,
          nargs: 1,
          choices: ['auto', ...backendNames] as const,
          describe:
            'Where to run, again for another; left out, the best backend here, and with --check every one',
        })
        .option('size', {
          array: true,
          nargs: 1, // else it would take the scenarios behind it
          choices: ['tiny', 'small', 'medium', 'large'] as const,
          // No default here: yargs would take it where the value is forgotten.
          describe: 'How much data, again for another size; left out, medium; --check brings its own sizes',
        })
        .option('rounds', {
          type: 'number',
          default: 9,
          describe: 'Rounds at least; in each, every way runs once',
          requiresArg: true,
        })
        .option('seconds', {
          type: 'number',
          default: 10,
          describe: 'Time for the rounds of one measurement',
          requiresArg: true,
        })
        .option('torch', {
          type: 'string',
          describe: 'A Python with torch to compare with',
          requiresArg: true,
        })
        .option('threads', {
          type: 'number',
          default: 2,
          describe: 'Threads of torch and TensorFlow',
          requiresArg: true,
        })
        .option('json', { type: 'boolean', default: false, describe: 'Print the results as JSON' })
        .option('check', {
          type: 'boolean',
          default: false,
          describe: 'Measure what must be reached, and fail if it is not',
        })
        .check(({ rounds, seconds, threads, torch }) => {
          for (const [name, value] of Object.entries<unknown>({ rounds, seconds, threads, torch })) {
            if (Array.isArray(value)) throw new Error(`--${name} is given twice`);
          }
          for (const [name, count] of Object.entries({ rounds, threads })) {
            if (!Number.isInteger(count) || count < 1)
              throw new Error(`--${name} must be a whole number of at least 1, got ${shownNumber(count)}`);
          }
          if (!(seconds >= 0))
            throw new Error(`--seconds must be a number of at least 0, got ${shownNumber(seconds)}`);
          return true;
        })
        .epilogue(
          [
            'Scenarios:',
            ...scenarios.map(({ name, describe }) => `  ${name.padEnd(width)}  ${describe}`),
          ].join('\n'),
        )
    );
  },
  handler: async ({ scenarios, backend, size, rounds, seconds, ...rest }) => {
    const { runBench } = await import('../../bench/run.js');
    if (rest.torch !== undefined) {
      const { assertTorch } = await import('../../bench/peers/torch.js');
      await assertTorch(rest.torch);
    }
    const succeeded = await runBench({
      scenarios: scenarios ?? [],
      backends: backend ?? [],
      sizes: size ?? ['medium'],
      minRounds: rounds,
      budgetSeconds: seconds,
      ...rest,
    });
    if (!succeeded) process.exitCode = 1;
  },
};
