/** Random calls to a tracker, checked against its model. The kernels must be mocked with `heldKernels`. Not a test. */
import * as tf from '@tensorflow/tfjs-core';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect } from 'vitest';
import { PairingError, TensortallyError } from '../../src/errors.js';
import { type DenominatorHandle, StatsTracker, type TrackerHandle } from '../../src/tracker/index.js';
import { SlowDevice } from '../unit/tracker/slow-device.js';
import { type Random, seeded } from './random.js';
import { type ModelRecord, TrackerModel } from './tracker-model.js';

const WINDOWS = ['step', 'epoch'];
const NAMES = ['a', 'b', 'c', 'd', 'm', 'n'];
const PATHS = ['', 'x'];
const STATS = ['avg_min_max', 'avg', 'sum', 'min', 'max', 'histogram'] as const;
const SCALARS = ['scalar', 'sum', 'min', 'max', 'last'] as const;
const NUMBERS = [0, 1, 2, 5, -3, 7, 1000];
const STRANGE = [NaN, Infinity, -Infinity];

interface Running {
  readonly window: string;
  readonly expected: Record<string, number>;
  readonly taken: readonly ModelRecord[];
  readonly open: () => void;
  outcome?: { readonly numbers?: Record<string, number>; readonly error?: unknown };
  isDropped: boolean;
}

/** A tracker and its model, and the random calls that both get. */
export class TrackerRun {
  readonly slow = new SlowDevice();
  readonly tracker: StatsTracker;
  readonly model: TrackerModel;
  readonly random: Random;
  readonly accepted = new Map<string, number>();
  readonly log: string[] = [];
  readonly #bindings = new Map<
    string,
    { readonly reduceType: (typeof STATS)[number]; readonly denominator: string }
  >();
  /** With the path of their child; those of the tracker have the one that is open. */
  readonly #handles: { readonly handle: DenominatorHandle; readonly child: string | undefined }[] = [];
  readonly #running: Running[] = [];
  readonly #backend: string | undefined;

  /** @param backend to be removed and registered again now and then; undefined for never */
  constructor(seed: number, backend?: string) {
    this.#backend = backend;
    this.random = seeded(seed);
    const rule = this.pick([undefined, 'ignore'] as const);
    this.tracker = new StatsTracker('', {
      windows: WINDOWS,
      exportReminder: Infinity,
      ...(rule === undefined ? {} : { nonFinite: rule }),
    });
    this.model = new TrackerModel(WINDOWS, rule);
  }

  pick<T>(list: readonly T[]): T {
    return list[Math.floor(this.random() * list.length)]!;
  }

  chance(p: number): boolean {
    return this.random() < p;
  }

