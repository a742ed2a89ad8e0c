/** The doctor: its self-check, what a process that misbehaves is reported as, and the words for the findings. */
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { describeDiagnosis } from '../../../src/cli/doctor/description.js';
import { diagnose, observe } from '../../../src/cli/doctor/diagnosis.js';
import { examine, type Examination } from '../../../src/cli/doctor/examination.js';
import { compareMoments } from '../../../src/cli/doctor/self-check.js';
import type { BackendName, BackendReport } from '../../../src/kernels/index.js';
import type { TensorFlowBinding } from '../../../src/kernels/tensorflow/binding.js';
import { temporaryFolder, writeFiles } from './fake-installation.js';

const absent: TensorFlowBinding = { state: 'absent', detail: 'It is not installed.', remedy: 'install it' };

function report(backend: BackendName): BackendReport {
  return {
    backend,
    device: `the ${backend} device`,
    isGpu: false,
    isSoftware: false,
    kernels: { moments: 'native', logits: 'native', histograms: 'native' },
    missingTrainingKernels: [],
    versions: { tensorflow: '2.21.0' },
    considered: [],
  };
}

const passed = (backend: BackendName): Examination => ({ outcome: 'passed', report: report(backend) });
const unavailable: Examination = {
  outcome: 'unavailable',
  reason: 'expected a driver, got none',
  remedy: 'get one',
};

/** Findings: everything passes except what `different` says; `auto` chooses cpu. */
function findings(different: Partial<Record<'auto' | BackendName, Examination>>) {
  return diagnose(
    (name) => Promise.resolve(different[name] ?? passed(name === 'auto' ? 'cpu' : name)),
    absent,
  );
}

describe('the self-check', () => {
  const right = { count: 3, mean: 1, m2: 18, min: -2, max: 4 };

  test('accepts the right moments', () => {
    expect(compareMoments(right)).toBeUndefined();
  });

  test.each([
    ['count', 4],
    ['mean', 1.001],
    ['m2', NaN],
    ['min', Infinity],
    ['max', 1000],
  ] as const)('names a wrong %s', (key, value) => {
    expect(compareMoments({ ...right, [key]: value })).toMatch(new RegExp(`^${key} .* is ${value}$`));
  });

  test('passes on a real backend', async () => {
    const finding = await examine('cpu');
    expect(finding).toMatchObject({ outcome: 'passed', report: { backend: 'cpu' } });
  });

  test('calls an unknown backend unavailable, with its remedy', async () => {
    const finding = await examine('abacus' as BackendName);
    expect(finding).toMatchObject({ outcome: 'unavailable', remedy: expect.any(String) as string });
  });
});

describe('a backend that is examined in a process of its own', () => {
  function observeProgram(program: string, timeoutMs = 20_000): Promise<Examination> {
    const folder = temporaryFolder();
    writeFiles(folder, { 'program.mjs': program });
    return observe(path.join(folder, 'program.mjs'), ['wasm'], timeoutMs);
  }

  test('is what the process says of it', async () => {
    const finding = await observeProgram(
      `process.send({ outcome: 'failed', reason: process.argv[2] }, () => process.exit());`,
    );
    expect(finding).toEqual({ outcome: 'failed', reason: 'wasm' });
  });

  test('crashed if the process dies of a signal', async () => {
    const finding = await observeProgram(
      `process.kill(process.pid, 'SIGSEGV'); setInterval(() => {}, 1000);`,
    );
    expect(finding).toEqual({ outcome: 'crashed', reason: 'ended by SIGSEGV' });
  });

  test('crashed if the process ends without a finding, with its last words', async () => {
    const finding = await observeProgram(`console.error('driver: lost'); process.exitCode = 3;`);
    expect(finding).toEqual({ outcome: 'crashed', reason: 'exit status 3: driver: lost' });
  });

  test('crashed if the process hangs', async () => {
    const finding = await observeProgram(`setInterval(() => {}, 1000);`, 500);
    expect(finding).toEqual({ outcome: 'crashed', reason: 'ended by SIGKILL' });
  });
});

