/**
 * The samples of a validation run in the order in which they are evaluated: by source, by prompt, by variable.
 *
 * Everything here is as large as what was passed in. What is no number is left out where it stands and counted.
 */
import { assertNamed, kindOf } from '../../arguments.js';
import { MissingInputError, ShapeError, ValueError } from '../../errors.js';
import type { GroupId } from '../groups.js';
import { type Label, isLabel, labelError } from './votes.js';

/** One value per sample. */
export type InfoColumn = readonly unknown[] | Float32Array | Float64Array | Int32Array | Uint8Array;

/** What became of the values of one variable; the four add up to the samples of its source. */
export interface SampleCounts {
  /** Numbers and booleans, NaN among them. */
  readonly used: number;
  /** Those of `used` that are NaN. */
  readonly nan: number;
  /** null and undefined. */
  readonly missing: number;
  /** Texts, and anything else that is no number. */
  readonly notNumeric: number;
}

/** The prompts of one source, each as the indices of its samples. */
export type PromptsBySource = ReadonlyMap<string, readonly Int32Array[]>;

/**
 * Samples by source, and by uid within it, both in the order in which they first appear.
 *
 * @throws ValueError for what is no list of texts or uids, ShapeError for lists of different lengths
 */
export function groupSamples(
  where: string,
  dataSources: readonly string[],
  sampleUids: ArrayLike<GroupId>,
): PromptsBySource {
  assertTexts(where, 'dataSources', dataSources);
  assertUids(where, 'sampleUids', sampleUids);
  assertLength(where, 'sampleUids', sampleUids, dataSources.length);
  const sources = new Map<string, Map<GroupId, number[]>>();
  for (const [i, source] of dataSources.entries()) {
    let prompts = sources.get(source);
    if (prompts === undefined) sources.set(source, (prompts = new Map<GroupId, number[]>()));
    const uid = sampleUids[i]!;
    const samples = prompts.get(uid);
    if (samples === undefined) prompts.set(uid, [i]);
    else samples.push(i);
  }
  return new Map(
    Array.from(sources, ([source, prompts]) => [
      source,
      // Not Int32Array.from, which goes through the list's iterator.
      Array.from(prompts.values(), (samples) => new Int32Array(samples)),
    ]),
  );
}

/** @throws ValueError for invalid columns, ShapeError for one of another length than there are samples */
export function assertInfos(
  where: string,
  infos: Readonly<Record<string, InfoColumn>>,
  samples: number,
): void {
  assertNamed(where, 'infos', infos, {
    expected: 'a record of lists, one value per sample',
    remedy: 'pass { reward: […] }',
  });
  for (const [name, column] of Object.entries<unknown>(infos)) {
    if (!isColumn(column)) {
      throw new ValueError({
        where,
        input: `infos.${name}`,
        expected: 'a list of one value per sample',
        received: kindOf(column),
        remedy: 'put null where a sample has no value',
      });
    }
    assertLength(where, `infos.${name}`, column, samples);
  }
}

function isColumn(column: unknown): column is InfoColumn {
  return Array.isArray(column) || (ArrayBuffer.isView(column) && !(column instanceof DataView));
}

function assertTexts(where: string, input: string, texts: unknown): asserts texts is readonly string[] {
  const isText = (text: unknown): boolean => typeof text === 'string';
  assertEach({ where, input, what: 'a text' }, Array.isArray(texts) ? texts : undefined, texts, isText);
}

function assertUids(where: string, input: string, uids: unknown): asserts uids is ArrayLike<GroupId> {
  const isUid = (uid: unknown): boolean =>
    typeof uid === 'string' || (typeof uid === 'number' && !Number.isNaN(uid));
  assertEach({ where, input, what: 'a text or number' }, isColumn(uids) ? uids : undefined, uids, isUid);
}

