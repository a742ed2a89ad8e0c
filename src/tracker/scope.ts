/**
 * Where a record belongs: immutable key paths that follow the asynchronous context.
 *
 * A scope is open for the function it is given and for everything that function starts, awaited or not; no other task
 * ever sees it. There is no stack to push to and pop from, so nothing can leak, whatever throws.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { kindOf } from '../arguments.js';
import { ValueError } from '../errors.js';
import { processWide } from '../process-wide.js';
import { begun } from '../promises.js';

/** An open scope of one `Scope`; `outer` are the frames around it, of any owner. */
interface Frame {
  readonly owner: Scope;
  readonly path: string;
  readonly outer: Frame | undefined;
}

/** One storage for all trackers: Node keeps every storage that was ever entered, so one per handle would pile up. */
const frames = processWide('scope-frames', 1, () => new AsyncLocalStorage<Frame>());

/** The path of a tracker or of one of its handles, with the scopes that were opened through it. */
export class Scope {
  readonly #base: string;

  /** @param base path outside any open scope; '' is the root */
  constructor(base: string) {
    this.#base = base;
  }

  /** The path that a record made here and now gets. */
  get path(): string {
    for (let frame = frames.getStore(); frame !== undefined; frame = frame.outer) {
      if (frame.owner === this) return frame.path;
    }
    return this.#base;
  }

  /** A path below the current one that no longer depends on the context. */
  child(name: string): Scope {
    return new Scope(joinPath('child', this.path, name));
  }

  /** Runs `fn` one level down. Returns what `fn` returns, begun in the scope; a promise has it until it settles. */
  run<T>(name: string, fn: () => T): T {
    return this.#open(joinPath('scope', this.path, name), fn);
  }

  /** Runs `fn` at the root: keys recorded in it are used as they are. */
  runDisabled<T>(fn: () => T): T {
    return this.#open('', fn);
  }

  #open<T>(path: string, fn: () => T): T {
    return frames.run({ owner: this, path, outer: frames.getStore() }, () => begun(fn()));
  }
}

/**
 * A scope or tracker name without slashes at its ends; inner ones are levels of their own.
 *
 * @param input what the caller knows it as
 * @throws ValueError for anything but text
 */
export function cleanName(where: string, name: unknown, input = 'name'): string {
  assertText(where, input, name);
  let [start, end] = [0, name.length];
  while (start < end && name[start] === '/') start++;
  while (end > start && name[end - 1] === '/') end--;
  return name.slice(start, end);
}

/** Characters of a full key. Longer ones are texts of samples, of which every export would be full. */
const MOST_KEY_LENGTH = 10_000;

/** @throws ValueError for a key or path that is too long */
export function assertLength(where: string, key: string): void {
  if (key.length <= MOST_KEY_LENGTH) return;
  throw new ValueError({
    where,
    input: `${key.slice(0, 40)}…`,
    expected: `a key of at most ${MOST_KEY_LENGTH} characters, scopes included`,
    received: `${key.length} characters`,
    remedy: 'keep texts of samples out of keys and scopes',
  });
}

/** @throws ValueError for anything but text */
export function assertText(where: string, input: string, value: unknown): asserts value is string {
  if (typeof value === 'string') return;
  throw new ValueError({
    where,
    input,
    expected: 'a text',
    received: kindOf(value),
    remedy: "name it like a folder, e.g. 'ppo_actor' or 'ppo_actor/update'",
  });
}

function joinPath(where: string, path: string, name: string): string {
  const clean = cleanName(where, name);
  if (clean === '') return path;
  const joined = fullKey(path, clean);
  assertLength(where, joined);
  return joined;
}

/** The key of a record: its path and its own name. */
export function fullKey(path: string, key: string): string {
  return path === '' ? key : `${path}/${key}`;
}
