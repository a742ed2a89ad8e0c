/** The scenarios: that what they time is right, is refused if it is not, and is the work that they claim. */
import { describe, expect, test } from 'vitest';
import { DisagreementError, assertAgreement } from '../../bench/agreement.js';
import { execute } from '../../bench/execute.js';
import { SimdRead } from '../../bench/floor/simd-read.js';
import type { Job } from '../../bench/job.js';
import type { Scenario, Way } from '../../bench/scenario.js';
import { scenarioNamed, scenarios } from '../../bench/scenarios/index.js';
import { grpoWorkload } from '../../bench/workload.js';

const job: Job = {
  scenario: 'any',
  size: 'tiny',
  backend: 'cpu',
  isTimed: true,
  minRounds: 2,
  budgetSeconds: 0,
  threads: 1,
};

const surroundings = () => {
  const told: string[] = [];
  return { told, clock: () => performance.now(), onProgress: (text: string) => void told.push(text) };
};

/** A scenario of one way that counts its runs and computes `found` where 1 is right. */
function counting(found: number): { scenario: Scenario; runs: () => number; disposals: () => number } {
  let [runs, disposals] = [0, 0];
  const way: Way = {
    run: () => Promise.resolve(runs++),
    numbers: () => Promise.resolve({ x: found }),
    expected: { x: 1 },
    closeness: { relative: 0, absolute: 0.5 },
  };
  const prepare = () => ({
    inputBytes: 8,
    ways: { ours: way },
    dispose: () => {
      disposals++;
    },
  });
  const size = { label: 'one', prepare };
  const sizes = { tiny: size, small: size, medium: size, large: size };
  return {
    scenario: { name: 'counting', describe: 'A test', sizes },
    runs: () => runs,
    disposals: () => disposals,
  };
}

describe('results', () => {
  const close = { relative: 1e-3, absolute: 0 };

  test('agree within the tolerance, NaN with NaN and an infinity with itself', () => {
    const expected = { a: 1000, b: NaN, c: Infinity, d: 0 };
    expect(() => {
      assertAgreement('ours', expected, { a: 1000.9, b: NaN, c: Infinity, d: -0, more: 1 }, close);
    }).not.toThrow();
  });

  test.each([
    ['a wrong number', { a: 1002 }, 'a is 1002, expected 1000'],
    ['NaN', { a: NaN }, 'a is NaN, expected 1000'],
    ['an infinity', { a: Infinity }, 'a is Infinity, expected 1000'],
    ['nothing', {}, 'a is missing'],
  ])('disagree with %s', (_, got, message) => {
    expect(() => {
      assertAgreement('torch', { a: 1000 }, got, close);
    }).toThrow(new DisagreementError('torch', [message]));
  });

  test('cannot be right if nothing is expected of them', () => {
    expect(() => {
      assertAgreement('ours', {}, {}, close);
    }).toThrow(DisagreementError);
  });
});

describe('a job', () => {
  test('checks, counts, then times', async () => {
    const { told, ...around } = surroundings();
    const { scenario, disposals } = counting(1);
    const result = await execute(scenario, job, around);
    expect(told).toEqual(['preparing', 'counting', 'checking', 'counting', 'round 1', 'round 2']);
    expect(result).toMatchObject({ scenario: 'counting', label: 'one', backend: 'cpu', rounds: 2 });
    expect(result.checked).toEqual(['ours']);
    expect(Object.keys(result.ways)).toEqual(['ours', 'floor']);
    expect(disposals()).toBe(1);
  });

  test('times nothing that computes wrongly', async () => {
    const { told, ...around } = surroundings();
    const { scenario, runs, disposals } = counting(2);
    await expect(execute(scenario, job, around)).rejects.toThrow('x is 2, expected 1');
    expect(told).not.toContain('round 1');
    expect(runs()).toBe(1); // the one whose memory is counted
    expect(disposals()).toBe(1);
  });

  test('that is not timed counts only', async () => {
    const { scenario } = counting(1);
    const result = await execute(scenario, { ...job, isTimed: false }, surroundings());
    expect(result).toMatchObject({ rounds: 0, ways: {}, counts: { ours: { launches: undefined } } });
  });

  test('refuses a Python without torch', async () => {
    const options = { ...job, torch: { python: '/nowhere/python3' } };
    await expect(execute(scenarioNamed('data')!, options, surroundings())).rejects.toThrow(
      /--torch.*ENOENT/s,
    );
  });
});

