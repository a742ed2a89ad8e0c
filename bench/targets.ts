/**
 * What the package must reach, as data: `tensortally bench --check` measures exactly this and fails if it does not.
 *
 * The ratios were set for two CPU cores; the counts hold everywhere.
 */
import type { BackendName } from '../src/index.js';
import type { JobResult } from './job.js';
import { FLOOR, type SizeName } from './scenario.js';

export interface Target {
  readonly claim: string;
  readonly scenario: string;
  readonly size: SizeName;
  readonly backend: BackendName;
  /** Whether it is about time, not about counts. */
  readonly isTimed: boolean;
  readonly needsTorch: boolean;
  readonly bound: Bound;
  /** The number that the bound is about; undefined if the result has no such number. */
  measure(result: JobResult): number | undefined;
  /** Where the number is a ratio of two ways. */
  interval?(result: JobResult): Verdict['interval'];
}

export type Bound = { readonly atLeast: number } | { readonly atMost: number } | { readonly equal: number };

/** What became of a target. */
export interface Verdict {
  readonly claim: string;
  readonly bound: Bound;
  readonly outcome: 'met' | 'missed' | 'skipped';
  /** Undefined if it was skipped. */
  readonly measured?: number | undefined;
  /** At least 95 % confidence, where the number is a ratio of times. */
  readonly interval?: readonly [low: number, high: number] | undefined;
  /** Why it was skipped. */
  readonly reason?: string | undefined;
}

type Place = Pick<Target, 'scenario' | 'size' | 'backend'>;

function faster(than: 'composed' | 'torch' | 'bootstrap' | 'json', times: number, place: Place): Target {
  const { scenario, size, backend } = place;
  const peer = than === 'composed' ? 'composed operations' : than;
  return {
    ...place,
    claim: `${scenario} ${size} on ${backend}: times as fast as ${peer}`,
    isTimed: true,
    needsTorch: than === 'torch',
    bound: { atLeast: times },
    measure: ({ ways }) => ways[than]?.ratio,
    interval: ({ ways }) => ways[than]?.ratioInterval,
  };
}

/** Ours may take so many times as long as another way. */
function atMostTimes(times: number, way: string, what: string, place: Place): Target {
  const { scenario, size, backend } = place;
  return {
    ...place,
    claim: `${scenario} ${size} on ${backend}: time over that of ${what}`,
    isTimed: true,
    needsTorch: false,
    bound: { atMost: times },
    measure: ({ ways: { [way]: other } }) => other && 1 / other.ratio,
    interval: ({ ways: { [way]: other } }) =>
      other && [1 / other.ratioInterval[1], 1 / other.ratioInterval[0]],
  };
}

function counted(what: string, bound: Bound, place: Place, measure: Target['measure']): Target {
  const claim = `${place.scenario} ${place.size} on ${place.backend}: ${what}`;
  return { ...place, claim, isTimed: false, needsTorch: false, bound, measure };
}

function launches(atMost: number, place: Place): Target {
  return counted('launches of one mask group', { atMost }, place, ({ counts }) => counts.ours?.launches);
}

function readBacks(backend: BackendName): Target {
  const place = { scenario: 'step', size: 'medium', backend } as const;
  return counted('read-backs of all metrics', { equal: 1 }, place, ({ counts }) => counts.ours?.readBacks);
}

function extraMemory(backend: BackendName): Target {
  const place = { scenario: 'data', size: 'large', backend } as const;
  const share = ({ counts, inputBytes }: JobResult) => counts.ours && counts.ours.peakBytes / inputBytes;
  return counted('extra memory over inputs', { atMost: 0.01 }, place, share);
}

/** What is kept until the result, against all that went in: what a peer keeps that reduces at the end. */
function retained(atMost: number, place: Place): Target {
  return counted('memory kept over what went in', { atMost }, place, ({ retained: kept }) =>
    kept === undefined ? undefined : kept.ours / kept.everything,
  );
}

/** A number of things per second, on one core; a slower one than this is for may miss it. */
function rate(atLeast: number, what: string, place: Place): Target {
  const perSecond = ({ amount, ways: { ours } }: JobResult, at: 'medianMs' | 0 | 1): number | undefined =>
    amount && ours && (amount.count * 1000) / (at === 'medianMs' ? ours.medianMs : ours.intervalMs[at]);
  return {
    ...place,
    claim: `${place.scenario} ${place.size}: ${what} per second`,
    isTimed: true,
    needsTorch: false,
    bound: { atLeast },
    measure: (result) => perSecond(result, 'medianMs'),
    interval: (result) => {
      const [low, high] = [perSecond(result, 1), perSecond(result, 0)];
      return low === undefined || high === undefined ? undefined : [low, high];
    },
  };
}

