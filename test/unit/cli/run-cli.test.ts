/** The frame of the commands: what a person sees of help, of a wrong command line and of a refusal. */
import { readFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, test, vi, type MockInstance } from 'vitest';
import { runCli } from '../../../src/cli/run-cli.js';

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

const textOf = (spy: MockInstance): string => spy.mock.calls.flat().join('\n');

describe('the command line', () => {
  test('has the version of the package', async () => {
    const { version } = JSON.parse(
      readFileSync(new URL('../../../package.json', import.meta.url), 'utf8'),
    ) as {
      version: string;
    };
    expect(await runCli(['--version'])).toBe(0);
    expect(textOf(out)).toBe(version);
  });

  test('lists the commands on request', async () => {
    expect(await runCli(['--help'])).toBe(0);
    for (const command of ['doctor', 'link-tensorflow', 'demo']) expect(textOf(out)).toContain(command);
  });

  test.each([
    ['no command', [], 'Name a command.'],
    ['an unknown command', ['doktor'], 'Did you mean doctor?'],
    ['an unknown option', ['doctor', '--jason'], 'Unknown argument: jason'],
    ['a number of steps that is none', ['demo', '--steps', 'many'], '--steps must be a whole number'],
    ['an unknown backend', ['demo', '--backend', 'abacus'], 'Invalid values'],
    ['an option without its value', ['link-tensorflow', '--python'], 'python'],
  ])('refuses %s with the help and a reason', async (_, words, reason) => {
    expect(await runCli(words)).toBe(1);
    expect(textOf(err)).toContain('tensortally');
    expect(textOf(err)).toContain('Options:');
    expect(textOf(err)).toContain(reason);
  });
});

describe('a refusal', () => {
  const words = ['link-tensorflow', '--python', '/nowhere/python3'];

  test('is told in one line with its remedy', async () => {
    expect(await runCli(words)).toBe(1);
    expect(textOf(err)).toMatch(/^BackendError: link-tensorflow: .*; .*$/);
  });

  test.each([
    ['--verbose', [...words, '--verbose'], undefined],
    ['DEBUG', words, '1'],
  ])('shows its stack with %s', async (_, given, debug) => {
    vi.stubEnv('DEBUG', debug);
    expect(await runCli(given)).toBe(1);
    expect(textOf(err)).toMatch(/\n {4}at /);
  });
});
