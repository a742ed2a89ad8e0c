/** `tensortally link-tensorflow`: gives the node package the native binding that npm could not download. */
import { existsSync } from 'node:fs';
import { constants } from 'node:os';
import path from 'node:path';
import type { CommandModule } from 'yargs';
import { printLines } from './output.js';
import {
  hostSurroundings,
  linkTensorFlow,
  unlinkTensorFlow,
  type LinkOutcome,
  type Unlinked,
} from './link/link.js';
import { Interruption, interruptible } from './link/run-command.js';

interface LinkArguments {
  readonly python: string;
  readonly unlink: boolean;
}

export const linkTensorFlowCommand: CommandModule<object, LinkArguments> = {
  command: 'link-tensorflow',
  describe: 'Build the TensorFlow binding against the TensorFlow of a Python environment',
  builder: (command) =>
    command
      .option('python', {
        type: 'string',
        default: 'python3',
        describe: 'Interpreter whose TensorFlow (2.16 or later; tensorflow or tensorflow-cpu) is linked',
        requiresArg: true,
      })
      .option('unlink', {
        type: 'boolean',
        default: false,
        describe: 'Undo it: restore what was there before',
      }),
  handler: async ({ python, unlink }) => {
    const say = (line: string): void => {
      printLines([line]);
    };
    const surroundings = hostSurroundings(say);
    try {
      const lines = await interruptible(async () =>
        unlink
          ? undone(await unlinkTensorFlow(surroundings))
          : summary(await linkTensorFlow(python, surroundings)),
      );
      for (const line of lines) say(line);
    } catch (error) {
      if (!(error instanceof Interruption)) throw error;
      console.error(`Interrupted (${error.signal}); what was begun is cleared away.`);
      process.exitCode = 128 + constants.signals[error.signal];
    }
  },
};

const whatUndone = {
  nothing: 'Nothing to undo',
  restored: 'Unlinked; the binding from before is back',
  'removed-binding': 'Unlinked; the package is without a binding again',
  'removed-package': 'Unlinked; the package, which this command had fetched, is removed',
} as const;

/** What the command says after undoing. */
export function undone(removals: readonly Unlinked[]): string[] {
  const effective = removals.filter(({ removal }) => removal !== 'nothing');
  if (effective.length === 0) return ['Nothing to undo: no binding here was made by this command.'];
  const lines = effective.map(({ directory, removal }) => `${whatUndone[removal]} (${directory}).`);
  // npm counts what it finds in node_modules and did not put there, and what that was the last to need.
  if (effective.some(({ removal }) => removal === 'removed-package'))
    lines.push('If `npm ls` now calls packages extraneous, `npm prune` removes them.');
  return lines;
}

/** What the command says at its end. */
export function summary({ built, directory, tensorflow, operation }: LinkOutcome): string[] {
  const lines = [
    built ? `Linked ${directory}` : `${directory} is already linked to this TensorFlow`,
    `  to ${tensorflow.libtensorflow}`,
    `  and ${tensorflow.framework}.`,
    `Checked: 1.5 - 2 + 4 = ${operation.sum} on TensorFlow ${operation.tensorflowVersion}, ` +
      `${operation.usesGpu ? 'on a GPU' : 'on the CPU (no GPU in use)'}.`,
  ];
  if (tensorflow.build === 'cuda' && !operation.usesGpu) lines.push(noGpuAdvice(tensorflow.directory));
  return lines;
}

function noGpuAdvice(directory: string): string {
  const nvidia = path.join(path.dirname(directory), 'nvidia');
  const reason =
    'This is a CUDA build, but TensorFlow found no GPU: see `nvidia-smi`, and set TF_CPP_MIN_LOG_LEVEL=0 for its reasons.';
  return existsSync(nvidia)
    ? `${reason} If it misses CUDA libraries, put ${nvidia}/*/lib into LD_LIBRARY_PATH.`
    : `${reason} Its CUDA libraries come with \`pip install tensorflow[and-cuda]\`.`;
}
