/**
 * Results that are still on the device, and the one read-back that brings them all to the host.
 *
 * A kernel launches when it is called, so its inputs may be disposed in the next line. What it returns is a
 * `Pending`: small blocks on the device and a function that turns their contents into a result. Awaiting a Pending
 * reads it; `collect(a, b, c)` reads any number of them in a single transfer per device.
 */
import { assertFunction, kindOf, markCopy, messageOf } from '../arguments.js';
import { ReleasedError, ValueError } from '../errors.js';
import { BEGUN } from '../promises.js';

/** Brings blocks of one device to the host. One call is one transfer. */
export interface BlockReader<H = unknown> {
  /**
   * Contents of the blocks behind `handles`, in order, as the kernel wrote them; an error in place of those that are not
   * to be trusted. It rejects if it has none of them.
   */
  read(handles: readonly H[]): Promise<readonly (ArrayBuffer | Error)[]>;
  /** Frees the device memory of one block. */
  release(handle: H): void;
}

/** Bytes on a device that a Pending waits for. They are read at most once and freed either way. */
export class DeviceBlock<H = unknown> {
  readonly #reader: BlockReader<H>;
  readonly #handle: H;
  #contents: Promise<ArrayBuffer> | undefined;

  constructor(reader: BlockReader<H>, handle: H) {
    this.#reader = reader;
    this.#handle = handle;
  }

