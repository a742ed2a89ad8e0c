/**
 * The catalogue: one entry per metric, saying what its number means. The documentation is made of it, `tensortally
 * explain` prints it, and tests hold every key and every value that is computed to it.
 */
import { kindOf } from '../../arguments.js';
import { ValueError } from '../../errors.js';
import { dataEntries } from './data.js';
import { type SemanticDifference, concerns, semanticDifferences } from './differences.js';
import type { CatalogEntry, MetricRange } from './entry.js';
import { moeEntries } from './moe.js';
import { policyEntries } from './policy.js';
import { rolloutCorrectionEntries } from './rollout-correction.js';
import { trainerEntries } from './trainer.js';
import { validationEntries } from './validation.js';

/** Every metric that a `compute…` function or `processValidationMetrics` reports, and those that only the trainer knows. */
export const metricCatalog: readonly CatalogEntry[] = [
  ...dataEntries,
  ...policyEntries,
  ...rolloutCorrectionEntries,
  ...moeEntries,
  ...validationEntries,
  ...trainerEntries,
];

/** What is known of one key. */
export interface MetricExplanation {
  readonly key: string;
  readonly entry: CatalogEntry;
  /** What stands for the placeholders of the entry. */
  readonly values: Readonly<Record<string, string>>;
  /** Where the number depends on the semantics. */
  readonly differences: readonly SemanticDifference[];
}

/**
 * What the number under a key means.
 *
 * @param key as it is reported, or as the catalogue spells it, with placeholders
 * @throws ValueError for a key that the catalogue does not have, naming those that are spelled most alike, and for keys of
 *   more than 1024 characters that have placeholders
 * @example  explainMetric('val-core/math/acc/best@8/mean').values.n // '8'
 */
export function explainMetric(key: string): MetricExplanation {
  const found = typeof key === 'string' ? catalogEntryOf(key) : undefined;
  if (found !== undefined) return { key, ...found, differences: differencesOf(found.entry) };
  const near = typeof key === 'string' && key.length <= LONGEST_KEY ? nearestKeys(key) : [];
  throw new ValueError({
    where: 'explainMetric',
    input: 'key',
    expected: 'the key of a metric in the catalogue',
    received: kindOf(key),
    remedy:
      near.length > 0 ? `did you mean ${near.join(', or ')}?` : '`tensortally explain` lists all of them',
  });
}

/**
 * Characters of the longest key that is looked up. Placeholders may stand for any text, so that the work grows with the
 * square of the length, and nobody reads longer keys.
 */
const LONGEST_KEY = 1024;

/** Entries without placeholders, by their keys. */
const literalEntries = new Map(
  metricCatalog.filter(({ placeholders }) => placeholders === undefined).map((entry) => [entry.key, entry]),
);
const patternEntries = metricCatalog.filter(({ placeholders }) => placeholders !== undefined);

/** The entry of a key and what stands for its placeholders; undefined for keys that are not in the catalogue. */
export function catalogEntryOf(key: string): Pick<MetricExplanation, 'entry' | 'values'> | undefined {
  const literal = literalEntries.get(key);
  if (literal !== undefined) return { entry: literal, values: {} };
  if (key.length > LONGEST_KEY) return undefined;
  for (const entry of patternEntries) {
    const values = placeholdersOf(entry, key);
    if (values !== undefined) return { entry, values };
  }
  return undefined;
}

/** Where the number depends on the semantics. */
export function differencesOf({ key }: CatalogEntry): SemanticDifference[] {
  return semanticDifferences.filter(({ keys }) => concerns(keys, key));
}

/** What stands for the placeholders if the entry is about this key, which may also be spelled as in the catalogue. */
export function placeholdersOf(entry: CatalogEntry, key: string): Record<string, string> | undefined {
  if (key === entry.key) {
    return Object.fromEntries(Object.keys(entry.placeholders ?? {}).map((name) => [name, `{${name}}`]));
  }
  if (entry.placeholders === undefined) return undefined;
  const found = patternOf(entry).exec(key);
  return found === null ? undefined : { ...found.groups };
}

const patterns = new WeakMap<CatalogEntry, RegExp>();

function patternOf(entry: CatalogEntry): RegExp {
  let pattern = patterns.get(entry);
  if (pattern === undefined) {
    const source = piecesOf(entry.key).map(({ literal, placeholder }) =>
      placeholder === undefined ? escaped(literal) : `(?<${placeholder}>${valuesOf(entry, placeholder)})`,
    );
    // Texts are whatever the caller named his data and timers, line breaks included.
    pattern = new RegExp(`^${source.join('')}$`, 's');
    patterns.set(entry, pattern);
  }
  return pattern;
}