function flat(backend: BackendName): Target {
  return {
    claim: `scaling large on ${backend}: dearest over cheapest element`,
    scenario: 'scaling',
    size: 'large',
    backend,
    isTimed: true,
    needsTorch: false,
    bound: { atMost: 1.5 },
    measure: ({ ways }) => {
      const ours = Object.entries(ways).filter(([name]) => !name.startsWith(FLOOR));
      const perElement = ours.map(([, { ratio }]) => ratio);
      return Math.max(...perElement) / Math.min(...perElement);
    },
  };
}

const large = (scenario: string, backend: BackendName): Place => ({ scenario, size: 'large', backend });
/** A software GPU proves the order of magnitude at a size that it gets through. */
const medium = (scenario: string, backend: BackendName): Place => ({ scenario, size: 'medium', backend });

export const targets: readonly Target[] = [
  faster('torch', 50, large('data', 'wasm')),
  faster('torch', 50, large('data', 'cpu')),
  faster('torch', 15, large('data', 'tensorflow')),
  faster('torch', 100, large('step', 'wasm')),
  faster('torch', 100, large('step', 'cpu')),
  faster('torch', 20, large('step', 'tensorflow')),
  faster('composed', 20, large('moments', 'wasm')),
  faster('composed', 20, large('moments', 'cpu')),
  faster('composed', 1.5, large('moments', 'tensorflow')),
  faster('composed', 3, medium('moments', 'webgpu')),
  {
    ...large('moments', 'wasm'),
    claim: 'moments large on wasm: time over that of reading the bytes',
    isTimed: true,
    needsTorch: false,
    bound: { atMost: 2.5 },
    measure: ({ ways }) => ways.floor && 1 / ways.floor.ratio,
    interval: ({ ways: { floor } }) => floor && [1 / floor.ratioInterval[1], 1 / floor.ratioInterval[0]],
  },
  flat('wasm'),
  flat('cpu'),
  launches(2, medium('moments', 'webgpu')),
  // From 262 144 elements on two more ops keep temporaries small, see docs/decisions/0010.
  launches(18, { scenario: 'moments', size: 'small', backend: 'tensorflow' }),
  launches(20, large('moments', 'tensorflow')),
  readBacks('webgpu'),
  readBacks('tensorflow'),
  faster('torch', 8, large('logits', 'wasm')),
  // AReaL's two examples: gsm8k_grpo.yaml is medium, boba_grpo.yaml large.
  ...[medium, large].flatMap((size): Target[] => [
    faster('torch', 20, size('tracker', 'wasm')),
    faster('torch', 20, size('tracker', 'cpu')),
    faster('torch', 5, size('tracker', 'tensorflow')),
    retained(0.01, size('tracker', 'wasm')),
    retained(0.01, size('tracker', 'cpu')),
    retained(0.01, size('tracker', 'tensorflow')),
  ]),
  retained(0.01, medium('tracker', 'webgpu')),
  rate(2e6, 'scalar() calls', large('scalars', 'cpu')),
  faster('torch', 3, large('scalars', 'cpu')),
  retained(0.01, large('scalars', 'cpu')),
  // 10 000 workers in a tenth of a second.
  rate(1e5, 'deltas merged', large('stream', 'cpu')),
  faster('json', 1.5, large('stream', 'cpu')),
  faster('torch', 3, large('stream', 'cpu')),
  ...(['tiny', 'small', 'medium'] as const).map((size) =>
    atMostTimes(2, 'bare', 'a bare append', { scenario: 'journal', size, backend: 'cpu' }),
  ),
  atMostTimes(4, 'one row', 'one row of as many tokens', medium('one-step', 'wasm')),
  atMostTimes(4, 'one row', 'one row of as many tokens', medium('one-step', 'cpu')),
  faster('bootstrap', 300, large('validation', 'cpu')),
  extraMemory('webgpu'),
  extraMemory('wasm'),
  extraMemory('cpu'),
];

/** Holds a target against the result of its place. */
export function judge(target: Target, result: JobResult): Verdict {
  const { claim, bound } = target;
  const measured = target.measure(result);
  if (measured === undefined) {
    return { claim, bound, outcome: 'skipped', reason: 'was not measured' };
  }
  const isMet =
    'atLeast' in bound
      ? measured >= bound.atLeast
      : 'atMost' in bound
        ? measured <= bound.atMost
        : measured === bound.equal;
  const interval = target.interval?.(result);
  return { claim, bound, outcome: isMet ? 'met' : 'missed', measured, interval };
}
