/** The frame of the commands: what a person sees of help, of a wrong command line and of a refusal. */
import { readFileSync } from 'node:fs';
import { describe, expect, test, vi } from 'vitest';
import { runCli } from '../../../src/cli/run-cli.js';
import { captureConsole } from './captured-console.js';

const written = captureConsole();

describe('the command line', () => {
  test('has the version of the package', async () => {
    const { version } = JSON.parse(
      readFileSync(new URL('../../../package.json', import.meta.url), 'utf8'),
    ) as {
      version: string;
    };
    expect(await runCli(['--version'])).toBe(0);
    expect(written.out()).toBe(version);
  });

  test('lists the commands on request', async () => {
    expect(await runCli(['--help'])).toBe(0);
    for (const command of ['doctor', 'link-tensorflow', 'demo']) expect(written.out()).toContain(command);
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
    expect(written.err()).toContain('tensortally');
    expect(written.err()).toContain('Options:');
    expect(written.err()).toContain(reason);
  });
});

describe('a refusal', () => {
  const words = ['link-tensorflow', '--python', '/nowhere/python3'];

  test('is told in one line with its remedy', async () => {
    expect(await runCli(words)).toBe(1);
    expect(written.err()).toMatch(/^BackendError: link-tensorflow: .*; .*$/);
  });

  test.each([
    ['--verbose', [...words, '--verbose'], undefined],
    ['DEBUG', words, '1'],
  ])('shows its stack with %s', async (_, given, debug) => {
    vi.stubEnv('DEBUG', debug);
    expect(await runCli(given)).toBe(1);
    expect(written.err()).toMatch(/\n {4}at /);
  });
});