  async step(): Promise<void> {
    const calls: [weight: number, name: string, call: () => void | Promise<void>][] = [
      [
        20,
        'scalar',
        () => {
          this.#scalar();
        },
      ],
      [
        5,
        'counter',
        () => {
          this.#counter();
        },
      ],
      [
        12,
        'denominator',
        () => {
          this.#denominator();
        },
      ],
      [
        6,
        'handle',
        () => {
          this.#handle();
        },
      ],
      [
        20,
        'stat',
        () => {
          this.#stat();
        },
      ],
      [
        8,
        'handle.stat',
        () => {
          this.#handleStat();
        },
      ],
      [
        3,
        'handle dispose',
        () => {
          this.#handles.shift()?.handle[Symbol.dispose]();
        },
      ],
      [5, 'peek', () => this.#export(this.chance(0.3) ? this.#key() : undefined, { reset: false })],
      [5, 'export key', () => this.#export(this.#key())],
      [6, 'export', () => this.#export()],
      [5, 'finish', () => this.#finish()],
      [
        0.2,
        'dispose',
        () => {
          this.#dispose();
        },
      ],
      [this.#backend === undefined ? 0 : 0.3, 'remove backend', () => this.#removeBackend()],
    ];
    let at = this.random() * calls.reduce((sum, [weight]) => sum + weight, 0);
    const [, name, call] = calls.find(([weight]) => (at -= weight) < 0) ?? calls[0]!;
    try {
      await call();
      this.accepted.set(name, (this.accepted.get(name) ?? 0) + 1);
      this.log.push(name);
    } catch (error) {
      // Refused: the model has not heard of it.
      if (!(error instanceof TensortallyError)) throw error;
      this.log.push(`${name} refused: ${error.message.slice(0, 100)}`);
    }
    await nextTurn();
    this.#settle();
  }

  /** Everything comes out, and leaves nothing. */
  async end(): Promise<void> {
    await this.#finishAll();
    for (let round = 0; round < 2; round++) {
      for (const window of WINDOWS) {
        await this.#export(undefined, { window, isSlow: false });
        await this.#finishAll();
      }
      for (const { handle } of this.#handles) handle[Symbol.dispose]();
    }
    expect(this.tracker.memory()).toMatchObject({ keys: 0, waitingRows: 0, heldMasks: 0, unreadLaunches: 0 });
    this.tracker.scalar(Object.fromEntries(NAMES.map((name) => [name, 1])));
    expect(Object.keys(await this.tracker.export())).toHaveLength(2 * NAMES.length);
  }

  #key(): string {
    const path = this.pick(PATHS);
    return path === '' ? this.pick(NAMES) : `${path}/${this.pick(NAMES)}`;
  }

  /** Runs a record call somewhere: at the root, in a scope or in a child. */
  #somewhere(call: (at: TrackerHandle, path: string) => void): void {
    const path = this.pick(PATHS);
    if (path === '') call(this.tracker, '');
    else if (this.chance(0.5)) call(this.tracker.child(path), `${path}/`);
    else
      this.tracker.scope(path, () => {
        call(this.tracker, `${path}/`);
      });
  }

  #number(): number {
    return this.chance(0.05) ? this.pick(STRANGE) : this.pick(NUMBERS);
  }

  #scalar(): void {
    const reduceType = this.pick(SCALARS);
    const weight = reduceType === 'scalar' && this.chance(0.3) ? this.pick([0, 0.25, 2, 2 ** 20]) : undefined;
    const names = this.chance(0.2) ? [this.pick(NAMES), this.pick(NAMES)] : [this.pick(NAMES)];
    this.#somewhere((at, path) => {
      const values = Object.fromEntries(names.map((name) => [name, this.#number()]));
      if (reduceType === 'scalar' && weight === undefined) at.scalar(values);
      else at.scalar(values, { reduceType, ...(weight === undefined ? {} : { weight }) });
      for (const [name, x] of Object.entries(values)) this.model.record(path + name, reduceType, [x], weight);
    });
  }

  #counter(): void {
    this.#somewhere((at, path) => {
      const [name, x] = [this.pick(NAMES), this.pick([0, 1, 3])];
      at.counter({ [name]: x });
      this.model.record(path + name, 'counter', [x]);
    });
  }

