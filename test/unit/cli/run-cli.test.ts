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
    [
      'an unknown option without a command',
      ['--versio'],
      'Unknown argument: versio\nDid you mean --version?',
    ],
    ['an unknown option beside a known one', ['--verbose', '--colour=1'], 'Unknown argument: colour'],
    ['a known option without a command', ['--verbose'], 'Name a command.'],
    ['an unknown command', ['doktor'], 'Did you mean doctor?'],
    ['an unknown option', ['doctor', '--jason'], 'Unknown argument: jason\nDid you mean --json?'],
    ['a misspelt number', ['demo', '--stpes', '3'], 'Unknown argument: stpes\nDid you mean --steps?'],
    ['an invalid number', ['demo', '--steps', 'abc'], 'got what is no number'],
    ['a number below the least', ['demo', '--steps', '0'], 'at least 1, got 0'],
    ['an invalid number of steps', ['demo', '--steps', 'many'], '--steps must be a whole number'],
    ['an unknown backend', ['demo', '--backend', 'abacus'], 'Invalid values'],
    ['an option without its value', ['link-tensorflow', '--python'], 'python'],
    ['a Python that is not named', ['bench', '--torch'], 'Not enough arguments following: torch'],
    ['a size that does not exist', ['bench', '--size', 'huge'], 'Invalid values'],
    ['a misspelt flag of bench', ['bench', '--jsno'], 'Unknown argument: jsno\nDid you mean --json?'],
    ['rounds that are no number', ['bench', '--rounds', 'abc'], 'at least 1, got what is no number'],
    ['rounds that are no whole number', ['bench', '--rounds', '1.5'], 'at least 1, got 1.5'],
    ['threads below the least', ['bench', '--threads', '-2'], 'at least 1, got -2'],
    ['seconds that are no number', ['bench', '--seconds', 'x'], 'at least 0, got what is no number'],
    ['seconds below the least', ['bench', '--seconds', '-1'], 'at least 0, got -1'],
    ['less than a round', ['bench', '--rounds', '0'], '--rounds must be a whole number'],
    ['a size that is not named', ['bench', '--size'], 'Not enough arguments following: size'],
    ['a size before another option', ['bench', '--size', '--json'], 'Not enough arguments following: size'],
    ['a negated folder', ['demo', '--no-out'], 'Unknown argument: no-out'],
    ['a negated Python', ['bench', '--no-torch'], 'Unknown argument: no-torch'],
    ['a negated interpreter', ['link-tensorflow', '--no-python'], 'Unknown argument: no-python'],
    ['a flag with a value', ['bench', '--check=yes'], '--check takes no value'],
    ['an empty value of a flag', ['doctor', '--json='], '--json takes no value'],
    ['a number for a flag', ['explain', 'actor/lr', '--markdown=1'], '--markdown takes no value'],
    ['a value of --verbose', ['demo', '--verbose=very'], '--verbose takes no value'],
    ['an option behind --', ['explain', '--', '-x'], 'Unknown argument: -x'],
    ['two keys behind --', ['explain', '--', 'actor/lr', 'critic/lr'], 'Unknown argument: critic/lr'],
  ])('refuses %s with a reason and where the help is', async (_, words, reason) => {
    expect(await runCli(words)).toBe(1);
    const lines = written.err().trimEnd().split('\n');
    expect(written.err()).toContain(reason);
    expect(written.err()).not.toMatch(/^ {4}at /m);
    const command = words.length > 0 && !/^(doktor|-)/.test(words[0]!) ? `${words[0]!} ` : '';
    expect(lines.at(-1)).toBe(`\`tensortally ${command}--help\` shows what there is.`);
    expect(lines.length).toBeLessThan(8);
  });

  test('takes the words behind -- as arguments', async () => {
    expect(await runCli(['explain', '--', 'actor/lr'])).toBe(0);
    expect(written.out()).toMatch(/^actor\/lr\n/);
    expect(await runCli(['bench', '--size', 'tiny', '--', 'nowhere'])).toBe(1);
    expect(written.err()).toMatch(/^ValueError: bench: scenario: expected one of moments, .*"nowhere"/);
  });

  test('takes true and false as values of a flag', async () => {
    expect(await runCli(['explain', 'actor/lr', '--json=false'])).toBe(0);
    expect(written.out()).toMatch(/^actor\/lr\n/);
    expect(await runCli(['explain', 'actor/lr', '--json=true'])).toBe(0);
    expect(written.out()).toContain('"key": "actor/lr"');
  });

  test.each(['', 'a\0b'])('refuses a Python that no program can be: %j', async (python) => {
    expect(await runCli(['bench', 'moments', '--torch', python])).toBe(1);
    expect(written.err()).toMatch(/^BackendError: bench: --torch: expected a Python that has torch/);
    expect(written.err()).not.toMatch(/^ {4}at /m);
  });

  test.each(['doctor', 'link-tensorflow', 'demo', 'bench', 'explain'])(
    'names %s once in its usage',
    async (command) => {
      expect(await runCli([command, '--help'])).toBe(0);
      const [usage] = written.out().split('\n');
      expect(usage).toMatch(new RegExp(`^tensortally ${command}( |$)`));
      expect(usage).not.toContain(`${command} ${command}`);
    },
  );

  test.each([
    [['bench', '--size', 'tiny', 'nowhere']],
    [['bench', '--backend', 'cpu', 'nowhere']],
    [['bench', 'nowhere', '--size', 'tiny', '--size', 'small']],
  ])('takes a scenario behind an option: %j', async (words) => {
    // That scenario does not exist, which is said before anything is measured.
    expect(await runCli(words)).toBe(1);
    expect(written.err()).toMatch(/^ValueError: bench: scenario: expected one of moments, .*"nowhere"/);
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
