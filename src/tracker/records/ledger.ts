/**
 * The records of one tracker: the slots that record calls write to, the masks that values pair with, and what the windows
 * have to export.
 *
 * Every record call is atomic: it checks everything, launches, and only then writes. Paths and scopes are resolved by
 * the caller; reading back and turning rows into exported numbers is the business of `export.ts`.
 */
import { assertOptions, kindOf, messageOf } from '../../arguments.js';
import { PairingError, ValueError } from '../../errors.js';
import type { CompactMask } from '../../kernels/index.js';
import { Denominators, type TakenMasks } from '../masks/denominators.js';
import { type BoundMask, type HeldMask, type MaskQueue, holdMasks } from '../masks/mask-queue.js';
import { type TrackerMemory, memoryOf } from '../memory.js';
import { Notices } from '../notices.js';
import type { Settings } from '../settings.js';
import type { Binding, Segment, Slot } from './entry.js';
import { assertMask, assertSameShape, namedInputs } from './inputs.js';
import { type Claim, KeyBook } from './key-book.js';
import { Launch, type Part, UnreadLaunches } from './launch.js';
import { NumberRecords } from './numbers.js';
import {
  type Stat,
  type StatOptions,
  type StatReduction,
  assertStatCall,
  bindings,
  launchOf,
  namedStats,
} from './stat-call.js';
import { type Cut, Windows, ofKey } from './windows.js';

/** What an export has cut off from a tracker, until it succeeds or fails. */
export interface Taken {
  readonly segments: readonly Segment[];
  readonly cut: Cut;
  readonly masks: TakenMasks;
}

const DENOMINATOR: Binding = { reduction: 'denominator' };