describe('every scenario', () => {
  test.each(scenarios.map((scenario) => [scenario.name, scenario] as const))(
    '%s computes on the cpu backend what it must, in every way',
    async (_, scenario) => {
      const result = await execute(scenario, job, surroundings());
      expect(result.checked).toContain('ours');
      expect(Object.keys(result.ways).length).toBeGreaterThan(1);
      for (const { medianMs, ratio } of Object.values(result.ways)) {
        expect(medianMs).toBeGreaterThan(0);
        expect(ratio).toBeGreaterThan(0);
      }
    },
  );
});

describe('the GRPO workloads', () => {
  // AReaL's own totals for these configurations.
  test.each([
    ['W1', { rows: 256, cols: 2048, microBatches: 11, tokens: 10_240, miniBatches: 1 }, 289, 16.2],
    ['W2', { rows: 128, cols: 9216, microBatches: 32, tokens: 16_384, miniBatches: 4 }, 814, 57.9],
  ])('%s records as many tensors and keys as the example does', (_, shape, tensors, megabytes) => {
    const { calls, ...workload } = grpoWorkload(shape);
    const keys = { denominators: new Set<string>(), stats: new Set<string>(), scalars: new Set<string>() };
    for (const call of calls) {
      const names = call.kind === 'denominators' ? call.masks : call.values;
      for (const key of Object.keys(names)) keys[call.kind].add(`${call.scope}/${key}`);
    }
    expect(workload.tensors.size).toBe(tensors);
    const bytes = [...workload.tensors.values()].reduce((sum, { values }) => sum + values.byteLength, 0);
    expect(bytes / 1e6).toBeCloseTo(megabytes, 1);
    expect(keys.denominators.size).toBe(12);
    expect(keys.stats.size).toBe(27);
    expect(keys.scalars.size).toBe(18);
  });
});

describe('what is kept until the result', () => {
  test('is at most a hundredth of what a step records', async () => {
    const result = await execute(
      { ...scenarioNamed('tracker')!, sizes: onlyOurs('tracker') },
      { ...job, size: 'medium', isTimed: false },
      surroundings(),
    );
    expect(result.retained!.ours / result.retained!.everything).toBeLessThanOrEqual(0.01);
  });

  test('does not grow with the calls of scalars', async () => {
    const kept = async (size: 'small' | 'large'): Promise<number> => {
      const scenario = { ...scenarioNamed('scalars')!, sizes: onlyOurs('scalars') };
      const result = await execute(scenario, { ...job, size, isTimed: false }, surroundings());
      return result.retained!.ours;
    };
    await kept('small'); // compiles what is measured
    // 3000 calls against 900 000: one more number of 8 bytes per call would be 7 MB.
    expect((await kept('large')) - (await kept('small'))).toBeLessThan(100_000);
  });

  test('is not measured where a scenario has no notion of it', async () => {
    const result = await execute(scenarioNamed('moments')!, { ...job, isTimed: false }, surroundings());
    expect(result.retained).toBeUndefined();
  });
});

/** The sizes of a scenario without its peers, which would take longer than what is tested. */
function onlyOurs(name: string): Scenario['sizes'] {
  const { sizes } = scenarioNamed(name)!;
  const alone = ({ label, prepare }: Scenario['sizes']['tiny']): Scenario['sizes']['tiny'] => ({
    label,
    prepare: () => {
      const work = prepare();
      return { ...work, ways: { ours: work.ways.ours } };
    },
  });
  return {
    tiny: alone(sizes.tiny),
    small: alone(sizes.small),
    medium: alone(sizes.medium),
    large: alone(sizes.large),
  };
}

describe('the SIMD floor', () => {
  test.each([1, 128, 1000, 70_000])('reads every one of %i bytes', (bytes) => {
    const floor = new SimdRead(bytes);
    expect(floor.words.byteLength).toBeGreaterThanOrEqual(bytes);
    let sum = 0;
    floor.words.forEach((_, i, words) => {
      words[i] = Math.imul(i + 1, 2654435761);
      sum = (sum + words[i]) | 0;
    });
    expect(floor.read()).toBe(sum);
  });
});
