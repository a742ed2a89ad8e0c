/** `tensortally bench`: from a command line to jobs, a process for each, and a report. */
import { execFileSync, fork } from 'node:child_process';
import { existsSync } from 'node:fs';
import { availableParallelism, cpus } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { ownPackage } from '../src/own-package.js';
import { type BackendName, ValueError } from '../src/index.js';
import type { Job, JobMessage, JobResult } from './job.js';
import { Progress } from './progress.js';
import { describeResult, describeVerdicts } from './report.js';
import type { SizeName } from './scenario.js';
import { scenarioNamed, scenarios } from './scenarios/index.js';
import { type Target, type Verdict, judge, targets } from './targets.js';

export interface BenchOptions {
  /** Names; none means all. */
  readonly scenarios: readonly string[];
  /** None means `auto`, and with `check` all that targets are about. */
  readonly backends: readonly ('auto' | BackendName)[];
  readonly sizes: readonly SizeName[];
  readonly minRounds: number;
  readonly budgetSeconds: number;
  /** A Python with torch. */
  readonly torch?: string | undefined;
  readonly threads: number;
  readonly json: boolean;
  readonly check: boolean;
}

/** A job that came to no result. */
export interface Refused {
  readonly scenario: string;
  readonly size: SizeName;
  readonly backend: string;
  readonly outcome: 'unavailable' | 'failed';
  readonly reason: string;
}

/** All of a run, as `--json` prints it. */
export interface BenchReport {
  readonly format: 1;
  readonly environment: Readonly<Record<string, string | number>>;
  readonly results: readonly JobResult[];
  readonly refused: readonly Refused[];
  /** With `check`. */
  readonly targets?: readonly Verdict[] | undefined;
}

export type RunJob = (job: Job, onProgress: (text: string) => void) => Promise<JobMessage>;

/**
 * Measures and prints.
 *
 * @returns whether everything ran, computed rightly and, with `check`, met its target. What a check cannot measure
 *   here (no torch, no such backend) is no failure; asked for by name without `check`, it is.
 * @throws ValueError for a scenario that does not exist
 */
export async function runBench(
  options: BenchOptions,
  runJob: RunJob = jobInProcess,
  print: (text: string) => void = console.log,
): Promise<boolean> {
  for (const name of options.scenarios) assertScenario(name);
  const asked = options.check ? targets.filter((target) => isAsked(target, options)) : [];
  const jobs = options.check ? jobsOf(asked, options) : plainJobs(options);
  const progress = new Progress(process.stderr, jobs.length);
  const results: JobResult[] = [];
  const refused: Refused[] = [];
  for (const job of jobs) {
    progress.begin(`${job.scenario} ${job.size} on ${job.backend}`);
    const message = await runJob(job, (text) => {
      progress.tell(text);
    });
    progress.end();
    if (message.kind === 'result') {
      results.push(message.result);
      if (!options.json) print(describeResult(message.result));
      if (job.torch !== undefined && !message.result.checked.includes('torch'))
        progress.note(`${job.scenario} has no torch peer: --torch changes nothing there`);
    } else if (message.kind !== 'progress') {
      const { scenario, size, backend } = job;
      const { kind: outcome, reason } = message;
      refused.push({ scenario, size, backend, outcome, reason });
      if (!options.json) print(`${scenario} ${size} on ${backend}: ${outcome}: ${reason}\n`);
    }
  }
  const verdicts = options.check ? asked.map((target) => verdictOf(target, results, refused)) : undefined;
  if (options.json) {
    const report: BenchReport = {
      format: 1,
      environment: environment(options),
      results,
      refused,
      targets: verdicts,
    };
    print(JSON.stringify(report, null, 2));
  } else if (verdicts !== undefined) {
    print(describeVerdicts(verdicts));
  }
  const isBroken = refused.some(({ outcome }) => outcome === 'failed' || !options.check);
  return !isBroken && (verdicts ?? []).every(({ outcome }) => outcome !== 'missed');
}

function assertScenario(name: string): void {
  if (scenarioNamed(name) !== undefined) return;
  throw new ValueError({
    where: 'bench',
    input: 'scenario',
    expected: `one of ${scenarios.map((scenario) => scenario.name).join(', ')}`,
    received: JSON.stringify(name),
    remedy: 'leave it out for all',
  });
}