  #denominator(): void {
    this.#somewhere((at, path) => {
      tf.tidy(() => {
        const names = this.chance(0.2) ? ['m', 'n'] : [this.pick(this.chance(0.8) ? ['m', 'n'] : NAMES)];
        at.denominator(Object.fromEntries(names.map((name) => [name, maskOf(path + name)])));
        for (const name of names)
          this.model.record(path + name, 'denominator', [selectedOf(path + name).length]);
      });
    });
  }

  #handle(): void {
    this.#somewhere((at, path) => {
      tf.tidy(() => {
        const name = this.pick(['m', 'n']);
        const child = at === this.tracker ? undefined : path.slice(0, -1);
        this.#handles.push({ handle: at.denominator(name, maskOf(path + name)), child });
        this.model.record(path + name, 'denominator', [selectedOf(path + name).length]);
      });
    });
  }

  #stat(): void {
    const reduceType = this.pick(STATS);
    this.#somewhere((at, path) => {
      const [name, denominator] = [this.pick(NAMES), this.pick(['m', 'n'])];
      this.#reduce(path + name, reduceType, path + denominator, (values) => {
        at.stat({ [name]: values }, { denominator, reduceType });
      });
    });
  }

  #handleStat(): void {
    if (this.#handles.length === 0) return;
    const reduceType = this.pick(STATS);
    const { handle, child } = this.pick(this.#handles);
    const name = this.pick(NAMES);
    const open = this.pick(PATHS);
    const path = child ?? open;
    this.#reduce(path === '' ? name : `${path}/${name}`, reduceType, handle.denominator, (values) => {
      this.tracker.scope(open, () => {
        handle.stat({ [name]: values }, { reduceType });
      });
    });
  }

  #reduce(
    key: string,
    reduceType: (typeof STATS)[number],
    denominator: string,
    record: (values: tf.Tensor) => void,
  ): void {
    const numbers = Array.from({ length: SIZE }, () => this.#number());
    tf.tidy(() => {
      record(tf.tensor1d(numbers, 'float32'));
    });
    this.#bindings.set(key, { reduceType, denominator });
    this.model.record(
      key,
      reduceType,
      selectedOf(denominator).map((i) => numbers[i]!),
    );
  }

  /** An export or a peek, which may stay in flight, behind a gate of its own or behind that of another, and fail. */
  async #export(
    key?: string,
    { window = this.pick(WINDOWS), isSlow = this.chance(0.6), reset = true } = {},
  ): Promise<void> {
    if (this.#running.length >= 4) return;
    for (let attempt = 0; ; attempt++) {
      expect(attempt, 'values recorded to mend an export').toBeLessThan(300);
      const open = isSlow ? this.slow.close() : () => undefined;
      const exported = this.tracker.export({ window, reset, ...(key === undefined ? {} : { key }) });
      const all = this.model.look(window, key);
      const running: Running = {
        window,
        expected: this.model.numbers(all),
        taken: reset ? this.model.take(window, key) : [],
        open,
        isDropped: false,
      };
      exported.then(
        (numbers) => {
          running.outcome = { numbers };
        },
        (error: unknown) => {
          running.outcome = { error };
        },
      );
      await nextTurn();
      this.slow.gate = Promise.resolve();
      this.#running.push(running);
      const { error } = running.outcome ?? {};
      this.#settle();
      if (!(error instanceof PairingError)) return;
      this.#mend(error);
    }
  }

  /** Records the value that an export misses. It must be possible, or the tracker is wedged. */
  #mend({ message }: PairingError): void {
    const key = /^export: (\S+): expected one value per mask/.exec(message)![1]!;
    const { reduceType, denominator } = this.#bindings.get(key)!;
    this.log.push(`mend ${key} under ${denominator}`);
    this.#reduce(key, reduceType, denominator, (values) => {
      this.tracker.disableScope(() => {
        this.tracker.stat({ [key]: values }, { denominator, reduceType });
      });
    });
  }

  /** Lets one of the exports that are in flight go on, to its end or to a failure, unless it waits for another. */
  async #finish(): Promise<void> {
    if (this.#running.length === 0) return;
    const running = this.pick(this.#running);
    this.slow.failures = this.chance(0.5) ? 1 : 0;
    running.open();
    for (let turn = 0; turn < 5 && running.outcome === undefined; turn++) await nextTurn();
    this.slow.failures = 0;
    this.#settle();
  }

  async #finishAll(): Promise<void> {
    for (const { open } of this.#running) open();
    for (let turn = 0; this.#running.length > 0; turn++) {
      expect(turn, 'turns until all exports are over').toBeLessThan(10_000);
      await nextTurn();
      this.#settle();
    }
  }

  /** Books what exports have come to. */
  #settle(): void {
    for (const running of [...this.#running]) {
      if (running.outcome === undefined) continue;
      this.#running.splice(this.#running.indexOf(running), 1);
      const { window, expected, taken, outcome, isDropped } = running;
      if (outcome.numbers !== undefined) {
        expectNumbers(outcome.numbers, expected);
        this.accepted.set('exported', (this.accepted.get('exported') ?? 0) + 1);
        continue;
      }
      expect(outcome.error).toBeInstanceOf(TensortallyError);
      this.log.push(`failed in flight: ${(outcome.error as Error).message.slice(0, 60)}`);
      if (!(outcome.error instanceof PairingError))
        this.accepted.set('failed', (this.accepted.get('failed') ?? 0) + 1);
      if (!isDropped) this.model.restore(window, taken);
    }
  }

  #dispose(): void {
    this.tracker.dispose();
    this.model.clear();
    for (const running of this.#running) running.isDropped = true;
  }

  async #removeBackend(): Promise<void> {
    const backend = this.#backend!;
    const factory = tf.findBackendFactory(backend);
    tf.removeBackend(backend);
    if (this.chance(0.5)) await this.#export();
    tf.registerBackend(backend, factory, 1000);
    await tf.setBackend(backend);
  }
}

const SIZE = 4;

/** Where the masks of a denominator select: always the same, so that it does not matter which of them a value has. */
function selectedOf(denominator: string): number[] {
  return denominator.endsWith('m') ? [0, 1, 3] : [2, 3];
}

function maskOf(denominator: string): tf.Tensor {
  const selected = selectedOf(denominator);
  return tf.tensor1d(
    Array.from({ length: SIZE }, (_, i) => (selected.includes(i) ? 1 : 0)),
    'bool',
  );
}

/** Quantiles are within the extremes; all else is exact, since sums of these numbers are. */
function expectNumbers(numbers: Record<string, number>, expected: Record<string, number>): void {
  const exact = Object.entries(numbers).filter(([name]) => !/\/p(50|90|99)$/.test(name));
  expect(Object.fromEntries(exact)).toEqual(expected);
}
