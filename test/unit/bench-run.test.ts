/** `tensortally bench`: jobs from a command line, the report, the verdicts, and the real program once. */
import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import ts from 'typescript';
import { describe, expect, test } from 'vitest';
import type { Job, JobMessage, JobResult } from '../../bench/job.js';
import { Progress } from '../../bench/progress.js';
import { describeResult, describeVerdicts } from '../../bench/report.js';
import { type BenchOptions, type BenchReport, runBench } from '../../bench/run.js';
import { judge, targets } from '../../bench/targets.js';
import { runCli } from '../../src/cli/run-cli.js';
import { temporaryFolder } from './cli/fake-installation.js';

const options: BenchOptions = {
  scenarios: [],
  backends: [],
  sizes: ['tiny'],
  minRounds: 3,
  budgetSeconds: 1,
  threads: 2,
  json: false,
  check: false,
};

const timing = (medianMs: number, ratio: number): JobResult['ways'][string] => ({
  medianMs,
  intervalMs: [medianMs, medianMs],
  ratio,
  ratioInterval: [0.9 * ratio, 1.1 * ratio],
});

/** A result in which everything is well within every target. */
function goodResult({ scenario, size, backend, torch }: Job): JobResult {
  const perElement = scenario === 'scaling';
  return {
    scenario,
    size,
    label: '[2, 3]',
    backend: backend === 'auto' ? 'cpu' : backend,
    device: 'a device',
    isSoftware: false,
    versions: {},
    inputBytes: 4e6,
    floor: 'SIMD sum',
    checked: ['ours'],
    rounds: 3,
    ways: perElement
      ? { ours: timing(1, 1), '1e6': timing(10, 1.2), 'floor of ours': timing(0.01, 0.01) }
      : {
          ours: timing(2, 1),
          composed: timing(200, 100),
          json: timing(200, 100),
          floor: timing(1, 0.5),
          ...(torch === undefined ? {} : { torch: timing(400, 200) }),
        },
    counts: { ours: { launches: 2, readBacks: 1, readBackBytes: 800, peakBytes: 4000 } },
    ...(['tracker', 'scalars'].includes(scenario) ? { retained: { ours: 900, everything: 1e6 } } : {}),
    ...(['scalars', 'stream'].includes(scenario) ? { amount: { count: 1e6, what: 'calls' } } : {}),
  };
}

/** Runs with `message` in place of every measuring process. */
async function bench(
  asked: Partial<BenchOptions>,
  message: (job: Job) => JobMessage = (job) => ({ kind: 'result', result: goodResult(job) }),
): Promise<{ succeeded: boolean; printed: string; jobs: Job[] }> {
  const jobs: Job[] = [];
  const lines: string[] = [];
  const succeeded = await runBench(
    { ...options, ...asked },
    (job) => {
      jobs.push(job);
      return Promise.resolve(message(job));
    },
    (text) => void lines.push(text),
  );
  return { succeeded, printed: lines.join('\n'), jobs };
}

describe('the jobs', () => {
  test('are every scenario, size and backend that was asked for', async () => {
    const { jobs } = await bench({
      scenarios: ['data', 'moments'],
      backends: ['wasm', 'cpu'],
      sizes: ['tiny', 'small'],
    });
    const places = jobs.map(({ scenario, size, backend }) => `${backend} ${scenario} ${size}`);
    expect(places).toEqual(
      ['wasm', 'cpu'].flatMap((backend) =>
        ['data', 'moments'].flatMap((name) => ['tiny', 'small'].map((size) => `${backend} ${name} ${size}`)),
      ),
    );
    expect(jobs.every(({ isTimed, minRounds }) => isTimed && minRounds === 3)).toBe(true);
  });

  test('are all scenarios on the best backend if nothing was asked for', async () => {
    const { jobs } = await bench({});
    expect(jobs.map(({ scenario }) => scenario)).toEqual(
      expect.arrayContaining(['moments', 'data', 'step', 'tracker']),
    );
    expect(new Set(jobs.map(({ backend }) => backend))).toEqual(new Set(['auto']));
  });

  test('of a scenario that does not exist are refused with the ones that do', async () => {
    await expect(bench({ scenarios: ['momentum'] })).rejects.toThrow(/one of moments, .*"momentum"/);
  });
});