function plainJobs(options: BenchOptions): Job[] {
  const names = options.scenarios.length > 0 ? options.scenarios : scenarios.map(({ name }) => name);
  const backends = options.backends.length > 0 ? options.backends : (['auto'] as const);
  return backends.flatMap((backend) =>
    names.flatMap((scenario) =>
      options.sizes.map((size) => jobOf({ scenario, size, backend, isTimed: true }, options)),
    ),
  );
}

function isAsked({ scenario, backend }: Target, { scenarios: names, backends }: BenchOptions): boolean {
  return (
    (names.length === 0 || names.includes(scenario)) && (backends.length === 0 || backends.includes(backend))
  );
}

/** One job per place that targets are about, timed if one of them is about time and can be measured. */
function jobsOf(asked: readonly Target[], options: BenchOptions): Job[] {
  const jobs = new Map<string, Job>();
  for (const { scenario, size, backend, isTimed, needsTorch } of asked) {
    if (scenarioNamed(scenario) === undefined) continue;
    const place = `${scenario} ${size} ${backend}`;
    const isTiming = isTimed && (!needsTorch || options.torch !== undefined);
    if (needsTorch && !isTiming) continue;
    const known = jobs.get(place)?.isTimed ?? false;
    jobs.set(place, jobOf({ scenario, size, backend, isTimed: known || isTiming }, options));
  }
  return [...jobs.values()];
}

function jobOf(
  place: Pick<Job, 'scenario' | 'size' | 'backend' | 'isTimed'>,
  { minRounds, budgetSeconds, threads, torch }: BenchOptions,
): Job {
  return {
    ...place,
    minRounds,
    budgetSeconds,
    threads,
    torch: torch === undefined ? undefined : { python: torch },
  };
}

function verdictOf(target: Target, results: readonly JobResult[], refused: readonly Refused[]): Verdict {
  const isPlace = ({ scenario, size, backend }: Pick<JobResult, 'scenario' | 'size'> & { backend: string }) =>
    scenario === target.scenario && size === target.size && backend === target.backend;
  const result = results.find(isPlace);
  if (result !== undefined && (!target.needsTorch || 'torch' in result.ways)) return judge(target, result);
  const { claim, bound } = target;
  const refusal = refused.find(isPlace);
  if (refusal?.outcome === 'failed') {
    return { claim, bound, outcome: 'missed', reason: refusal.reason };
  }
  const reason =
    refusal?.reason ??
    (scenarioNamed(target.scenario) === undefined
      ? 'this package has no such operation yet'
      : 'needs torch; name a Python that has it with --torch');
  return { claim, bound, outcome: 'skipped', reason };
}

/** A fresh process per job, with the threads that the job asks for. */
const jobInProcess: RunJob = (job, onProgress) =>
  new Promise((resolve) => {
    const script = fileURLToPath(new URL('./job-process.js', import.meta.url));
    const env = {
      TF_CPP_MIN_LOG_LEVEL: '2',
      ...process.env,
      TF_NUM_INTRAOP_THREADS: String(job.threads),
      OMP_NUM_THREADS: String(job.threads),
    };
    const child = fork(script, [], { silent: true, env });
    let outcome: JobMessage | undefined;
    let said = '';
    child.stdout!.resume();
    child.stderr!.setEncoding('utf8').on('data', (text: string) => (said = (said + text).slice(-4000)));
    child.on('message', (message: JobMessage) => {
      if (message.kind === 'progress') onProgress(message.text);
      else outcome = message;
    });
    child.on('close', (status, signal) => {
      const end = signal === null ? `exit status ${String(status)}` : `ended by ${signal}`;
      resolve(outcome ?? { kind: 'failed', reason: `${end}: ${said.trim()}` });
    });
    child.send(job);
  });

function environment({ threads }: BenchOptions): BenchReport['environment'] {
  const { directory, version } = ownPackage();
  return {
    tensortally: version,
    ...commit(directory),
    node: process.versions.node,
    platform: `${process.platform}-${process.arch}`,
    processor: cpus()[0]?.model.trim() ?? 'unknown',
    cores: availableParallelism(),
    threads,
  };
}

/** Of a clone; an installed package has none, though the project around it may. */
function commit(directory: string): { commit?: string } {
  if (!existsSync(path.join(directory, '.git'))) return {};
  try {
    const words = ['-C', directory, 'describe', '--always', '--dirty'];
    return { commit: execFileSync('git', words, { encoding: 'utf8', stdio: 'pipe' }).trim() };
  } catch {
    return {}; // without git nobody needs to know
  }
}
