/** A whole run of the demo, a very small one: what it prints at its end, and the files that it says it has written. */
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as tf from '@tensorflow/tfjs';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { runDemo } from '../../../examples/ppo/run.js';
import { tinyConfig } from './tiny-trainer.js';

const STEPS = 3;

interface JournalLine {
  readonly step: number;
  readonly data: Readonly<Record<string, number | string>>;
}

describe('a run of the demo', () => {
  let folder: string;
  let printed = '';
  let listeners: number;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'ppo-demo-'));
    const before = process.listenerCount('SIGINT');
    const write = vi.spyOn(process.stdout, 'write').mockImplementation((text, ...rest) => {
      printed += String(text);
      for (const done of rest) if (typeof done === 'function') done();
      return true;
    });
    try {
      await runDemo({ steps: STEPS, backend: 'cpu', seed: 1, out: join(folder, 'run') }, tinyConfig);
    } finally {
      write.mockRestore();
    }
    listeners = process.listenerCount('SIGINT') - before;
  });

  afterAll(async () => {
    await rm(folder, { recursive: true });
  });

  /** The line that starts with `word`. */
  function line(word: string): string {
    const found = printed.split('\n').filter((text) => text.startsWith(word));
    expect(found, `lines of ${word}`).toHaveLength(1);
    return found[0]!;
  }

  function files(): string[] {
    return line('files ')
      .replace(/^files +/, '')
      .split(', ');
  }

  async function journal(): Promise<JournalLine[]> {
    const text = await readFile(files()[0]!, 'utf8');
    expect(text.endsWith('\n')).toBe(true);
    return text
      .trimEnd()
      .split('\n')
      .map((row) => JSON.parse(row) as JournalLine);
  }

  it('says what runs where, and a line per step', () => {
    expect(printed).toMatch(/^PPO on cpu \(CPU, JavaScript\): sort 1 to 3 digits, seed 1\n/);
    const steps = printed.split('\n').filter((text) => /^ +\d+ +\d\.\d{3} /.test(text));
    expect(steps.map((text) => Number.parseInt(text, 10))).toEqual([1, 2, 3]);
    expect(printed).toContain('validation: mean@2');
  });

  it('ends with some fifteen headlines of the last step, within 80 columns', async () => {
    const table = printed.split('\n').filter((text) => text.startsWith('│'));
    const cells = table.flatMap((row) => row.split('│').map((cell) => cell.trim().split(/ +/)[0]!));
    const last = (await journal()).at(-1)!;
    expect(line(`step ${STEPS}`)).toBe(`step ${last.step}`);
    const shown = cells.filter((name) => name !== '');
    expect(shown.length).toBeGreaterThan(12);
    expect(shown.length).toBeLessThan(19);
    expect(Object.keys(last.data)).toEqual(expect.arrayContaining(shown));
    const some = [
      'critic/score/mean',
      'ppo_actor/update/entropy/avg',
      'timing_s/step',
      'val-core/sort/reward/mean@2',
    ];
    expect(shown).toEqual(expect.arrayContaining(some));
    expect(line('metrics ')).toContain(
      ` ${shown.length} of ${Object.keys(last.data).length}; --all prints all`,
    );
    const end = printed.slice(printed.indexOf(`\nstep ${STEPS}`)).split('\n');
    expect(end.filter((text) => text.startsWith('│') && text.length > 80)).toEqual([]);
  });

  it('sums up the rewards from the first step to the last, and the share of the statistics', async () => {
    const rewards = (await journal()).map(({ data }) => Number(data['critic/score/mean']).toFixed(3));
    expect(line('reward ')).toContain(` ${rewards[0]!} → ${rewards.at(-1)!} in ${STEPS} steps `);
    const [, median, spent, all, share] =
      /^statistics +([\d.]+)% of a step \(median\); ([\d.]+) s of ([\d.]+) s in all \(([\d.]+)%\)/
        .exec(line('statistics '))!
        .map(Number);
    expect(median).toBeGreaterThan(0);
    expect(median).toBeLessThan(100);
    expect(spent).toBeLessThan(all!);
    expect(share).toBeGreaterThan(0);
    expect(share).toBeLessThan(100);
  });

  it('names the files that are there', async () => {
    expect(files()).toEqual(['metrics.jsonl', 'config.json'].map((file) => join(folder, 'run', file)));
    for (const file of files()) expect(existsSync(file)).toBe(true);
    const [, config] = files();
    expect(JSON.parse(await readFile(config!, 'utf8'))).toMatchObject({
      seed: 1,
      steps: STEPS,
      backend: { backend: 'cpu' },
      ...tinyConfig,
    });
    const lines = await journal();
    expect(lines.map(({ step }) => step)).toEqual([1, 2, 3]);
    for (const { data } of lines) {
      const undefinedKeys = Object.entries(data).flatMap(([key, value]) =>
        Number.isFinite(Number(value)) ? [] : [key],
      );
      // A tiny policy gives every token the same probability, of which there is no correlation.
      expect(undefinedKeys.filter((key) => !key.endsWith('pearson_corr'))).toEqual([]);
    }
  });

  it('leaves nothing behind: no listener for Ctrl-C, no tensor', () => {
    expect(listeners).toBe(0);
    expect(tf.memory().numTensors).toBe(0);
  });
});
