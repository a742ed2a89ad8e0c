/** Runs other programs and collects what they print; the seam at which tests stand in for compilers and interpreters. */
import { spawn } from 'node:child_process';

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

export const runCommand: RunCommand = (command, args, options = {}) =>
  new Promise((resolve, reject) => {
    const child = spawn(command, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
    const output = { stdout: '', stderr: '' };
    for (const stream of ['stdout', 'stderr'] as const) {
      child[stream].setEncoding('utf8').on('data', (text: string) => (output[stream] += text));
    }
    child.on('error', reject);
    child.on('close', (status, signal) => {
      resolve({ status, signal, ...output });
    });
  });

/** Whether `error` says that the program does not exist. */
export function isNotFound(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}

/** The last line that says something, for a message of one line. */
export function lastLine(text: string): string {
  return text.trim().split('\n').at(-1)?.trim() ?? '';
}