describe('the report', () => {
  const tiny = { scenario: 'data', size: 'tiny', backend: 'cpu', isTimed: true, torch: undefined } as const;

  test('is one JSON document with environment, results and refusals', async () => {
    const { printed, succeeded } = await bench({ json: true, scenarios: ['data', 'step'] }, (job) =>
      job.scenario === 'data'
        ? { kind: 'result', result: goodResult(job) }
        : { kind: 'failed', reason: 'it broke' },
    );
    const report = JSON.parse(printed) as BenchReport;
    expect(Object.keys(report)).toEqual(['format', 'environment', 'results', 'refused']);
    expect(report.format).toBe(1);
    expect(report.environment).toMatchObject({ node: process.versions.node, threads: 2 });
    expect(report.results).toEqual([expect.objectContaining({ scenario: 'data', rounds: 3 })]);
    expect(report.refused).toEqual([
      { scenario: 'step', size: 'tiny', backend: 'auto', outcome: 'failed', reason: 'it broke' },
    ]);
    expect(succeeded).toBe(false);
  });

  test('tells times, ratios, the floor and the counts', async () => {
    const { printed, succeeded } = await bench({ scenarios: ['data'], torch: 'python3' });
    expect(succeeded).toBe(true);
    expect(printed).toContain('data  [2, 3]  on cpu (a device), 4.00 MB, 3 rounds');
    expect(printed).toMatch(/ours +2\.00 ms.*2\.00 GB\/s, 50\.0 % of the floor/);
    expect(printed).toMatch(/composed +200 ms.*100 × +90\.0 to 110/);
    expect(printed).toMatch(/torch +400 ms.*200 ×/);
    expect(printed).toContain('2 launches, 1 read-back of 800 B, 4.00 kB extra (0.100 % of the inputs)');
  });

  test('tells what is kept until the result, and rates of what is no matter of bytes', async () => {
    const { printed } = await bench({ scenarios: ['tracker', 'scalars', 'data'] });
    const [tracker, scalars, data] = ['tracker', 'scalars', 'data'].map((name) =>
      printed.split(/\n(?=\w)/).find((block) => block.startsWith(name))!,
    );
    expect(tracker).toContain('ours: 900 B kept until the result (0.0900 % of what went in)');
    expect(tracker).toContain('GB/s');
    // A million in two milliseconds.
    expect(scalars).toMatch(/ours +2\.00 ms.*500 M calls\/s/);
    expect(scalars).toMatch(/composed +200 ms.*5\.00 M calls\/s/);
    expect(scalars).not.toContain('GB/s');
    expect(data).not.toContain('kept until');
  });

  test('fails for a backend that was named and is not there', async () => {
    const unavailable = { kind: 'unavailable', reason: 'no driver' } as const;
    const { printed, succeeded } = await bench(
      { scenarios: ['data'], backends: ['webgpu'] },
      () => unavailable,
    );
    expect(printed).toContain('data tiny on webgpu: unavailable: no driver');
    expect(succeeded).toBe(false);
  });

  test('has no table for what was not timed', () => {
    const lines = describeResult({ ...goodResult({ ...options, ...tiny }), rounds: 0, ways: {} }).split('\n');
    expect(lines).toEqual([
      expect.stringMatching(/not timed$/),
      expect.stringMatching(/^ {2}ours: 2 launches/),
      '',
    ]);
  });

  test('has no line for what was not counted', () => {
    const result = goodResult({ ...options, ...tiny });
    const counts = {
      ours: { launches: undefined, readBacks: undefined, readBackBytes: undefined, peakBytes: 0 },
    };
    expect(describeResult({ ...result, counts })).toContain('ours: 0 B extra (0 % of the inputs)');
  });
});

