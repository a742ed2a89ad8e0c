/** `tensortally explain`, and the document that is made of the same entries. */
import { readFileSync } from 'node:fs';
import { describe, expect, test, vi } from 'vitest';

import { catalogDocument } from '../../../src/cli/explain/document.js';
import { rangeText } from '../../../src/cli/explain/wording.js';
import { runCli } from '../../../src/cli/run-cli.js';
import { captureConsole } from './captured-console.js';
import { type MetricExplanation, metricCatalog } from '../../../src/metrics/index.js';
import { InProcessTransport, StreamEmitter, StreamIngest } from '../../../src/tracker/index.js';

const written = captureConsole();

describe('explain', () => {
  test('says what one key means', async () => {
    expect(await runCli(['explain', 'critic/vf_explained_var'])).toBe(0);
    const said = written.out();
    expect(said).toMatch(/^critic\/vf_explained_var\n/);
    expect(said).toMatch(/^ {2}formula +1 − Var\(returns − values\)/m);
    expect(said).toMatch(/^ {2}range +at most 1$/m);
    expect(said).toMatch(/^ {2}NaN +if there are fewer than two tokens/m);
    expect(said).toMatch(/^ {2}reported by +computeDataMetrics$/m);
    expect(said).toMatch(/^ {2}verl-2026-08 +1 − Var\(error\) \/ 1e-5/m);
    expect(said).toContain('stable-baselines3 #816');
  });

  test.each(['group/*', 'critic/*/mean', 'rollout_corr/*', 'val-core/*', 'stream/*'])(
    'lists the keys of the family %s',
    async (family) => {
      expect(await runCli(['explain', family])).toBe(0);
      const keys = written.out().split('\n').slice(0, -2);
      const [prefix, suffix] = family.split('*') as [string, string];
      const isOf = (key: string): boolean => key.startsWith(prefix) && key.endsWith(suffix);
      const known = metricCatalog.map(({ key }) => key).filter(isOf);
      expect(keys.length).toBeGreaterThan(1);
      expect(keys.filter((key) => !isOf(key))).toEqual([]);
      if (family !== 'stream/*') expect(keys).toEqual(known);
    },
  );

  test('knows every key that a stream reports of itself', async () => {
    const ingest = new StreamIngest({ expectedWorkers: 1 });
    const emitter = new StreamEmitter(new InProcessTransport(ingest), { workerId: 'w' });
    emitter.scalar({ reward: 1 });
    await emitter.close();
    const reported = Object.keys(ingest.export()).filter((key) => key.startsWith('stream/'));
    expect(await runCli(['explain', 'stream/*'])).toBe(0);
    const listed = written.out().split('\n').slice(0, -2);
    expect(listed.toSorted()).toEqual([...reported, 'stream/oldest_age_seconds'].toSorted());
    for (const key of reported) expect(await runCli(['explain', key]), key).toBe(0);
  });

  test('lists the keys of a family as JSON, and refuses one that there is not', async () => {
    expect(await runCli(['explain', 'group/*', '--json'])).toBe(0);
    const { keys } = JSON.parse(written.out()) as { keys: string[] };
    expect(keys).toContain('group/zero_std_ratio');
    expect(await runCli(['explain', 'nothing/*'])).toBe(1);
    expect(written.err()).toContain('nothing/*');
  });

  test('says what stands for the placeholders of a key', async () => {
    expect(await runCli(['explain', 'val-core/openai/gsm8k/acc/best@8/mean'])).toBe(0);
    expect(written.out()).toMatch(/^ {2}source +openai\/gsm8k$/m);
    expect(written.out()).toMatch(/^ {2}n +8$/m);
  });

  test('keeps its lines on the terminal', async () => {
    const { columns } = process.stdout;
    process.stdout.columns = 70;
    await runCli(['explain', 'variance_proxy/proxy3_pure_noise']);
    process.stdout.columns = columns;
    const lines = written.out().split('\n');
    expect(lines.length).toBeGreaterThan(20);
    for (const line of lines) expect(line.length, line).toBeLessThanOrEqual(70);
  });

  test('prints JSON that has everything', async () => {
    expect(await runCli(['explain', 'timing_s/gen', '--json'])).toBe(0);
    const explained = JSON.parse(written.out()) as MetricExplanation;
    expect(explained).toMatchObject({
      key: 'timing_s/gen',
      entry: { key: 'timing_s/{stage}', unit: 's', range: { low: 0 } },
      values: { stage: 'gen' },
      differences: [],
    });
  });

  test('without a key lists all of them', async () => {
    expect(await runCli(['explain'])).toBe(0);
    const lines = written.out().split('\n');
    for (const { key } of metricCatalog) expect(lines).toContain(`  ${key}`);
    expect(lines).toContain('computeRolloutCorrection');
  });

  test('without a key has all entries as JSON', async () => {
    expect(await runCli(['explain', '--json'])).toBe(0);
    expect((JSON.parse(written.out()) as { metrics: unknown }).metrics).toEqual(metricCatalog);
  });

  test('refuses an unknown key with the nearest ones', async () => {
    expect(await runCli(['explain', 'actor/ppo_lk'])).toBe(1);
    expect(written.err()).toMatch(/^ValueError: explainMetric: key: .*did you mean actor\/ppo_kl/);
  });

  test('of a word lists keys that have it', async () => {
    expect(await runCli(['explain', 'reward'])).toBe(1);
    expect(written.err()).toMatch(/did you mean .*reward/);
    expect(written.err()).not.toContain('metricCatalog');
  });

  test('of nothing known says where all keys are', async () => {
    expect(await runCli(['explain', 'qqqqqqqqqq'])).toBe(1);
    expect(written.err()).toContain('`tensortally explain` lists all of them');
  });

  test.each([
    ['ppo_actor/update/loss/avg', '{key}/avg', 'mean of the elements'],
    ['ppo_actor/loss/nonfinite', '{key}/nonfinite', 'NaN or infinite'],
    ['response_len/p90', '{key}/p90', '90th percentile'],
    ['rollout/reward__count', '{key}__count', 'records behind the mean'],
    ['timeperf/rollout', 'timeperf/{stage}', 'seconds'],
    ['rollout/reward', 'rollout/{key}', 'training rollouts'],
    ['stream/lost', 'stream/lost', 'no longer waited for'],
  ])('says what a tracker means by %s', async (key, form, meaning) => {
    expect(await runCli(['explain', key])).toBe(0);
    expect(written.out()).toContain(form);
    expect(written.out().replace(/\s+/g, ' ')).toContain(meaning);
  });

  test.each(['actor/lr', 'critic/grad_norm', 'perf/mfu/actor', 'training/global_step'])(
    'knows %s, which only the trainer does',
    async (key) => {
      expect(await runCli(['explain', key])).toBe(0);
      expect(written.out()).toMatch(/reported by +the trainer itself/);
    },
  );

  test.each([[['--json']], [['actor/ppo_kl']]])('--markdown does not go with %s', async (words) => {
    expect(await runCli(['explain', '--markdown', ...words])).toBe(1);
    expect(written.err()).toContain('--markdown goes with nothing else');
  });
});