export class Ledger {
  readonly settings: Settings;
  readonly numbers: NumberRecords;
  readonly #notices: Notices;
  readonly #book: KeyBook;
  readonly #windows: Windows;
  readonly #denominators = new Denominators(
    (stat, denominator) => this.#book.slotOf(stat)?.binding.denominator === denominator,
  );
  readonly #unread = new UnreadLaunches(() => {
    this.absorb();
  });
  /** Record calls since an export forgot everything. */
  #records = 0;
  #hasReminded = false;

  /** @param name of the tracker, for messages */
  constructor(name: string, settings: Settings) {
    this.settings = settings;
    this.#notices = new Notices(name);
    this.#book = new KeyBook(settings, this.#notices);
    this.#windows = new Windows(settings.windows);
    this.numbers = new NumberRecords(this.#book, () => {
      this.#noteRecord();
    });
  }

  /** Records one mask per name; see `StatsTracker.denominator`. */
  recordDenominators(path: string, masks: unknown): void {
    for (const [queue, compact] of this.#compactMasks(path, masks)) {
      queue.push(compact, (mask) => {
        this.#countAlone(queue.denominator, mask);
      });
    }
    this.#noteRecord();
  }

  /** Records a mask that only a handle uses. */
  bindMask(path: string, name: string, mask: unknown): BoundMask {
    const [[queue, compact]] = this.#compactMasks(path, { [name]: mask }) as [[MaskQueue, CompactMask]];
    this.#noteRecord();
    return queue.bind(compact);
  }

  /** Lets the mask of a handle go, counted. Idempotent. */
  unbindMask(mask: BoundMask): void {
    // One that is being exported goes with the export.
    const queue = this.#denominators.holderOf(mask);
    if (queue === undefined) return;
    this.#countAlone(mask.denominator, mask);
    queue.unbind(mask);
  }

  /** Reduces one value per name over the mask that it pairs with; see `StatsTracker.stat`. */
  recordStats(path: string, values: unknown, options: StatOptions | undefined): void {
    assertStatCall(values, options);
    assertOptions('stat', options, { denominator: 'any', reduceType: 'any', nonFinite: 'any' });
    const bindingOf = bindings(options);
    const { denominator, queue } = this.#denominators.find(path, options.denominator);
    const stats = this.#stats(path, denominator, values, bindingOf, options);
    this.#book.assertCompatible('stat', stats);
    queue.dropUnreadable((mask) => {
      this.#countAlone(denominator, mask);
    });

    const groups = new Map<HeldMask, Stat[]>();
    const surplus: string[] = [];
    for (const stat of stats) {
      const { key, tensor } = stat;
      const mask = queue.next(key);
      if (mask === undefined) {
        if (this.settings.mode === 'strict') throw queue.surplus(key);
        surplus.push(key);
        continue;
      }
      assertSameShape(key, tensor, denominator, mask.compact);
      const group = groups.get(mask);
      if (group === undefined) groups.set(mask, [stat]);
      else group.push(stat);
    }
    this.#launch(path, denominator, groups);
    for (const { key } of stats) queue.advance(key);
    for (const key of surplus) this.#noteUnpaired(key, `a value came before its mask of '${denominator}'`);
  }

  /** Reduces one value per name over the mask of a handle; see `DenominatorHandle.stat`. */
  recordBoundStats(path: string, values: unknown, options: StatReduction | undefined, mask: BoundMask): void {
    if (options !== undefined) assertOptions('stat', options, { reduceType: 'any', nonFinite: 'any' });
    const bindingOf = bindings(options);
    const { denominator } = mask;
    this.#denominators.assertHeld(mask);
    const stats = this.#stats(path, denominator, values, bindingOf, options);
    this.#book.assertCompatible('stat', stats);
    const again = stats.find(({ key }) => mask.users.has(key));
    if (again !== undefined) {
      throw new PairingError({
        where: 'stat',
        input: again.key,
        expected: `one value for the mask of this handle of '${denominator}'`,
        received: 'a second one',
        remedy: 'make a handle for the mask of every micro-batch, or use another key',
      });
    }
    for (const { key, tensor } of stats) assertSameShape(key, tensor, denominator, mask.compact);
    this.#launch(path, denominator, stats.length === 0 ? new Map() : new Map([[mask, stats]]));
    for (const { key } of stats) mask.users.add(key);
  }

  #stats(
    path: string,
    denominator: string,
    values: unknown,
    bindingOf: ReturnType<typeof bindings>,
    options: StatReduction | undefined,
  ): Stat[] {
    const claimOf = (name: string): Claim => ({
      key: this.#book.keyOf(path, name),
      binding: bindingOf(name, denominator),
    });
    return namedStats(values, claimOf, options?.reduceType);
  }

  /** What an export of a window, or of one key of it, is about now; later records do not change it. */
  look(window: string, key?: string): Segment[] {
    const fresh = new Map([...this.#touched(key)].map((slot) => [slot.key, slot.snapshot()] as const));
    const waiting = this.#windows.segments(window);
    const segments = key === undefined ? waiting : ofKey(waiting, key);
    return fresh.size === 0 ? segments : [...segments, fresh];
  }

  /**
   * Makes what is recorded under `key`, or everything, ready to be exported: checks that values and masks pair up and
   * counts the masks that no stat has counted.
   *
   * @returns the window that is meant
   * @throws ValueError for an unknown window, PairingError, with nothing changed
   */
  prepare(where: string, window: string | undefined, key: string | undefined): string {
    const name = this.#knownWindow(where, window);
    this.#denominators.dropUnreadable((denominator, mask) => {
      this.#countAlone(denominator, mask);
    });
    this.#assertPaired(name, key);
    for (const [denominator, mask] of this.#denominators.held(key)) this.#countAlone(denominator, mask);
    return name;
  }

  /** Cuts off what is recorded under `key`, or everything, and takes what its window has. Ends the masks of it. */
  take(window: string, key?: string): Taken {
    const sealed = new Map([...this.#touched(key)].map((slot) => [slot.key, slot.seal()] as const));
    this.#windows.push(sealed);
    const cut = this.#windows.take(window, key);
    if (key === undefined) this.#records = 0;
    const segments = cut.stretches.map(({ segment }) => segment);
    return { segments, cut, masks: this.#denominators.take(key) };
  }

  /** Why records that a window exports are missing from `segments`; of each failure of a device it hears once. */
  tell(window: string, segments: readonly Segment[]): Error[] {
    return this.#windows.tell(window, segments);
  }

  /** What was taken is exported. */
  settle(taken: Taken): void {
    if (!this.#windows.settle(taken.cut)) return;
    this.#denominators.settle(taken.masks);
    this.absorb();
    this.#book.forget(this.#windows.keys());
    this.#denominators.trim();
  }

  /** Merges what was read meanwhile, so that looking often does not let anything pile up. */
  absorb(): void {
    this.#unread.prune();
    for (const slot of this.#book.slots) slot.fold();
    this.#windows.compact();
  }

  /** What was taken could not be exported: it joins the records made since, as if it had not been taken. */
  restore(taken: Taken): void {
    if (!this.#windows.restore(taken.cut)) return;
    this.#windows.compact();
    this.#denominators.restore(taken.masks);
  }

  /** Drops every record; an export that is running still gets what it took. */
  release(): void {
    for (const slot of this.#touched()) for (const { launch } of slot.seal().parts) launch.release();
    for (const segment of this.#windows.all()) {
      for (const { parts } of segment.values()) for (const { launch } of parts) launch.release();
    }
    this.#windows.clear();
    this.#unread.clear();
    this.#denominators.release();
    this.#records = 0;
    this.#book.forget(this.#windows.keys());
  }

  memory(): TrackerMemory {
    return memoryOf({
      keys: this.#book.size,
      records: this.#records,
      masks: this.#denominators.kept(),
      unread: this.#unread.unread,
      segments: this.#windows.all(),
    });
  }

  /** What messages call the tracker. */
  get label(): string {
    return this.#notices.tracker;
  }

  /** Warns that `other` exports a name of `key` too. */
  noteNameTaken(key: string, name: string, other: Ledger): void {
    const text = `'${key}' exports '${name}', as ${other.label} does: this one, the later by name, wins`;
    this.#notices.once('TENSORTALLY_NAME_TAKEN', key, text);
  }

  /** Warns that a duration was measured and could not be recorded. */
  noteTimingLost(key: string, error: unknown): void {
    const reason = messageOf(error);
    this.#notices.once('TENSORTALLY_TIMING_LOST', key, `a duration of '${key}' is not recorded: ${reason}`);
  }

  /** The masks of a call, each with the queue of its denominator, which is opened if it is new. All or nothing. */
  #compactMasks(path: string, masks: unknown): [MaskQueue, CompactMask][] {
    const records = namedInputs('denominator', 'masks', masks).map(([name, tensor]): Stat => {
      assertMask(name, tensor);
      return { name, key: this.#book.keyOf(path, name), tensor, binding: DENOMINATOR };
    });
    this.#book.assertCompatible('denominator', records);
    const compact = holdMasks(records.map(({ tensor }) => tensor));
    return records.map((record, i) => {
      const slot = this.#book.open(path, record.name, record);
      slot.isTouched = true;
      return [this.#denominators.open(slot.key), compact[i]!];
    });
  }

  /** Launches on several masks are one call: if one is refused, the others are let go and nothing is recorded. */
  #launch(path: string, denominator: string, groups: ReadonlyMap<HeldMask, readonly Stat[]>): void {
    const launches: (readonly [HeldMask, Launch])[] = [];
    try {
      for (const [mask, stats] of groups) launches.push([mask, launchOf(stats, mask)]);
    } catch (error) {
      for (const [, launch] of launches) launch.release();
      throw error;
    }
    for (const [mask, launch] of launches) {
      const stats = groups.get(mask)!;
      for (const stat of stats) {
        this.#book.open(path, stat.name, stat).addPart({ launch, key: stat.name });
      }
      this.#count(denominator, mask, { launch, key: stats[0]!.name });
      this.#unread.add(launch);
    }
    this.#noteRecord();
  }

  /** Books the selected elements of a mask under its denominator, once, from a launch that has the mask. */
  #count(denominator: string, mask: HeldMask, part: Part): void {
    if (mask.counted) return;
    mask.counted = true;
    this.#slotOf(denominator).addPart(part);
  }

  /** `#count` for a mask that no launch has. One that a fault of the device has spoilt counts as lost. */
  #countAlone(denominator: string, mask: HeldMask): void {
    if (mask.counted) return;
    let launch: Launch;
    try {
      launch = Launch.counting(denominator, mask.compact);
    } catch (error) {
      // Nothing fails here, because a mask also goes where no error belongs, as in `using`. Exports say it, once.
      mask.counted = true;
      this.#slotOf(denominator).lose(error as Error);
      return;
    }
    this.#count(denominator, mask, { launch, key: denominator });
    this.#unread.add(launch);
  }

  /** By its full key: where a denominator was recorded does not matter here. */
  #slotOf(denominator: string): Slot {
    return this.#book.open('', denominator, { key: denominator, binding: DENOMINATOR });
  }

  *#touched(key?: string): Generator<Slot> {
    for (const slot of this.#book.slots)
      if (slot.isTouched && (key === undefined || slot.key === key)) yield slot;
  }

  #noteRecord(): void {
    if (++this.#records < this.settings.exportReminder || this.#hasReminded) return;
    this.#hasReminded = true;
    this.#notices.once(
      'TENSORTALLY_NEVER_EXPORTED',
      '',
      `${String(this.#records)} record calls without an export; export every tracker that records, e.g. with exportAll(), or raise exportReminder`,
    );
  }

  #noteUnpaired(key: string, what: string): void {
    this.#notices.once('TENSORTALLY_UNPAIRED', key, `'${key}': ${what}; what does not pair up is left out`);
  }

  /**
   * Refuses to export values and masks that do not pair up, or warns in parity mode. A denominator that no stat uses is
   * fine.
   */
  #assertPaired(window: string, key: string | undefined): void {
    for (const { denominator, stat, values, masks } of this.#denominators.behind(key)) {
      if (!this.#holds(window, stat, denominator)) continue;
      const had = `${String(values)} value${values === 1 ? '' : 's'}`;
      const wanted = `one value per mask of '${denominator}' (${String(masks)})`;
      if (this.settings.mode === 'parity') {
        this.#noteUnpaired(stat, `${had} instead of ${wanted}`);
        continue;
      }
      throw new PairingError({
        where: 'export',
        input: stat,
        expected: wanted,
        received: had,
        remedy: `record '${stat}' for every mask before exporting, or dispose() the tracker to drop its records`,
      });
    }
  }

  /** Whether a window has records of a stat over `denominator`. Its key may be something else by now. */
  #holds(window: string, stat: string, denominator: string): boolean {
    const slot = this.#book.slotOf(stat);
    if (slot?.isTouched === true && slot.binding.denominator === denominator) return true;
    return this.#windows
      .segments(window)
      .some((segment) => segment.get(stat)?.binding.denominator === denominator);
  }

  #knownWindow(where: string, window: string | undefined): string {
    const { windows } = this.settings;
    if (window === undefined) return windows[0];
    if (windows.includes(window)) return window;
    throw new ValueError({
      where,
      input: 'options.window',
      expected: `one of ${windows.map((name) => `'${name}'`).join(', ')}`,
      received: kindOf(window),
      remedy: 'name the windows of a tracker with its option windows',
    });
  }
}
