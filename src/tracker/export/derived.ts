/**
 * Metrics computed from exported numbers: ratios, perplexities, whatever must not be averaged itself.
 *
 * They are arithmetic on a finished export and know nothing of how it came about, so they are the same for one
 * tracker, several, or the merged records of all ranks.
 */
import { assertFunction, kindOf, messageOf } from '../../arguments.js';
import { KeyConflictError, ValueError } from '../../errors.js';

import { Told, warn } from '../../warning.js';

/** A metric that is computed from exported numbers; made by `derive`, `ratio` or `perplexity`. */
export class Derivation {
  /** Exported names; the key of an `avg_min_max` stat means its average. */
  readonly inputs: readonly string[];
  readonly of: (...numbers: number[]) => number;

  /** @internal made by `derive` */
  constructor(inputs: readonly string[], of: (...numbers: number[]) => number) {
    this.inputs = inputs;
    this.of = of;
  }
}

/**
 * A metric computed from exported numbers.
 *
 * @param inputs exported names, or keys of `avg_min_max` stats for their averages; full ones, scopes included
 * @param of gets their numbers in order; not called, and nothing exported, when one of them is absent
 * @throws ValueError or MissingInputError for invalid names or an invalid function
 * @example
 *   new StatsTracker('', { derived: { 'actor/gap': derive(['actor/reward/max', 'actor/reward/min'], (a, b) => a - b) } });
 */
export function derive(inputs: readonly string[], of: (...numbers: number[]) => number): Derivation {
  if (!Array.isArray(inputs) || inputs.length === 0 || !inputs.every(isName)) {
    throw new ValueError({
      where: 'derive',
      input: 'inputs',
      expected: 'a list of exported names',
      received: kindOf(inputs),
      remedy: "pass e.g. ['actor/loss/avg']",
    });
  }
  assertFunction('derive', 'of', of);
  return new Derivation([...inputs], of);
}

/**
 * numerator / denominator of two exported numbers, e.g. of two denominators. NaN for 0 / 0.
 *
 * @throws ValueError for invalid names
 */
export function ratio(numerator: string, denominator: string): Derivation {
  assertName('ratio', 'numerator', numerator);
  assertName('ratio', 'denominator', denominator);
  return derive([numerator, denominator], (a, b) => a / b);
}

/**
 * exp of the mean that `loss` exports: the perplexity of all tokens behind it, never a mean of perplexities.
 *
 * @param loss key of an `avg_min_max` or `avg` stat or of a scalar, in nats per token
 * @throws ValueError for an invalid name
 */
export function perplexity(loss: string): Derivation {
  assertName('perplexity', 'loss', loss);
  return derive([loss], Math.exp);
}

/** @throws ValueError for anything but derivations by name */
export function assertDerivations(where: string, derived: object): void {
  for (const [name, derivation] of Object.entries(derived)) {
    if (name !== '' && derivation instanceof Derivation) continue;
    throw new ValueError({
      where,
      input: `options.derived['${name}']`,
      expected: name === '' ? 'a name that is not empty' : 'a derivation',
      received: name === '' ? "''" : kindOf(derivation),
      remedy: 'make it with ratio(), perplexity() or derive()',
    });
  }
}

/**
 * Adds derived numbers to exported ones. A derivation may use what an earlier one has added. A warning tells once of one
 * of which some inputs are exported and others are not.
 *
 * @throws KeyConflictError for a name that is exported already; ValueError for a result that is no number
 */
export function addDerived(numbers: Map<string, number>, derived: ReadonlyMap<string, Derivation>): void {
  for (const [name, { inputs, of }] of derived) {
    const given = inputs.map((input) => numbers.get(input) ?? numbers.get(`${input}/avg`));
    if (!given.every((number) => number !== undefined)) {
      const missing = inputs.filter((_, i) => given[i] === undefined);
      if (missing.length < inputs.length) tellMissing(name, missing);
      continue;
    }
    if (numbers.has(name)) {
      throw new KeyConflictError({
        where: 'export',
        input: name,
        expected: 'a name that nothing else exports, for a derived metric',
        received: 'one that is recorded',
        remedy: 'rename one of the two',
      });
    }
    const result = computed(name, of, given);
    if (typeof result !== 'number') {
      throw new ValueError({
        where: 'export',
        input: name,
        expected: 'a number from its derivation',
        received: kindOf(result),
        remedy: 'return NaN where it is undefined',
      });
    }
    numbers.set(name, result);
  }
}

const told = new Told();

/** An input that is exported shows that the others were to be. */
function tellMissing(name: string, missing: readonly string[]): void {
  if (told.fresh([name]).length === 0) return;
  warn(
    'TENSORTALLY_DERIVED_INPUT',
    `derived metric '${name}' is left out: its input ${missing.map((input) => `'${input}'`).join(', ')} is not exported, ` +
      'while others of its inputs are; check the spelling, scopes included',
  );
}

function computed(name: string, of: (...numbers: number[]) => number, given: readonly number[]): unknown {
  try {
    return of(...given);
  } catch (cause) {
    throw new ValueError(
      {
        where: 'export',
        input: name,
        expected: 'a number from its derivation',
        received: `an error: ${messageOf(cause)}`,
        remedy: 'return NaN where it is undefined',
      },
      { cause },
    );
  }
}

function isName(name: unknown): name is string {
  return typeof name === 'string' && name !== '';
}

function assertName(where: string, input: string, name: unknown): void {
  if (isName(name)) return;
  throw new ValueError({
    where,
    input,
    expected: 'an exported name',
    received: kindOf(name),
    remedy: "pass the full name, e.g. 'actor/n_valid_tokens'",
  });
}