  /** Frees the device memory unless a read has begun; reading a released block rejects. */
  release(): void {
    if (this.#contents !== undefined) return;
    this.#contents = Promise.reject(released());
    this.#contents.catch(() => undefined);
    this.#reader.release(this.#handle);
  }

  /** Contents of `blocks`, in order. Those that no one has read yet are read together and freed. */
  static async read(blocks: readonly DeviceBlock[]): Promise<ArrayBuffer[]> {
    const fresh = new Map<BlockReader, Set<DeviceBlock>>();
    for (const block of blocks) {
      if (block.#contents !== undefined) continue;
      const together = fresh.get(block.#reader) ?? new Set();
      fresh.set(block.#reader, together.add(block));
    }
    for (const [reader, together] of fresh) {
      const group = [...together];
      const handles = group.map((block) => block.#handle);
      const read = reader.read(handles).finally(() => {
        for (const handle of handles) reader.release(handle);
      });
      group.forEach((block, i) => {
        block.#contents = read.then((contents) => {
          const content = contents[i]!;
          if (content instanceof Error) throw content;
          return content;
        });
        // Whoever awaits the Pending sees the failure; this only keeps a second, unread view of it quiet.
        block.#contents.catch(() => undefined);
      });
    }
    return Promise.all(blocks.map((block) => block.#contents!));
  }
}

function released(): ReleasedError {
  return new ReleasedError({
    where: 'Pending',
    expected: 'a result that is still on the device',
    received:
      'one that was released before it was read: by release(), or because a result beside it was refused',
    remedy: 'read a result before it is released, and collect what may be refused by itself',
  });
}

type Finish<T> = (contents: readonly ArrayBuffer[]) => T;

/**
 * The promise of a result whose numbers are still on the device.
 *
 * A `Pending<T>` can be used wherever a `Promise<T>` can. Nothing is read until it is awaited (or given to
 * `collect`); one that is never awaited keeps its block on the device until `release()`.
 */
export class Pending<T> implements Promise<T> {
  readonly [Symbol.toStringTag] = 'Pending';
  static {
    markCopy(this);
    Object.defineProperty(this.prototype, BEGUN, { value: true });
  }

  readonly #blocks: readonly DeviceBlock[];
  readonly #finish: Finish<T>;
  #error: Error | undefined;
  #settled: Promise<T> | undefined;

  /**
   * @param blocks what has to be read
   * @param finish makes the result of the contents of `blocks`, in order
   */
  constructor(blocks: readonly DeviceBlock[], finish: Finish<T>) {
    if (!Array.isArray(blocks)) throw notAList('Pending', 'blocks', blocks);
    assertFunction('Pending', 'finish', finish);
    this.#blocks = blocks;
    this.#finish = finish;
  }

  /** A result that is already on the host. */
  static of<T>(value: T): Pending<T> {
    return new Pending<T>([], () => value);
  }

  /** A refusal; as with a rejected promise, the process hears of it if nobody handles it. */
  static rejected<T>(error: Error): Pending<T> {
    const refusal = error instanceof Error ? error : noError(error);
    const pending = new Pending<T>([], () => {
      throw refusal;
    });
    pending.#error = refusal;
    pending.#settled = Promise.reject(refusal);
    return pending;
  }

  /** Runs `launch`, turning what it throws into a rejected Pending. */
  static attempt<T>(launch: () => Pending<T>): Pending<T> {
    try {
      assertFunction('Pending.attempt', 'launch', launch);
      const launched = launch();
      if (isPending(launched)) return launched;
      throw noPending('Pending.attempt', 'launch()', launched);
    } catch (error) {
      return Pending.rejected(error instanceof Error ? error : new Error(messageOf(error), { cause: error }));
    }
  }

  /**
   * Why there will be no result, if that is known before reading. Whoever asks takes charge of the refusal: it is no
   * longer reported as an unhandled rejection.
   */
  get refusal(): Error | undefined {
    if (this.#error !== undefined) this.#settled?.catch(() => undefined);
    return this.#error;
  }

  /** The result where none of it is on a device, as of kernels that work in host memory; undefined if it must be read. */
  get onHost(): { readonly value: T } | undefined {
    return this.#blocks.length > 0 || this.#error !== undefined ? undefined : { value: this.#finish([]) };
  }

  /**
   * Several results as one: reading it reads all parts together. The first refusal among them refuses the whole.
   *
   * @param where the public function that asks, for messages
   */
  static all<T extends readonly unknown[]>(
    parts: { readonly [K in keyof T]: Pending<T[K]> },
    where = 'Pending.all',
  ): Pending<T> {
    if (!Array.isArray(parts)) return Pending.rejected(notAList(where, 'parts', parts));
    const pendings = parts as readonly Pending<unknown>[];
    const refusals = pendings.map((part, i) =>
      isPending(part) ? part.refusal : noPending(where, `argument ${i + 1}`, part),
    );
    const first = refusals.find((refusal) => refusal !== undefined);
    if (first !== undefined) {
      pendings.forEach((part, i) => {
        if (refusals[i] === undefined) part.release();
      });
      return Pending.rejected(first);
    }
    return new Pending(
      pendings.flatMap((part) => part.#blocks),
      (contents) => {
        let next = 0;
        const values = pendings.map((part) =>
          part.#finish(contents.slice(next, (next += part.#blocks.length))),
        );
        return values as unknown as T;
      },
    );
  }

  /**
   * Launches one after the other and joins the results as `all` does. If a launch throws, the results of those before
   * it are released, since nobody will ever read them.
   */
  static launchAll<T extends readonly unknown[]>(launches: {
    readonly [K in keyof T]: () => Pending<T[K]>;
  }): Pending<T> {
    if (!Array.isArray(launches)) throw notAList('Pending.launchAll', 'launches', launches);
    const launched: Pending<unknown>[] = [];
    try {
      for (const [i, launch] of (launches as readonly (() => Pending<unknown>)[]).entries()) {
        assertFunction('Pending.launchAll', `launch ${i + 1}`, launch);
        launched.push(launch());
      }
    } catch (error) {
      for (const pending of launched) pending.release();
      throw error;
    }
    return Pending.all<T>(launched as unknown as { readonly [K in keyof T]: Pending<T[K]> });
  }

  /** The same result, finished further on the host; adds no read-back. */
  map<U>(finish: (value: T) => U): Pending<U> {
    const { refusal } = this;
    if (refusal !== undefined) return Pending.rejected(refusal);
    assertFunction('Pending.map', 'finish', finish);
    return new Pending(this.#blocks, (contents) => finish(this.#finish(contents)));
  }

  /** Frees the device memory of a result that nobody wants. Awaiting it afterwards rejects. */
  release(): void {
    if (this.#settled !== undefined) return;
    for (const block of this.#blocks) block.release();
    this.#settled = Promise.reject(released());
    this.#settled.catch(() => undefined);
  }

  then<A = T, B = never>(
    onfulfilled?: ((value: T) => A | PromiseLike<A>) | null,
    onrejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.#settled ??= DeviceBlock.read(this.#blocks).then(this.#finish);
    return this.#settled.then(onfulfilled, onrejected);
  }

  catch<B = never>(onrejected?: ((reason: unknown) => B | PromiseLike<B>) | null): Promise<T | B> {
    return this.then(undefined, onrejected);
  }

  finally(onfinally?: (() => void) | null): Promise<T> {
    return this.then().finally(onfinally);
  }
}

/**
 * Waits for all `pending` results with one read-back per device.
 *
 * @param pending results of kernels, e.g. of `maskedMoments`
 * @returns their values, in order
 * @throws the first refusal among them, or BackendError if the device reported a fault
 * @example
 *   const [adv, ret] = await collect(maskedMoments(advantages, mask), maskedMoments(returns, mask));
 */
export function collect<T extends readonly unknown[]>(
  ...pending: { readonly [K in keyof T]: Pending<T[K]> }
): Promise<T> {
  return Pending.all<T>(pending, 'collect').then();
}

function isPending(value: unknown): value is Pending<unknown> {
  return value instanceof Pending;
}

function noPending(where: string, input: string, value: unknown): ValueError {
  return new ValueError({
    where,
    input,
    expected: 'a Pending, e.g. of maskedMoments',
    received: kindOf(value),
    remedy: 'pass what the operation returned, not awaited; join promises of metrics with Promise.all',
  });
}

function notAList(where: string, input: string, value: unknown): ValueError {
  const remedy = 'wrap it: [one, two]';
  return new ValueError({ where, input, expected: 'an array', received: kindOf(value), remedy });
}

/** The refusal to refuse for a reason that is no error; the reason is its cause. */
function noError(reason: unknown): ValueError {
  return new ValueError(
    {
      where: 'Pending.rejected',
      input: 'error',
      expected: 'an Error',
      received: kindOf(reason),
      remedy: 'wrap the reason: new Error(reason)',
    },
    { cause: reason },
  );
}