/** @param list what was given, if it is a list */
function assertEach(
  { where, input, what }: { readonly where: string; readonly input: string; readonly what: string },
  list: InfoColumn | undefined,
  given: unknown,
  holds: (value: unknown) => boolean,
): void {
  const refuse = (at: string, expected: string, received: unknown): never => {
    const Refusal = received === undefined ? MissingInputError : ValueError;
    const remedy = `pass ${what} per sample`;
    throw new Refusal({ where, input: at, expected, received: kindOf(received), remedy });
  };
  if (list === undefined) return refuse(input, `a list of one value per sample, ${what} each`, given);
  for (let i = 0; i < list.length; i++) {
    if (!holds(list[i])) refuse(`${input}[${i}]`, what, list[i]);
  }
}

function assertLength(where: string, input: string, list: ArrayLike<unknown>, samples: number): void {
  if (list.length === samples) return;
  throw new ShapeError({
    where,
    input,
    expected: `${samples} values, one per sample as in dataSources`,
    received: `${list.length}`,
    remedy: input.startsWith('infos.') ? 'put null where a sample has no value' : 'pass one per sample',
  });
}

/** The numbers of a variable; the others are marked as absent. */
export class NumericColumn {
  /** One per sample; NaN also where absent. */
  readonly values: Float64Array;
  /** 1 where a sample has no number. */
  readonly #absent: Uint8Array;
  readonly #column: InfoColumn;

  constructor(column: InfoColumn) {
    const { length } = column;
    this.#column = column;
    this.values = new Float64Array(length);
    this.#absent = new Uint8Array(length);
    for (let i = 0; i < length; i++) {
      const value = column[i];
      if (typeof value === 'number') this.values[i] = value;
      else if (typeof value === 'boolean' || typeof value === 'bigint') this.values[i] = Number(value);
      else this.#absent[i] = 1;
    }
  }

  /** Those of `samples` that have a number, in their order. */
  present(samples: Int32Array): Int32Array {
    let absent = 0;
    for (const i of samples) absent += this.#absent[i]!;
    return absent === 0 ? samples : samples.filter((i) => this.#absent[i] === 0);
  }

  /** The numbers of samples that all have one. */
  valuesOf(samples: Int32Array): Float64Array {
    const values = new Float64Array(samples.length);
    for (let at = 0; at < samples.length; at++) values[at] = this.values[samples[at]!]!;
    return values;
  }

  /** Whether every number of these prompts is 0 or 1, but for NaN. */
  isPassFail(prompts: readonly Int32Array[]): boolean {
    for (const samples of prompts) {
      for (const i of samples) {
        const value = this.values[i]!;
        const isEither = value === 0 || value === 1 || Number.isNaN(value);
        if (!isEither && this.#absent[i] === 0) return false;
      }
    }
    return true;
  }

  /** What the values of these prompts are. */
  count(prompts: readonly Int32Array[]): SampleCounts {
    let [used, nan, missing, notNumeric] = [0, 0, 0, 0];
    for (const samples of prompts) {
      for (const i of samples) {
        if (this.#absent[i] === 0) {
          used++;
          if (Number.isNaN(this.values[i])) nan++;
        } else if (this.#column[i] === null || this.#column[i] === undefined) missing++;
        else notNumeric++;
      }
    }
    return { used, nan, missing, notNumeric };
  }
}

/**
 * The labels that samples vote for as small integers, equal for equal labels.
 *
 * @throws ValueError for a label of a kind that cannot be compared
 */
export function labelCodes(where: string, input: string, column: InfoColumn): Int32Array {
  const codes = new Map<Label, number>();
  const coded = new Int32Array(column.length);
  for (let i = 0; i < column.length; i++) {
    const label = column[i] === undefined ? null : column[i];
    if (!isLabel(label)) throw labelError(where, `${input}[${i}]`, label);
    let code = codes.get(label);
    if (code === undefined) codes.set(label, (code = codes.size));
    coded[i] = code;
  }
  return coded;
}
