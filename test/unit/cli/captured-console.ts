/** What a command writes, caught for every test of a file. Not a test. */
import { afterEach, beforeEach, vi, type MockInstance } from 'vitest';

/** What has been written since the test began. */
export interface CapturedConsole {
  readonly out: () => string;
  readonly err: () => string;
}

const textOf = (spy: MockInstance): string => spy.mock.calls.flat().join('\n');

/** Catches the console of every test of the file that calls this, and has no `DEBUG` in the environment. */
export function captureConsole(): CapturedConsole {
  let out: MockInstance<typeof console.log>;
  let err: MockInstance<typeof console.error>;
  beforeEach(() => {
    out = vi.spyOn(console, 'log').mockReturnValue(undefined);
    err = vi.spyOn(console, 'error').mockReturnValue(undefined);
    vi.stubEnv('DEBUG', undefined);
  });
  afterEach(() => {
    vi.restoreAllMocks();
    vi.unstubAllEnvs();
  });
  return { out: () => textOf(out), err: () => textOf(err) };
}
