/** Runs other programs and collects what they print; the seam at which tests stand in for compilers and interpreters. */
import { type ChildProcess, spawn } from 'node:child_process';
import path from 'node:path';

/** What a program left behind. */
export interface CommandOutcome {
  /** Exit status; null if a signal ended it. */
  readonly status: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface CommandOptions {
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
}

/** Starts `command` with `args` (no shell) and waits for its end. Rejects only if it cannot be started. */
export type RunCommand = (
  command: string,
  args: readonly string[],
  options?: CommandOptions,
) => Promise<CommandOutcome>;

/** Why a command did not go on: the process was told to end. */
export class Interruption extends Error {
  readonly signal: NodeJS.Signals;

  constructor(signal: NodeJS.Signals) {
    super(`interrupted by ${signal}`);
    this.name = 'Interruption';
    this.signal = signal;
  }
}

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** What runs now. */
const children = new Set<ChildProcess>();
let interruption: Interruption | undefined;

/**
 * Runs `work` such that a signal ends what it has started and then makes it fail, so that it cleans up as after any other
 * failure.
 *
 * @throws Interruption where a signal came
 */
export async function interruptible<T>(work: () => Promise<T>): Promise<T> {
  const interrupt = (signal: NodeJS.Signals): void => {
    interruption ??= new Interruption(signal);
    for (const child of children) end(child);
  };
  for (const signal of SIGNALS) process.on(signal, interrupt);
  try {
    return await work();
  } finally {
    for (const signal of SIGNALS) process.off(signal, interrupt);
    interruption = undefined;
  }
}

/** Ends a program and those that it has started: a compiler is several. */
function end(child: ChildProcess): void {
  try {
    process.kill(-child.pid!, 'SIGKILL');
  } catch {
    child.kill('SIGKILL');
  }
}

export const runCommand: RunCommand = (command, args, options = {}) =>
  new Promise((resolve, reject) => {
    if (interruption !== undefined) {
      reject(interruption);
      return;
    }
    const child = spawn(command, args, {
      ...options,
      env: trustedEnvironment(options.env ?? process.env),
      stdio: ['ignore', 'pipe', 'pipe'],
      // A process group of its own, which can be ended as a whole.
      detached: true,
    });
    children.add(child);
    const output = { stdout: '', stderr: '' };
    for (const stream of ['stdout', 'stderr'] as const) {
      child[stream].setEncoding('utf8').on('data', (text: string) => (output[stream] += text));
    }
    child.on('error', (error) => {
      children.delete(child);
      reject(error);
    });
    child.on('close', (status, signal) => {
      children.delete(child);
      if (interruption === undefined) resolve({ status, signal, ...output });
      else reject(interruption);
    });
  });

/** Lists of folders in which programs look for code. */
const SEARCH_PATHS = [
  'PATH',
  'PYTHONPATH',
  'NODE_PATH',
  'LD_LIBRARY_PATH',
  // Of compilers:
  'CPATH',
  'C_INCLUDE_PATH',
  'CPLUS_INCLUDE_PATH',
  'LIBRARY_PATH',
  'COMPILER_PATH',
] as const;

/**
 * An environment in which nothing is looked for in the working directory: an empty entry of a search path means it, and
 * so may a relative one.
 */
export function trustedEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const trusted = { ...env };
  for (const name of SEARCH_PATHS) {
    const folders = env[name]?.split(path.delimiter).filter((folder) => path.isAbsolute(folder));
    if (folders === undefined) continue;
    // An empty list would mean the working directory, or a default.
    if (folders.length > 0) trusted[name] = folders.join(path.delimiter);
    else Reflect.deleteProperty(trusted, name);
  }
  return trusted;
}

/** Whether `error` says that the program does not exist. */
export function isNotFound(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}

/** The last line that says something. */
export function lastLine(text: string): string {
  return text.trim().split('\n').at(-1)?.trim() ?? '';
}

/** As much of a line as a message can show: a program may repeat what it was given. */
const LONGEST_LINE = 200;

/** What a program said last, for a message of one line. */
export function lastWords(text: string): string {
  const line = lastLine(text);
  return line.length > LONGEST_LINE ? `${line.slice(0, LONGEST_LINE)}…` : line;
}