describe('docs/metrics.md', () => {
  test('is what `npm run docs` makes of the catalogue', async () => {
    const written = vi.spyOn(process.stdout, 'write').mockReturnValue(true);
    expect(await runCli(['explain', '--markdown'])).toBe(0);
    const printed = written.mock.calls.map(([text]) => String(text)).join('');
    written.mockRestore();
    expect(printed).toBe(catalogDocument());
    expect(readFileSync(new URL('../../../docs/metrics.md', import.meta.url), 'utf8')).toBe(printed);
  });

  test('has rows of as many cells as their header', () => {
    const widths = catalogDocument()
      .trimEnd()
      .split('\n\n')
      .filter((block) => block.startsWith('|'))
      .map((table) => table.split('\n').map((row) => row.split(/(?<!\\)\|/).length));
    expect(widths.length).toBeGreaterThan(10);
    for (const table of widths) expect(new Set(table).size).toBe(1);
  });
});

test.each([
  [{}, 'any number'],
  [{ low: 0 }, 'at least 0'],
  [{ high: 1 }, 'at most 1'],
  [{ low: -1, high: 1 }, '[−1, 1]'],
  [{ low: 0, isWhole: true }, 'whole, at least 0'],
  [{ isWhole: true }, 'a whole number'],
  [{ low: 0, high: Math.exp(20) }, '[0, e^20]'],
])('the range %o is called %s', (range, text) => {
  expect(rangeText(range)).toBe(text);
});
