/** `journal`: what a commit to the JSONL journal costs beside appending the same line and nothing else. */
import { appendFileSync, mkdtempSync, readFileSync, rmSync, truncateSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { StatsLogger } from '../../src/index.js';
import type { Numbers } from '../agreement.js';
import { seeded } from '../inputs.js';
import type { Scenario, Size, Work } from '../scenario.js';

const COMMITS = 100;
const EXACT = { relative: 0, absolute: 0 };

function size(names: number): Size {
  return { label: `${COMMITS} commits of ${names} names`, prepare: () => prepare(names) };
}

export const journal: Scenario = {
  name: 'journal',
  describe: 'Commits to the journal of a logger',
  sizes: { tiny: size(3), small: size(30), medium: size(150), large: size(1000) },
};

function prepare(names: number): Work {
  const random = seeded(13);
  const data = Object.fromEntries(
    Array.from({ length: names }, (_, i): [string, number] => [`ppo_actor/update/metric_${i}/avg`, random()]),
  );
  const folder = mkdtempSync(join(tmpdir(), 'bench-journal-'));
  const path = { ours: join(folder, 'ours.jsonl'), bare: join(folder, 'bare.jsonl') };
  let logger: StatsLogger | undefined;
  let step = 0;

  async function commit(): Promise<void> {
    const names = { experimentName: 'bench', trialName: 'journal', fileroot: folder };
    logger ??= await StatsLogger.create({ ...names, console: false, jsonl: { path: path.ours } });
    truncateSync(path.ours);
    for (let i = 0; i < COMMITS; i++) await logger.commit(0, i, step++, data);
  }

  async function append(): Promise<void> {
    appendFileSync(path.bare, '');
    truncateSync(path.bare);
    for (let i = 0; i < COMMITS; i++) {
      appendFileSync(path.bare, `${JSON.stringify({ step: i, ts: Date.now(), data })}\n`);
      await Promise.resolve(); // a caller awaits its commit
    }
  }

  const way = (run: () => Promise<void>, file: string) => ({
    run,
    numbers: () => run().then(() => lastOf(file)),
    expected: { ...data, lines: COMMITS },
    closeness: EXACT,
  });
  return {
    inputBytes: names * Float64Array.BYTES_PER_ELEMENT,
    ways: { ours: way(commit, path.ours), bare: way(append, path.bare) },
    amount: { count: COMMITS, what: 'commits' },
    dispose: () => {
      void logger?.close();
      rmSync(folder, { recursive: true });
    },
  };
}

/** The numbers of a journal's last line, and how many lines there are. */
function lastOf(file: string): Numbers {
  const lines = readFileSync(file, 'utf8').trimEnd().split('\n');
  const { data } = JSON.parse(lines.at(-1)!) as { readonly data: Numbers };
  return { ...data, lines: lines.length };
}
