/** What reaches a terminal: text that prints as itself, also in the messages of errors and warnings. */
import { describe, expect, test, vi } from 'vitest';
import { ValueError } from '../../src/errors.js';
import { printable, printableJson, printableLines } from '../../src/printable.js';
import { runCli } from '../../src/cli/run-cli.js';
import { StatsTracker, StreamEmitter, aggregateExports } from '../../src/tracker/index.js';
import { captureConsole } from './cli/captured-console.js';

const written = captureConsole();

/** One of each kind: C0, DEL, C1, bidirectional, zero-width, separators, a tag, half a pair. */
const HOSTILE = [
  ...['\u0000', '\u0007', '\b', '\t', '\n', '\r', '\u001b', '\u007f', '\u0085', '\u009b', '\u009d'],
  ...['\u061c', '\u200b', '\u200d', '\u200e', '\u200f', '\u2028', '\u2029', '\u202a', '\u202e', '\u2060'],
  ...['\u2066', '\u2069', '\ufeff', '\u00ad', '\u180e', '\u3164', '\u{e0041}', '\ud800', '\udc00'],
];

const shown = (text: string): boolean => HOSTILE.every((character) => !text.includes(character));

const FORGED = 'loss\u001b]0;owned\u0007\n│ reward 1 │\u202etxt\u009b2J';
const SPELLED = 'loss\\u001b]0;owned\\u0007\\n│ reward 1 │\\u202etxt\\u009b2J';

describe('printable', () => {
  test.each(HOSTILE)('spells out %j', (character) => {
    const text = printable(`a${character}b`);
    expect(text).toMatch(/^a\\(?:[nrt]|u[0-9a-f]{4}|u\{[0-9a-f]{5}\})b$/);
    expect(printable(text)).toBe(text);
  });

  test('spells out every C0 and C1 control', () => {
    for (let code = 0; code < 0xa0; code++) {
      const isControl = code < 0x20 || code >= 0x7f;
      expect(printable(String.fromCharCode(code)).length > 1).toBe(isControl);
    }
  });

  test('leaves words of all languages, and whole pairs', () => {
    const text = 'ppo_actor/loss ~ größe 奖励 награда café 🎯 → ε²';
    expect(printable(text)).toBe(text);
  });

  test('keeps the newlines of what has several lines', () => {
    expect(printableLines('a\u001b\nb\r')).toBe('a\\u001b\nb\\r');
  });
});

describe('printableJson', () => {
  test('means the same, and is printable', () => {
    const value = { [FORGED]: HOSTILE.join(' ') };
    const json = printableJson(JSON.stringify(value));
    expect(shown(json)).toBe(true);
    expect(JSON.parse(json)).toEqual(value);
  });
});

describe('a name with control characters', () => {
  test('is spelled out in an error, in all of its parts', () => {
    const error = new ValueError({
      where: FORGED,
      input: FORGED,
      expected: FORGED,
      received: FORGED,
      remedy: FORGED,
    });
    expect(error.message).toBe(`${SPELLED}: ${SPELLED}: expected ${SPELLED}, got ${SPELLED}; ${SPELLED}`);
    expect(error.input).toBe(SPELLED);
    expect(shown(error.stack!.split('\n    at ')[0]!)).toBe(true);
  });

  test('is spelled out in the refusal of a tracker', () => {
    const tracker = new StatsTracker();
    tracker.scalar({ [FORGED]: 1 });
    expect(() => {
      tracker.scalar({ [FORGED]: 'no' as unknown as number });
    }).toThrow(SPELLED);
    tracker.dispose();
  });

  test('is spelled out in warnings', async () => {
    const warnings: string[] = [];
    const spy = vi.spyOn(process, 'emitWarning').mockImplementation((warning) => {
      warnings.push(String(warning));
    });
    aggregateExports([{ [`${FORGED}/avg`]: 1 }]);
    const emitter = new StreamEmitter(
      { delivery: 'direct', send: () => Promise.reject(new Error(FORGED)) },
      { workerId: 'w', flushIntervalMs: 3_600_000 },
    );
    emitter.scalar({ x: 1 });
    await emitter.flush().catch(() => undefined);
    await emitter.close().catch(() => undefined);
    spy.mockRestore();
    expect(warnings.length).toBeGreaterThan(0);
    expect(warnings.filter((text) => !shown(text))).toEqual([]);
    expect(warnings.join()).toContain(SPELLED);
  });

  test.each([
    ['explained', ['explain', `val-core/x/${FORGED}/mean@4`]],
    ['explained as JSON', ['explain', '--json', `val-core/x/${FORGED}/mean@4`]],
    ['unknown', ['explain', FORGED]],
    ['an unknown option', ['doctor', `--${FORGED}`]],
    ['an unknown command', [FORGED]],
    ['of a Python', ['link-tensorflow', '--python', `/nowhere/${FORGED}`]],
    ['of a Python, with the stack', ['link-tensorflow', '--verbose', '--python', `/nowhere/${FORGED}`]],
  ])('does not reach the terminal: %s', async (_, words) => {
    await runCli(words);
    const text = `${written.out()}\n${written.err()}`;
    expect(text.length).toBeGreaterThan(10);
    expect(HOSTILE.filter((character) => character !== '\n' && text.includes(character))).toEqual([]);
    expect(text).not.toMatch(/^│ reward 1/m);
  });
});