describe('--check', () => {
  const withTorch = { check: true, torch: 'python3' };

  test('measures each place once and meets every target it can', async () => {
    const { succeeded, jobs, printed } = await bench(withTorch);
    const places = jobs.map(({ scenario, size, backend }) => `${scenario} ${size} ${backend}`);
    expect(new Set(places).size).toBe(places.length);
    expect(printed).toMatch(/\d+ met, 0 missed, \d+ skipped$/);
    expect(succeeded).toBe(true);
    // Nobody needs the times of a place that is only counted.
    expect(jobs.find(({ scenario, backend }) => scenario === 'step' && backend === 'webgpu')?.isTimed).toBe(
      false,
    );
    expect(jobs.find(({ scenario, backend }) => scenario === 'data' && backend === 'wasm')?.isTimed).toBe(
      true,
    );
  });

  test.each([
    [
      'a ratio',
      'moments',
      'wasm',
      { ways: { ours: timing(2, 1), composed: timing(4, 2), floor: timing(1, 0.5) } },
    ],
    [
      'a floor',
      'moments',
      'wasm',
      { ways: { ours: timing(2, 1), composed: timing(400, 200), floor: timing(0.1, 0.05) } },
    ],
    ['a slope', 'scaling', 'cpu', { ways: { ours: timing(1, 1), '1e6': timing(1, 0.5) } }],
    [
      'launches',
      'moments',
      'tensorflow',
      { counts: { ours: { launches: 19, readBacks: 1, readBackBytes: 1, peakBytes: 1 } } },
    ],
    [
      'read-backs',
      'step',
      'webgpu',
      { counts: { ours: { launches: 2, readBacks: 2, readBackBytes: 1, peakBytes: 1 } } },
    ],
    [
      'memory',
      'data',
      'wasm',
      {
        counts: {
          ours: { launches: undefined, readBacks: undefined, readBackBytes: undefined, peakBytes: 40_001 },
        },
      },
    ],
    ['what is kept', 'scalars', 'cpu', { retained: { ours: 10_001, everything: 1e6 } }],
    ['a rate', 'stream', 'cpu', { amount: { count: 199, what: 'deltas' } }],
  ] as const)('fails for %s out of bounds', async (_, scenario, backend, bad) => {
    const { succeeded, printed } = await bench(withTorch, (job) => ({
      kind: 'result',
      result:
        job.scenario === scenario && job.backend === backend
          ? { ...goodResult(job), ...bad }
          : goodResult(job),
    }));
    expect(printed).toMatch(/, 1 missed, /);
    expect(succeeded).toBe(false);
  });

  test('skips what needs torch if none was named, and says so', async () => {
    const { succeeded, printed } = await bench({ check: true });
    expect(printed).toMatch(/skipped +data large on wasm: times as fast as torch .*name a Python/);
    expect(succeeded).toBe(true);
  });

  test('skips a backend that is not here, and fails for a job that broke', async () => {
    const broken =
      (kind: 'unavailable' | 'failed') =>
      (job: Job): JobMessage =>
        job.backend === 'webgpu'
          ? { kind, reason: 'not today' }
          : { kind: 'result', result: goodResult(job) };
    const skipped = await bench(withTorch, broken('unavailable'));
    expect(skipped.printed).toMatch(/skipped .*webgpu.*not today/);
    expect(skipped.succeeded).toBe(true);
    const failed = await bench(withTorch, broken('failed'));
    expect(failed.printed).toMatch(/missed .*webgpu.*not today/);
    expect(failed.succeeded).toBe(false);
  });

  test('can be limited to a scenario and a backend', async () => {
    const { jobs } = await bench({ ...withTorch, scenarios: ['moments'], backends: ['wasm'] });
    expect(jobs.map(({ scenario, backend }) => [scenario, backend])).toEqual([['moments', 'wasm']]);
  });

  test('does not take what was not measured for met', () => {
    const [target] = targets;
    const result = goodResult({ ...options, ...target!, torch: undefined });
    expect(judge(target!, result)).toMatchObject({ outcome: 'skipped', reason: 'was not measured' });
  });

  test('counts the verdicts', () => {
    const bound = { atMost: 2 };
    const verdicts = [
      { claim: 'a', bound, outcome: 'met', measured: 1 },
      { claim: 'b', bound, outcome: 'missed', measured: 3, interval: [2.5, 3.5] },
    ] as const;
    expect(describeVerdicts(verdicts)).toMatch(
      /missed +b +≤ 2 +3\.00 +2\.50 to 3\.50\n1 met, 1 missed, 0 skipped$/,
    );
  });
});

