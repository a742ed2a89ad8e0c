/** Runs one job in this process: prepare, check every way, count, then time them in turns. */
import { initBackend } from '../src/index.js';
import { assertAgreement } from './agreement.js';
import { type Counts, countDeviceWork } from './counters/index.js';
import { type Floor, floorOf } from './floor/index.js';
import type { Job, JobResult } from './job.js';
import { type TimedWay, measureInterleaved, timedBy } from './measure/interleaved.js';
import { TorchPeer } from './peers/torch.js';
import { FLOOR, type Scenario, type Work } from './scenario.js';

/** What a job leaves to its surroundings. */
export interface Surroundings {
  /** Monotonic milliseconds. */
  readonly clock: () => number;
  readonly onProgress: (text: string) => void;
}

/**
 * @throws DisagreementError if a way computes something else than expected; nothing is timed then
 * @throws BackendError if the backend or torch does not run here
 */
export async function execute(
  scenario: Scenario,
  job: Job,
  { clock, onProgress }: Surroundings,
): Promise<JobResult> {
  const report = await initBackend(job.backend);
  const { label, prepare } = scenario.sizes[job.size];
  onProgress('preparing');
  const work = prepare();
  const versions: Record<string, string> = { ...report.versions };
  let peer: TorchPeer | undefined;
  const floors: Floor[] = [];
  try {
    onProgress('counting');
    const first = await countWays(work);
    onProgress('checking');
    const checked = await checkWays(work);
    const { torch } = work;
    if (job.torch !== undefined && torch !== undefined) {
      peer = await TorchPeer.start({ python: job.torch.python, threads: job.threads }, torch);
      versions.torch = peer.version;
      assertAgreement('torch', torch.expected, await peer.numbers(), torch.closeness);
      checked.push('torch');
    }
    onProgress('counting');
    const counts = steadyCounts(first, await countWays(work));
    const retained = await retainedBy(work);

    const ways: Record<string, TimedWay> = {};
    for (const [name, { run, share }] of Object.entries(work.ways)) {
      ways[name] = { ...timedBy(clock, run), units: share?.units };
    }
    for (const [name, { bytes, units }] of floorsOf(work)) {
      const floor = floorOf(report, bytes);
      floors.push(floor);
      ways[name] = { ...timedBy(clock, floor.run), units };
    }
    if (peer !== undefined) ways.torch = peer;
    const timings = job.isTimed
      ? await measureInterleaved(ways, 'ours', {
          minRounds: job.minRounds,
          budgetMs: job.budgetSeconds * 1000,
          clock,
          onRound: (round) => {
            onProgress(`round ${round}`);
          },
        })
      : { rounds: 0, ways: {} };
    return {
      scenario: scenario.name,
      size: job.size,
      label,
      backend: report.backend,
      device: report.device,
      driver: report.driver,
      isSoftware: report.isSoftware,
      versions,
      inputBytes: work.inputBytes,
      floor: floors[0]!.describe,
      checked,
      rounds: timings.rounds,
      ways: timings.ways,
      counts,
      retained,
      amount: work.amount,
    };
  } finally {
    peer?.stop();
    for (const floor of floors) floor.dispose();
    work.dispose();
  }
}

/** One for all ways, or one for each where they do different amounts of work. */
function floorsOf({ ways, inputBytes }: Work): [name: string, floor: { bytes: number; units?: number }][] {
  if (ways.ours.share === undefined) return [[FLOOR, { bytes: inputBytes }]];
  return Object.entries(ways).flatMap(([name, { share }]) =>
    share === undefined ? [] : [[`${FLOOR} of ${name}`, { bytes: share.inputBytes, units: share.units }]],
  );
}

async function retainedBy({ retention }: Work): Promise<JobResult['retained']> {
  if (retention === undefined) return undefined;
  return { ours: await retention.ours(), everything: retention.everything };
}

async function countWays({ ways }: Work): Promise<Record<string, Counts>> {
  const counts: Record<string, Counts> = {};
  for (const [name, way] of Object.entries(ways)) counts[name] = await countDeviceWork(way.run);
  return counts;
}

/** What every run does, except for memory: a workspace that the first run makes and keeps is extra memory too. */
function steadyCounts(
  first: Readonly<Record<string, Counts>>,
  later: Readonly<Record<string, Counts>>,
): Record<string, Counts> {
  return Object.fromEntries(
    Object.entries(later).map(([name, counts]) => [
      name,
      { ...counts, peakBytes: Math.max(counts.peakBytes, first[name]!.peakBytes) },
    ]),
  );
}

/** Names of the ways, all of which came to what is expected. */
async function checkWays({ ways }: Work): Promise<string[]> {
  for (const [name, { numbers, expected, closeness }] of Object.entries(ways)) {
    assertAgreement(name, expected, await numbers(), closeness);
  }
  return Object.keys(ways);
}
