/** The README's example is a file that runs, and prints what the README says. */
import { readFileSync } from 'node:fs';
import { describe, expect, test, vi } from 'vitest';

import { initBackend } from '../../src/kernels/index.js';

const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8');
const example = readFileSync(new URL('../../examples/first-steps.ts', import.meta.url), 'utf8');

describe('the README', () => {
  test('shows examples/first-steps.ts, as a user would import it', () => {
    expect(readme).toContain(example.replace('../src/index.js', 'tensortally'));
  });

  test('says what the example prints', async () => {
    await initBackend('cpu');
    const printed: unknown[] = [];
    const log = vi.spyOn(console, 'log').mockImplementation((value: unknown) => {
      printed.push(value);
    });
    await import('../../examples/first-steps.js');
    log.mockRestore();
    expect(printed).toEqual([
      {
        'ppo_actor/advantages/avg': 2,
        'ppo_actor/advantages/max': 3,
        'ppo_actor/advantages/min': 1,
        'ppo_actor/n_valid_tokens': 3,
      },
      expect.objectContaining({ 'critic/score/mean': 3, 'response_length/mean': 1.5 }),
    ]);
  });

  test('names commands that package.json has', () => {
    const { scripts } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
      scripts: Record<string, string>;
    };
    const named = [...readme.matchAll(/npm run ([\w:]+)/g)].map(([, script]) => script!);
    expect(named.length).toBeGreaterThan(0);
    for (const script of named) expect(scripts).toHaveProperty([script]);
  });
});
