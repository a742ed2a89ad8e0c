/** What becomes of a command whose output nobody takes any more. */
import { afterEach, describe, expect, test, vi } from 'vitest';
import { captureConsole } from './captured-console.js';

const written = captureConsole();

/** Breaks stdout with `code` and says how the process ended, if it did. */
async function endOf(code: string, outlives: boolean): Promise<unknown> {
  vi.resetModules(); // what a process says once it says anew
  const { endWithOutput, outliveOutput } = await import('../../../src/cli/closed-output.js');
  let broken: ((error: Error) => void) | undefined;
  vi.spyOn(process.stdout, 'on').mockImplementation((_, listener) => {
    broken = listener;
    return process.stdout;
  });
  const exit = vi.spyOn(process, 'exit').mockImplementation((status) => {
    throw new Error(`exit ${String(status)}`);
  });
  vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  endWithOutput();
  if (outlives) outliveOutput();
  const breaking = (): void => {
    broken!(Object.assign(new Error(`write ${code}`), { code }));
  };
  try {
    breaking();
    breaking();
    return exit.mock.calls.length;
  } catch (error) {
    return (error as Error).message;
  }
}

describe('a closed standard output', () => {
  afterEach(() => {
    vi.restoreAllMocks();
  });

  test.each([
    ['EPIPE', 'exit 0'],
    ['ENOSPC', 'exit 1'],
  ])('ends a command that only prints: %s', async (code, end) => {
    expect(await endOf(code, false)).toBe(end);
  });

  test.each(['EPIPE', 'ENOSPC', 'EIO'])('does not end training, which is told once: %s', async (code) => {
    expect(await endOf(code, true)).toBe(0);
    expect(written.err()).toBe(`tensortally: standard output is closed (${code}); the run goes on`);
  });
});