describe('the diagnosis', () => {
  test('is healthy when what cannot run is merely unavailable', async () => {
    expect((await findings({ webgpu: unavailable, tensorflow: unavailable })).healthy).toBe(true);
  });

  test.each<[string, Partial<Record<'auto' | BackendName, Examination>>]>([
    ['a backend computes wrongly', { wasm: { outcome: 'failed', reason: 'mean is 2' } }],
    ['a backend crashes', { tensorflow: { outcome: 'crashed', reason: 'ended by SIGSEGV' } }],
    ['auto finds nothing', { auto: unavailable }],
  ])('is not healthy when %s', async (_, different) => {
    expect((await findings(different)).healthy).toBe(false);
  });

  test('knows the versions, of libtensorflow only where it was loaded', async () => {
    const { versions } = await findings({});
    expect(versions).toMatchObject({ node: process.versions.node, tfjs: '4.22.0', tensorflow: '2.21.0' });
    expect((await findings({ tensorflow: unavailable })).versions).not.toHaveProperty('tensorflow');
  });

  test('says of every backend whether it runs, and what to do where it does not', async () => {
    const diagnosis = await findings({
      webgpu: unavailable,
      wasm: { outcome: 'failed', reason: 'mean is 2' },
      tensorflow: { outcome: 'crashed', reason: 'ended by SIGSEGV' },
    });
    const lines = describeDiagnosis(diagnosis);
    expect(lines).toContainEqual(expect.stringMatching(/^ {2}cpu +ok +the cpu device$/));
    expect(lines).toContainEqual(
      expect.stringMatching(/^ {2}webgpu {6}cannot run {2}expected a driver, got none$/),
    );
    expect(lines).toContainEqual(expect.stringMatching(/^ +to do: get one$/));
    expect(lines).toContainEqual(expect.stringMatching(/^ {2}wasm +WRONG +mean is 2$/));
    expect(lines).toContainEqual(expect.stringMatching(/^ {2}tensorflow +CRASHED +ended by SIGSEGV$/));
    expect(lines).toContain('What is ok runs here and has passed the self-check.');
    expect(lines).toContain('auto chooses cpu.');
    expect(lines).toContain('TensorFlow binding: It is not installed.');
    expect(lines).toContain('  To do: install it.');
  });

  test('says nothing twice: a backend that lacks the binding has said it all', async () => {
    const lacking: Examination = { outcome: 'unavailable', reason: absent.detail, remedy: absent.remedy };
    const text = describeDiagnosis(await findings({ tensorflow: lacking })).join('\n');
    expect(text.match(/It is not installed/g)).toHaveLength(1);
    expect(text.match(/install it/g)).toHaveLength(1);
    expect(text).not.toContain('TensorFlow binding');
    const linked = { ...absent, state: 'linked', detail: 'It is linked to /lib.' } as const;
    const failing = describeDiagnosis({ ...(await findings({ tensorflow: lacking })), binding: linked });
    expect(failing).toContain('TensorFlow binding: It is linked to /lib.');
  });

  test.each([
    [{ isGpu: true, device: 'nvidia ada' }, 'nvidia ada (GPU)'],
    [{ isGpu: true, device: 'CUDA GPU' }, 'CUDA GPU'],
    [
      { isSoftware: true, device: 'swiftshader', driver: 'driver 5' },
      'swiftshader, driver 5 (a software adapter)',
    ],
  ])('calls %o "%s"', async (part, words) => {
    const webgpu: Examination = { outcome: 'passed', report: { ...report('webgpu'), ...part } };
    const line = describeDiagnosis(await findings({ webgpu })).find((text) => text.startsWith('  webgpu'));
    expect(line).toBe(`  webgpu      ok          ${words}`);
  });

  test('tells of plain loops with the remedy, and of gradients that the backend lacks', async () => {
    const plain = { reason: 'expected memory, got none', remedy: 'start node otherwise' };
    const limited = { ...report('cpu'), plain, missingTrainingKernels: ['EluGrad', 'LRNGrad'] };
    const lines = describeDiagnosis(await findings({ cpu: { outcome: 'passed', report: limited } }));
    const from = lines.findIndex((line) => line.startsWith('  cpu '));
    expect(lines.slice(from + 1, from + 4).map((line) => line.trim())).toEqual([
      'slow plain loops: expected memory, got none',
      'to do: start node otherwise',
      'trains no layer whose gradient needs EluGrad, LRNGrad',
    ]);
  });

  test('breaks long lines under their own column, but no path and no command', async () => {
    const command = '`npx something --with many arguments that belong together`';
    const long: Examination = {
      outcome: 'unavailable',
      reason:
        'expected a driver in /a/very/long/path/to/some/place/that/nobody/would/type, got none of any kind',
      remedy: `install the driver, then run ${command} and try again`,
    };
    const lines = describeDiagnosis(await findings({ webgpu: long }), 60);
    const from = lines.findIndex((line) => line.startsWith('  webgpu'));
    const said = lines.slice(
      from,
      lines.findIndex((line) => line.startsWith('  wasm')),
    );
    expect(said.length).toBeGreaterThan(4);
    for (const line of said)
      expect(line.length <= 60 || line.trim().split(/ (?![^`]*`)/).length === 1).toBe(true);
    for (const line of said.slice(1)) expect(line).toMatch(/^ {26}\S/);
    expect(
      said
        .map((line) => line.trim())
        .join(' ')
        .replace(/ {2,}/g, ' '),
    ).toBe(`webgpu cannot run ${long.reason} to do: ${long.remedy}`);
    expect(said.some((line) => line.includes(command))).toBe(true);
  });
});
