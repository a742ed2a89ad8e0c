/**
 * The demo: checks its options, starts a backend, trains, shows progress, and sums up.
 */
import { existsSync, lstatSync, statSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import * as tf from '@tensorflow/tfjs';
import { ValueError } from '../../src/errors.js';
import { initBackend, type BackendName, type BackendReport } from '../../src/kernels/index.js';
import { ConsoleWriter } from '../../src/tracker/index.js';
import { assertNotPlanted } from '../../src/tracker/loggers/planted-path.js';
import { defaultConfig, type TrainerConfig } from './config.js';
import { headlines } from './headlines.js';
import { Progress, percent, sparkline } from './progress.js';
import { RunStatistics, type StepReport } from './statistics.js';
import { train } from './trainer.js';

/** What the demo can be asked. */
export interface DemoOptions {
  /** Training steps. Left out, {@link DEFAULT_STEPS}, or as many as fit in {@link DEFAULT_SECONDS}. */
  readonly steps: number | undefined;
  readonly backend: 'auto' | BackendName;
  /** Fixes prompts, samples and initial weights. */
  readonly seed: number;
  /** Folder of the run's files; default `runs/ppo-<time>`. */
  readonly out: string | undefined;
  /** Print all metrics of the last step, not only the headlines. */
  readonly all?: boolean;
}

/** Steps that show the whole curve; about two minutes on two CPU cores with wasm or TensorFlow. */
const DEFAULT_STEPS = 100;

/** A run whose steps nobody set ends after this, so that a slow backend is no surprise. */
const DEFAULT_SECONDS = 150;

/**
 * Trains a small transformer to sort digits by PPO and shows what the engine measures meanwhile.
 *
 * Writes `config.json` and `metrics.jsonl` (a line per step) to the folder of the run. Ctrl-C ends the run after the
 * step in progress, with complete files; a second one ends it at once.
 *
 * @param config sizes of the run; only a smaller one is of use, for a run that shall be short
 * @throws ValueError for options out of range, or a folder that already holds a run; LogWriteError for a folder that
 *   cannot be written, or that somebody else may have put there
 * @throws BackendError with the remedy if the named backend cannot run here
 */
export async function runDemo(options: DemoOptions, config: TrainerConfig = defaultConfig): Promise<void> {
  checkOptions(options);
  const folder = options.out ?? join('runs', `ppo-${timestamp(new Date())}`);
  refuseUsedFolder(folder);
  // Only silences the advice that tfjs prints when its plain CPU backend is used, and skips its debug checks.
  tf.enableProdMode();
  const backend = await initBackend(options.backend);
  const statistics = await RunStatistics.open(config, folder);
  const progress = new Progress();
  progress.line(
    `PPO on ${backend.backend} (${backend.device}): sort ${config.task.minDigits} to ${config.task.maxDigits} digits, seed ${options.seed}`,
  );
  let reports: StepReport[];
  try {
    await writeConfig(folder, options, backend, config);
    reports = await trainAndReport(options, config, statistics, progress);
  } finally {
    await statistics.close();
  }
  await showLast(reports.at(-1)!, options.all === true, progress);
  summarise(reports, folder, progress);
}

/** Trains, and shows every step; Ctrl-C and SIGTERM end it after the step in progress. */
async function trainAndReport(
  { steps: asked, seed }: DemoOptions,
  config: TrainerConfig,
  statistics: RunStatistics,
  progress: Progress,
): Promise<StepReport[]> {
  const reports: StepReport[] = [];
  const steps = asked ?? DEFAULT_STEPS;
  const began = performance.now();
  const timeIsUp = new AbortController();
  let current = 0;
  const stop = stopOnSignal(() => {
    progress.line('stopping after this step; once more to stop at once');
  });
  try {
    progress.start();
    await train(
      config,
      { seed, steps, signal: AbortSignal.any([stop.signal, timeIsUp.signal]) },
      {
        stepStarted: (step) => {
          current = step;
          statistics.startStep();
        },
        phase: (phase, body) => {
          progress.phase(current, steps, phase);
          return statistics.phase(phase, body);
        },
        episodesEnded: (rollout, scores) => {
          statistics.recordEpisodes(rollout, scores);
        },
        actorMicroBatch: (seen) => {
          statistics.recordActor(seen);
        },
        criticMicroBatch: (seen) => {
          statistics.recordCritic(seen);
        },
        stepEnded: async (finished) => {
          const report = await statistics.finishStep(finished);
          reports.push(report);
          progress.step(report);
          const isOver = asked === undefined && performance.now() - began > DEFAULT_SECONDS * 1000;
          if (isOver && report.step < steps) {
            timeIsUp.abort();
            progress.line(
              `${DEFAULT_SECONDS} s are over after ${report.step} of ${steps} steps; --steps sets their number, ` +
                '`tensortally doctor` tells which faster backend this machine could have',
            );
          }
        },
      },
    );
  } finally {
    stop.forget();
  }
  return reports;
}

/** Aborts on the first SIGINT or SIGTERM; the second one does what it does without this. */
function stopOnSignal(announce: () => void): { readonly signal: AbortSignal; forget: () => void } {
  const controller = new AbortController();
  const forget = (): void => {
    process.off('SIGINT', onSignal);
    process.off('SIGTERM', onSignal);
  };
  const onSignal = (): void => {
    forget();
    controller.abort();
    announce();
  };
  process.on('SIGINT', onSignal);
  process.on('SIGTERM', onSignal);
  return { signal: controller.signal, forget };
}

/** The last step's metrics: those that say how it went, or all. */
async function showLast({ step, metrics }: StepReport, isAll: boolean, progress: Progress): Promise<void> {
  const shown = isAll ? metrics : headlines(metrics);
  await new ConsoleWriter().write(step, shown);
  if (isAll) return;
  const [some, all] = [shown, metrics].map((record) => Object.keys(record).length);
  progress.line(`metrics     ${some} of ${all}; --all prints all, metrics.jsonl has all of every step`);
}

/** What the run was: the curve, the cost of its statistics, and where its files are. */
function summarise(reports: readonly StepReport[], folder: string, progress: Progress): void {
  const rewards = reports.map(({ metrics }) => metrics['critic/score/mean'] ?? NaN);
  const shares = reports.map(({ statisticsSeconds, stepSeconds }) => statisticsSeconds / stepSeconds);
  const statistics = reports.reduce((sum, { statisticsSeconds }) => sum + statisticsSeconds, 0);
  const all = reports.reduce((sum, { stepSeconds }) => sum + stepSeconds, 0);
  progress.line(
    `reward      ${rewards[0]!.toFixed(3)} → ${rewards.at(-1)!.toFixed(3)} in ${reports.length} steps  ${sparkline(rewards, 40)}`,
  );
  progress.line(
    `statistics  ${percent(median(shares))} of a step (median); ${statistics.toFixed(2)} s of ${all.toFixed(1)} s in all (${percent(statistics / all)}): records, metrics, read-back and journal`,
  );
  progress.line(`files       ${join(folder, 'metrics.jsonl')}, ${join(folder, 'config.json')}`);
}

/** The middle one, or the mean of the two middle ones. */
function median(numbers: readonly number[]): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  const middle = (sorted.length - 1) / 2;
  return (sorted[Math.floor(middle)]! + sorted[Math.ceil(middle)]!) / 2;
}