function valuesOf({ placeholders }: CatalogEntry, name: string): string {
  const values = placeholders![name]!;
  if (values === 'text') return '.*';
  return values === 'number' ? '\\d+' : values.map(escaped).join('|');
}

function escaped(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');
}

type Piece =
  | { readonly literal: string; readonly placeholder?: never }
  | { readonly literal?: never; readonly placeholder: string };

/** `timing_s/{stage}` as the text `timing_s/` and the placeholder `stage`. */
function piecesOf(key: string): Piece[] {
  return key.split(/\{(\w+)\}/).map((text, i) => (i % 2 === 0 ? { literal: text } : { placeholder: text }));
}

/** Whether a metric can have this value; `slack` is a relative error that its ends allow for. */
export function isInRange(value: number, { low, high, isWhole = false }: MetricRange, slack = 0): boolean {
  if (Number.isNaN(value)) return false;
  if (isWhole && !Number.isInteger(value) && Number.isFinite(value)) return false;
  const isHighEnough = low === undefined || value >= low - slack * Math.abs(low);
  return isHighEnough && (high === undefined || value <= high + slack * Math.abs(high));
}

const SUGGESTIONS = 3;

/** Keys of the catalogue that have `key` as a part, or are spelled most like it; the most alike first. */
function nearestKeys(key: string): string[] {
  const parts = metricCatalog.filter((entry) =>
    entry.key.split('/').some((part) => part.split('_').includes(key)),
  );
  const alike = metricCatalog
    .flatMap((entry) => spellingsOf(entry).map((spelling) => ({ entry, ...distanceTo(spelling, key) })))
    .filter(({ distance, letters }) => distance <= Math.max(2, letters / 3))
    .sort((a, b) => a.distance - b.distance || b.letters - a.letters)
    .map(({ entry }) => entry);
  return [...new Set([...parts, ...alike].map((entry) => entry.key))].slice(0, SUGGESTIONS);
}

/** A key, or what is left of it without its first parts, e.g. without `critic/`. */
interface Spelling {
  readonly pieces: readonly Piece[];
  readonly isNumber: (placeholder: string) => boolean;
  /** Parts that are left out. */
  readonly left: number;
}

function spellingsOf({ key, placeholders }: CatalogEntry): Spelling[] {
  const parts = key.split('/');
  const isNumber = (name: string): boolean => placeholders?.[name] === 'number';
  return parts.flatMap((part, left) =>
    // A placeholder alone would be near to everything.
    part.startsWith('{') ? [] : [{ pieces: piecesOf(parts.slice(left).join('/')), isNumber, left }],
  );
}

/**
 * Edits that make `text` of the spelling (Levenshtein). A placeholder is any text, or any number, at no cost; a part
 * that is left out is one edit.
 */
function distanceTo(
  { pieces, isNumber, left }: Spelling,
  text: string,
): { readonly distance: number; readonly letters: number } {
  let letters = 0;
  let costs = Array.from({ length: text.length + 1 }, (_, i) => i);
  for (const { literal, placeholder } of pieces) {
    if (placeholder !== undefined) {
      costs = afterPlaceholder(costs, text, isNumber(placeholder));
      continue;
    }
    letters += literal.length;
    for (const letter of literal) costs = afterLetter(costs, text, letter);
  }
  return { distance: left + costs[text.length]!, letters };
}

/** Costs of the beginnings of the text, once one more letter of the spelling is dealt with. */
function afterLetter(costs: readonly number[], text: string, letter: string): number[] {
  const next = [costs[0]! + 1];
  for (let i = 1; i <= text.length; i++) {
    const replaced = costs[i - 1]! + (text[i - 1] === letter ? 0 : 1);
    next.push(Math.min(replaced, costs[i]! + 1, next[i - 1]! + 1));
  }
  return next;
}

/** The same for a placeholder, which is free for what it can stand for; nothing at all is one edit. */
function afterPlaceholder(costs: readonly number[], text: string, isNumber: boolean): number[] {
  const next = [costs[0]! + 1];
  for (let i = 1; i <= text.length; i++) {
    const cost = isNumber && !/\d/.test(text[i - 1]!) ? 1 : 0;
    next.push(Math.min(costs[i]! + 1, costs[i - 1]! + cost, next[i - 1]! + cost));
  }
  return next;
}
