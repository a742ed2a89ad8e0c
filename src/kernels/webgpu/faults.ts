/**
 * The faults of one GPU device, and what each of them may have spoilt.
 *
 * A fault voids the commands that are recorded with the failed one, and nobody learns which those were. Everything that
 * is launched has a number, and a fault concerns all numbers up to the latest at its time: whoever reads such a result
 * is refused, no matter how many others were refused before. What stays on the device and is used again (packed masks,
 * the results of `logitsStatistics`) is spoilt unless a read-back behind it succeeded before the fault.
 */
import { BackendError } from '../../errors.js';
import type { GpuError } from './internals.js';

interface Fault {
  /** Work up to this number was known to be sound. */
  readonly after: number;
  /** The latest work that was launched before the fault. */
  readonly until: number;
  readonly error: GpuError;
}

/** Faults that are told apart; older ones are taken together, so that the list stays short. */
const MOST_FAULTS = 32;

/** Numbers what is launched on a device, and remembers its faults. */
export class FaultLog {
  #latest = 0;
  #proven = 0;
  readonly #faults: Fault[] = [];
  #unheard: GpuError | undefined;

  /** The number of new work. */
  begin(): number {
    return ++this.#latest;
  }

  /** The number of the latest work. */
  get latest(): number {
    return this.#latest;
  }

  /** A read-back behind the work up to `number` has succeeded. */
  prove(number: number): void {
    this.#proven = Math.max(this.#proven, number);
  }

  /**
   * Notes a fault among the work up to number `until`.
   *
   * @param isHeard whether some result that will be refused for it is waiting to be read
   */
  add(error: GpuError, until: number, isHeard: boolean): void {
    if (!isHeard) this.#unheard ??= error;
    this.#faults.push({ after: this.#proven, until, error });
    if (this.#faults.length <= MOST_FAULTS) return;
    const [first, second] = this.#faults.splice(0, 2) as [Fault, Fault];
    this.#faults.unshift({
      after: Math.min(first.after, second.after),
      until: Math.max(first.until, second.until),
      error: second.error,
    });
  }

  /** The fault before which work was launched. */
  faultSince(number: number): GpuError | undefined {
    return this.#faults.find(({ until }) => number <= until)?.error;
  }

  /** The fault that may have spoilt work, if nothing had shown that it was sound. */
  faultOf(number: number): GpuError | undefined {
    return this.#faults.find(({ after, until }) => after < number && number <= until)?.error;
  }

  /** A fault that no result was refused for; the next read-back tells of it, once. */
  takeUnheard(): GpuError | undefined {
    const fault = this.#unheard;
    this.#unheard = undefined;
    return fault;
  }
}

/** What kernels of ours made and keep, by its data. */
const kept = new WeakMap<object, { readonly log: FaultLog; readonly number: number }>();
/** Data that was to be made by commands which a fault has voided. */
const lost = new WeakMap<object, { readonly log: FaultLog; readonly fault: GpuError }>();

/** Remembers that the data of a tensor was made by the latest work on a device. */
export function keepTrack(log: FaultLog, dataId: object): void {
  kept.set(dataId, { log, number: log.latest });
}

export function markLost(log: FaultLog, data: Iterable<object>, fault: GpuError): void {
  for (const dataId of data) lost.set(dataId, { log, fault });
}

export function markSound(data: Iterable<object>): void {
  for (const dataId of data) lost.delete(dataId);
}

/** @throws BackendError if a fault of the device may have spoilt the data of a tensor */
export function assertSound(where: string, name: string, dataId: object): void {
  const work = kept.get(dataId);
  const loss = lost.get(dataId);
  const fault = loss?.fault ?? work?.log.faultOf(work.number);
  if (fault === undefined) return;
  // Said here, it need not be said again by a result that is right.
  (loss ?? work)!.log.takeUnheard();
  throw new BackendError({
    where,
    input: name,
    expected: 'a tensor that the webgpu device made without errors',
    received: `one made before the device reported: ${firstLine(fault.message)}`,
    remedy: 'make it again from its inputs',
  });
}

/** The refusal of results that a fault may have spoilt. */
export function faultError(message: string, cause: unknown): BackendError {
  return new BackendError(
    {
      where: 'collect',
      expected: 'the webgpu device to run without errors',
      received: firstLine(message),
      remedy:
        'every result that was launched before the fault is unusable; free device memory or pass fewer elements at once',
    },
    { cause },
  );
}

/** Dawn's messages go on with the calls that led there. */
function firstLine(message: string): string {
  return message.split('\n')[0]!;
}