/** Two runs in one folder would mix their journals, and somebody else's files are not ours to replace. */
function refuseUsedFolder(folder: string): void {
  if (folder !== '') assertNotPlanted('runDemo', resolve(folder));
  // Not existsSync: a link that leads nowhere is somebody's, too.
  const taken = ['metrics.jsonl', 'config.json'].find((file) => isThere(join(folder, file)));
  const isFile = existsSync(folder) && !statSync(folder).isDirectory();
  if (folder !== '' && taken === undefined && !isFile) return;
  throw new ValueError({
    where: 'runDemo',
    input: 'out',
    expected: 'a folder without a run',
    received: isFile
      ? `${folder}, which is a file`
      : taken === undefined
        ? 'no name'
        : `${folder}, which holds ${taken}`,
    remedy: folder === '' ? 'name a folder' : 'choose another folder or move that run away',
  });
}

function isThere(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch {
    return false; // under a file, which is refused as such
  }
}

/** Writes what it takes to repeat the run, before it starts. */
async function writeConfig(
  folder: string,
  { steps, seed }: DemoOptions,
  backend: BackendReport,
  config: TrainerConfig,
): Promise<void> {
  const run = { seed, steps: steps ?? `up to ${DEFAULT_STEPS}`, backend, ...config };
  await writeFile(join(folder, 'config.json'), `${JSON.stringify(run, undefined, 2)}\n`, { flag: 'wx' });
}

function checkOptions({ steps, seed }: DemoOptions): void {
  const refuse = (input: string, expected: string, received: number): void => {
    throw new ValueError({
      where: 'runDemo',
      input,
      expected,
      received: String(received),
      remedy: `pass ${expected}`,
    });
  };
  if (steps !== undefined && (!Number.isSafeInteger(steps) || steps < 1)) {
    refuse('steps', 'a whole number from 1', steps);
  }
  // The generator takes 32 bits; a larger seed would silently be another one.
  if (!Number.isSafeInteger(seed) || seed < 0 || seed >= 2 ** 32) {
    refuse('seed', 'a whole number from 0 to 4294967295', seed);
  }
}

/** Local time as `20250131-235959`: sorts as it should and fits every file system. */
function timestamp(date: Date): string {
  const two = (value: number): string => String(value).padStart(2, '0');
  const day = `${date.getFullYear()}${two(date.getMonth() + 1)}${two(date.getDate())}`;
  return `${day}-${two(date.getHours())}${two(date.getMinutes())}${two(date.getSeconds())}`;
}
