/** The frame of all commands: parsing, help, and how errors are told. The commands are in the files beside this. */
import { inspect } from 'node:util';
import yargs from 'yargs';
import { TensortallyError } from '../errors.js';
import { meantName } from '../meant-name.js';
import { printable, printableLines } from '../printable.js';
import { benchCommand } from './bench.js';
import { demoCommand } from './demo.js';
import { doctorCommand } from './doctor.js';
import { explainCommand } from './explain.js';
import { linkTensorFlowCommand } from './link-tensorflow.js';
import { ownPackage } from '../own-package.js';
import { parserConfiguration } from './parser-configuration.js';

/**
 * Runs one command line.
 *
 * A refusal (`TensortallyError`) and a wrong command line are told in a sentence; with --verbose or DEBUG set, and for
 * every other error, the stack is shown too.
 *
 * @param words the command line without node and script
 * @returns the exit status: 0, or 1 if anything failed
 */
export async function runCli(words: readonly string[]): Promise<number> {
  const [given, behind] = splitAtDashes(words);
  const parser = yargs([...given, ...behind])
    .scriptName('tensortally')
    .usage('$0 <command> [options]')
    .command(doctorCommand)
    .command(linkTensorFlowCommand)
    .command(demoCommand)
    .command(benchCommand)
    .command(explainCommand)
    .option('verbose', {
      type: 'boolean',
      default: false,
      describe: 'Show the stack of an error',
      global: true,
    })
    .parserConfiguration(parserConfiguration)
    .demandCommand(1, NAMELESS)
    .check((values) => {
      // yargs takes any other value of a flag for false: `bench --check=yes` would check nothing.
      const flag = given.map((word) => /^--([^=]+)=(?!(?:true|false)$)/.exec(word)?.[1]);
      const refused = flag.find((name) => name !== undefined && typeof values[name] === 'boolean');
      if (refused !== undefined) throw new Error(`--${refused} takes no value`);
      return true;
    })
    .strict()
    .recommendCommands()
    .version(ownPackage().version)
    .help()
    .wrap(Math.min(100, process.stdout.columns || 100))
    .exitProcess(false)
    .fail((message: string | null, error: Error | undefined, usage: unknown) => {
      // There is a message only where the command line does not fit; what a command throws comes without.
      if (message === null && error !== undefined) throw error;
      const isNameless = message === NAMELESS;
      throw new UsageError(
        (isNameless ? unknownOption(words) : undefined) ?? withMeant(message, usage) ?? 'Unknown error.',
      );
    });
  try {
    const option = behind.find((word) => word.startsWith('-'));
    if (option !== undefined) throw new UsageError(`Unknown argument: ${option}`);
    await parser.parseAsync();
    return process.exitCode === undefined ? 0 : Number(process.exitCode);
  } catch (error) {
    if (isUsageError(error)) {
      // yargs repeats the words; a newline in one of them must not become one of the message.
      const shown = words.some((word) => word.includes('\n')) ? printable : printableLines;
      const command = commandNames.find((name) => name === words[0]);
      console.error(shown(error.message));
      console.error(
        `\`tensortally ${command === undefined ? '' : `${command} `}--help\` shows what there is.`,
      );
      return 1;
    }
    const isVerbose = words.includes('--verbose') || Boolean(process.env.DEBUG);
    const isTold = error instanceof TensortallyError && !isVerbose;
    console.error(printableLines(isTold ? `${error.name}: ${error.message}` : inspect(error)));
    return 1;
  }
}

/** The words before and behind `--`, for which yargs has no place among the arguments of a command. */
function splitAtDashes(words: readonly string[]): [given: readonly string[], behind: readonly string[]] {
  const at = words.indexOf('--');
  return at < 0 ? [words, []] : [words.slice(0, at), words.slice(at + 1)];
}

const commandNames = ['doctor', 'link-tensorflow', 'demo', 'bench', 'explain'];

/** What is said where no command is named. */
const NAMELESS = 'Name a command.';

/** Options that go without a command. */
const generalOptions = ['verbose', 'version', 'help'];

/** What is wrong with the options of a command line without a command, of which yargs looks at the command alone. */
function unknownOption(words: readonly string[]): string | undefined {
  const names = words.flatMap((word) => /^--?([^-=][^=]*)/.exec(word)?.[1] ?? []);
  const unknown = names.find((name) => !generalOptions.includes(name));
  if (unknown === undefined) return undefined;
  const meant = meantName(unknown, generalOptions);
  return `Unknown argument: ${unknown}${meant === undefined ? '' : `\nDid you mean --${meant}?`}`;
}

/** What yargs says of an unknown option, with the one of the command that is meant. */
function withMeant(message: string | null, usage: unknown): string | undefined {
  const unknown = /^Unknown argument: (\S+)$/.exec(message ?? '')?.[1];
  if (unknown === undefined) return message ?? undefined;
  const described = (usage as { getDescriptions?: () => object }).getDescriptions?.() ?? {};
  const meant = meantName(unknown, Object.keys(described));
  return `${message!}${meant === undefined ? '' : `\nDid you mean --${meant}?`}`;
}

/** A command line that does not fit. */
class UsageError extends Error {}

/** Commands that load their options are parsed in a promise, whose refusals yargs throws past `fail`. */
function isUsageError(error: unknown): error is Error {
  return error instanceof UsageError || (error instanceof Error && error.name === 'YError');
}
