/** What can be voted for, and the value of the majority among given samples. */
import { kindOf } from '../../arguments.js';
import { ValueError } from '../../errors.js';

/**
 * The value of the majority: the label that occurs most often wins, of labels that tie the one seen first; the value
 * is that of its first sample.
 *
 * @param data samples, each with a label under `voteKey` (a text, number, boolean or null) and a number under `valKey`
 * @returns the winner's value; booleans count as 0 and 1
 * @throws ValueError for no samples, a sample that is no record, a label or value of another kind
 * @source verl, trainer/ppo/metric_utils.py, calc_maj_val
 * @example  calcMajVal([{ pred: 'A', val: 0.9 }, { pred: 'B', val: 0.8 }, { pred: 'A', val: 0.7 }], 'pred', 'val'); // 0.9
 */
export function calcMajVal(
  data: readonly Readonly<Record<string, unknown>>[],
  voteKey: string,
  valKey: string,
): number {
  const where = 'calcMajVal';
  if (!Array.isArray(data) || data.length === 0) {
    throw new ValueError({
      where,
      input: 'data',
      expected: 'a list of samples, one or more',
      received: Array.isArray(data) ? 'none' : kindOf(data),
      remedy: 'pass the samples that vote',
    });
  }
  for (const [input, key] of Object.entries({ voteKey, valKey })) {
    if (typeof key === 'string') continue;
    const remedy = 'name a field that every sample has';
    throw new ValueError({ where, input, expected: 'a text', received: kindOf(key), remedy });
  }
  const votes = new Map<Label, { count: number; value: number }>();
  let winner: { count: number; value: number } | undefined;
  for (const [i, sample] of data.entries() as ArrayIterator<[number, unknown]>) {
    if (typeof sample !== 'object' || sample === null) {
      throw new ValueError({
        where,
        input: `data[${i}]`,
        expected: `a record with ${voteKey} and ${valKey}`,
        received: kindOf(sample),
        remedy: 'pass one record per sample',
      });
    }
    const label = (sample as Readonly<Record<string, unknown>>)[voteKey];
    const value = (sample as Readonly<Record<string, unknown>>)[valKey];
    if (!isLabel(label)) throw labelError(where, `data[${i}].${voteKey}`, label);
    if (typeof value !== 'number' && typeof value !== 'boolean') {
      throw new ValueError({
        where,
        input: `data[${i}].${valKey}`,
        expected: 'a number',
        received: kindOf(value),
        remedy: 'leave out samples without a value',
      });
    }
    const vote = votes.get(label);
    if (vote === undefined) votes.set(label, { count: 1, value: Number(value) });
    else vote.count++;
  }
  // A map keeps the order of first appearance, so that the first of the largest is the one seen first.
  for (const vote of votes.values()) if (winner === undefined || vote.count > winner.count) winner = vote;
  return winner!.value;
}

/** What can be voted for. Null is a label like any other: no answer can win. */
export type Label = string | number | bigint | boolean | null;

/** Not objects: they are equal to nothing but themselves, and so would always stand alone. */
export function isLabel(value: unknown): value is Label {
  if (value === null) return true;
  const kind = typeof value;
  return kind === 'string' || kind === 'number' || kind === 'boolean' || kind === 'bigint';
}

/** The refusal of what is no label. */
export function labelError(where: string, input: string, received: unknown): ValueError {
  return new ValueError({
    where,
    input,
    expected: 'a label: a text, a number, a boolean or null',
    received: kindOf(received),
    remedy: 'vote with something that can be compared, e.g. the answer as text',
  });
}
