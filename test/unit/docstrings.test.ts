/** What the examples of docstrings say that a call gives is what it gives. */
import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { compileFunction } from 'node:vm';
import * as tf from '@tensorflow/tfjs';
import { describe, expect, test } from 'vitest';
import * as tensortally from '../../src/index.js';
import { ROOT, holds, literalOf } from '../support/documents.js';

interface Example {
  readonly file: string;
  readonly code: string;
}

/** A line of code, and the comment behind it. */
const LINE = /^(.*?\S);? *\/\/ (.*)$/;

function examples(): Example[] {
  const src = path.join(ROOT, 'src');
  return readdirSync(src, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !file.includes('assembly'))
    .flatMap((file) =>
      [
        ...readFileSync(path.join(src, file), 'utf8').matchAll(/@example([\s\S]*?)(?=\n *\* @|\n *\*\/)/g),
      ].map(([, text]) => ({ file, code: text!.replaceAll(/^ *\* {0,3}/gm, '').trim() })),
    );
}

/** The value that a comment is; undefined for prose, also for prose that begins with a name in quotes. */
function valueIn(comment: string): unknown {
  try {
    return literalOf(comment);
  } catch {
    return undefined;
  }
}

const isStatement = (code: string): boolean => /^(const|let|using|return|for|await using) |^\} /.test(code);

/** Lines whose comment is a value, without an ellipsis: everything that they need stands in the example. */
const claiming = examples().filter(({ code }) =>
  code.split('\n').some((line) => {
    const [, call, comment] = LINE.exec(line) ?? [];
    return (
      call !== undefined && !isStatement(call) && !comment!.includes('…') && valueIn(comment!) !== undefined
    );
  }),
);

describe('examples of docstrings', () => {
  test('are found', () => {
    expect(examples().length).toBeGreaterThan(30);
    expect(claiming.map(({ code }) => code)).toContain('passAtK(4, 1, 2); // 0.5');
    expect(claiming.length).toBeGreaterThan(8);
  });

  test.each(claiming.map(({ file, code }) => [file, code] as const))(
    'in %s hold: %s',
    async (_file, code) => {
      await tensortally.initBackend('cpu');
      const outcomes: { said: unknown; found: unknown }[] = [];
      const heard = (said: unknown, found: unknown): void => void outcomes.push({ said, found });
      const claims: unknown[] = [];
      const lines = code.split('\n').map((line) => {
        const [, call, comment] = LINE.exec(line) ?? [];
        const claim = call === undefined || isStatement(call) ? undefined : valueIn(comment!);
        if (claim === undefined) return line;
        return `heard(claims[${claims.push(claim) - 1}], ${call!});`;
      });
      const scope = { ...tensortally, tf, heard, claims };
      const body = `return (async () => {\n${lines.join('\n')}\n})();`;
      const run = compileFunction(body, Object.keys(scope)) as (...values: unknown[]) => Promise<void>;
      await run(...Object.values(scope));
      expect(outcomes.length).toBeGreaterThan(0);
      expect(outcomes.filter(({ said, found }) => !holds(said, found))).toEqual([]);
    },
  );
});
