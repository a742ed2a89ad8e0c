/** The catalogue for a terminal: one entry with all that is known of it, or the keys of all. */
import {
  type MetricExplanation,
  type SemanticDifference,
  metricCatalog,
  semanticsNames,
} from '../../metrics/index.js';
import type { TrackerKeyExplanation } from './tracker-keys.js';
import { functionOf, rangesText, reductionText } from './wording.js';

const INDENT = 2;

const ONE_OF_THEM = '`tensortally explain <key>` says what one of them means.';

/** What `tensortally explain <key>` prints; lines are broken at `width`. */
export function describeMetric(explained: MetricExplanation, width: number): string[] {
  const { key, entry, values, differences } = explained;
  const facts: [string, string][] = [
    ...(key === entry.key ? [] : Object.entries(values)),
    ['unit', entry.unit],
    ['over', entry.population],
    ['reduction', reductionText[entry.reduction]],
    ['range', rangesText(entry.range, entry.presetRange)],
    ['formula', entry.formula],
    ['NaN', entry.undefinedWhen === undefined ? 'never' : `if ${entry.undefinedWhen}`],
    ['source', entry.source],
    ['reported by', functionOf[entry.family]],
  ];
  const column = Math.max(...facts.map(([name]) => name.length)) + 2;
  return [
    key,
    ...facts.flatMap(([name, text]) => labelled(name.padEnd(column), text, width)),
    ...differences.flatMap((difference) => describeDifference(difference, width)),
  ];
}

function describeDifference(difference: SemanticDifference, width: number): string[] {
  const { when, reported, reason, upstream } = difference;
  const column = Math.max(...semanticsNames.map((name) => name.length)) + 2;
  return [
    '',
    ...wrapped(`Depends on semantics, if ${when}:`, width),
    ...semanticsNames.flatMap((name) => labelled(name.padEnd(column), reported[name], width)),
    ...labelled('because'.padEnd(column), reason, width),
    ...(upstream.length === 0 ? [] : labelled('see'.padEnd(column), upstream.join(', '), width)),
  ];
}

/** What is printed of a name that a tracker or a stream exports. */
export function describeTrackerKey(
  { key, form, meaning, reportedBy }: TrackerKeyExplanation,
  width: number,
): string[] {
  const facts = { form, value: meaning, 'reported by': reportedBy };
  const column = 'reported by'.length + 2;
  return [
    key,
    ...Object.entries(facts).flatMap(([name, text]) => labelled(name.padEnd(column), text, width)),
  ];
}

/** What `tensortally explain` prints: keys by the function that reports them. */
export function describeCatalog(): string[] {
  const families = [...new Set(metricCatalog.map(({ family }) => family))];
  return [
    ...families.flatMap((family) => [
      functionOf[family],
      ...metricCatalog.filter((entry) => entry.family === family).map(({ key }) => `  ${key}`),
      '',
    ]),
    ONE_OF_THEM,
  ];
}

/** What `tensortally explain` prints of a family of keys. */
export function describeKeys(keys: readonly string[]): string[] {
  return [...keys, '', ONE_OF_THEM];
}

/** Text beside a label, its further lines below its first. */
function labelled(label: string, text: string, width: number): string[] {
  const margin = ' '.repeat(INDENT) + label;
  return wrapped(text, width - margin.length).map(
    (line, i) => (i === 0 ? margin : ' '.repeat(margin.length)) + line,
  );
}

/** The text in lines of at most `width` characters; a longer word has a line of its own. */
function wrapped(text: string, width: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= width) lines.push(`${lines.pop()!} ${word}`);
    else lines.push(word);
  }
  return lines;
}