describe('progress', () => {
  const written = (isTTY: boolean): string => {
    let text = '';
    const progress = new Progress({ isTTY, write: (more) => (text += more) }, 2);
    progress.begin('data tiny on cpu');
    progress.tell('round 1');
    progress.end();
    return text;
  };

  test('is one line that changes on a terminal', () => {
    expect(written(true)).toContain('\r\x1b[K[1/2] data tiny on cpu: round 1');
    expect(written(true)).not.toContain('\n');
  });

  test('is one line per job elsewhere', () => {
    expect(written(false)).toBe('[1/2] data tiny on cpu\n');
  });
});

describe('the command', () => {
  test.each([
    ['--rounds', '0', '--rounds must be a whole number'],
    ['--seconds', '-1', '--seconds must be a number of at least 0'],
    ['--size', 'huge', 'Invalid values'],
    ['--backend', 'abacus', 'Invalid values'],
  ])('refuses %s %s', async (option, value, reason) => {
    const said: unknown[] = [];
    const { error } = console;
    console.error = (...words: unknown[]) => void said.push(...words);
    try {
      expect(await runCli(['bench', option, value])).toBe(1);
    } finally {
      console.error = error;
    }
    expect(said.join('\n')).toContain(reason);
  });

  test('measures in a process of its own and prints JSON alone to its output', async () => {
    const built = buildTo(temporaryFolder());
    const words = 'bench moments scaling --backend cpu --size tiny --rounds 2 --seconds 0 --json'.split(' ');
    const { stdout, stderr } = await promisify(execFile)(process.execPath, [built, ...words]);
    const report = JSON.parse(stdout) as BenchReport;
    expect(report.refused).toEqual([]);
    expect(report.results).toEqual([
      expect.objectContaining({
        scenario: 'moments',
        backend: 'cpu',
        rounds: 2,
        checked: ['ours', 'composed'],
      }),
      expect.objectContaining({ scenario: 'scaling', backend: 'cpu' }),
    ]);
    expect(stderr).toBe('[1/2] moments tiny on cpu\n[2/2] scaling tiny on cpu\n');
  }, 300_000);
});

/** The package as it is built, without checking types; returns its program. */
function buildTo(folder: string): string {
  const root = path.resolve(import.meta.dirname, '../..');
  for (const part of ['src', 'bench']) {
    for (const file of readdirSync(path.join(root, part), { recursive: true, encoding: 'utf8' })) {
      if (!file.endsWith('.ts')) continue;
      const text = readFileSync(path.join(root, part, file), 'utf8');
      const { outputText } = ts.transpileModule(text, {
        compilerOptions: {
          target: ts.ScriptTarget.ES2022,
          module: ts.ModuleKind.ESNext,
          verbatimModuleSyntax: true,
        },
      });
      const target = path.join(folder, 'dist', part, file.replace(/\.ts$/, '.js'));
      mkdirSync(path.dirname(target), { recursive: true });
      writeFileSync(target, outputText);
    }
  }
  cpSync(path.join(root, 'package.json'), path.join(folder, 'package.json'));
  symlinkSync(path.join(root, 'node_modules'), path.join(folder, 'node_modules'));
  return path.join(folder, 'dist', 'src', 'cli', 'index.js');
}
