/** The catalogue as `docs/metrics.md`. */
import {
  type CatalogEntry,
  type CatalogFamily,
  metricCatalog,
  peerDepartures,
  semanticDifferences,
} from '../../metrics/index.js';
import { functionOf, rangesText, reductionText } from './wording.js';

const TITLES: Readonly<Record<CatalogFamily, string>> = {
  data: 'What a step is fed with',
  timing: 'Time',
  throughput: 'Throughput',
  sequenceBalance: 'Balance over ranks',
  varianceProxy: 'Variance of the gradient',
  debug: 'Trainer against rollout engine',
  policy: 'Policy and critic updates',
  kl: 'KL divergence from the reference',
  groups: 'Groups of rows that answer one prompt',
  rolloutCorrection: 'Rollout correction',
  moe: 'Mixture of experts',
  validation: 'Validation',
  trainer: 'What only the trainer knows',
};

const INTRODUCTION = `# Metrics

Made by \`npm run docs\` from the catalogue (\`src/metrics/catalog*.ts\`); do not edit. \`npx tensortally explain <key>\`
prints one entry, \`metricCatalog\` and \`explainMetric\` have them in code.

**NaN** is what is undefined; nothing is ever made up for it. The column says when, for the semantics \`recommended\`; see
[below](#semantics) for the others. Infinities of both signs under one mean are NaN, too.

**Ranges** are those of inputs that are what they are called: log-probabilities at most 0, times and weights not negative.
Infinite inputs give infinite results. Ends are met within the bounds of [numerics.md](numerics.md).

In formulas, x = old_log_probs − rollout_log_probs (log π_train − log π_rollout), T the width of the response part, and k
the estimator of a criterion: k1 = −x, k2 = x² / 2, k3 = e^x − 1 − x.`;

const TRAINER =
  'Nothing here computes these: they are logged beside the metrics of a step, and listed so that their names mean one thing.';

const SEMANTICS = `## Semantics

\`semantics: 'verl-2026-08'\` and \`'verl-2026-01'\` give the numbers of verl at 1dda039b and at b178a3cd, for comparing runs;
\`'recommended'\`, the default, is what a correct engine reports. Of what is not listed here they report the same:`;

const DEPARTURES = `Under all semantics, these are not what verl does. Presets evaluate the formulas of their revision in float64; verl itself
rounds to float32 on the way (see [decision 0005](decisions/0005-presets-follow-the-formula.md)).`;

/** The whole document, as prettier would format it. */
export function catalogDocument(): string {
  const families = [...new Set(metricCatalog.map(({ family }) => family))];
  const differences = table(
    ['keys or functions', 'if', '`recommended`', '`verl-2026-08`', '`verl-2026-01`', 'because', 'see'],
    semanticDifferences.map(({ keys, functions = [], when, reported, reason, upstream }) => [
      [...keys, ...functions].map(code).join(', '),
      when,
      reported.recommended,
      reported['verl-2026-08'],
      reported['verl-2026-01'],
      reason,
      upstream.join(', '),
    ]),
  );
  const departures = table(
    ['keys', 'if', 'verl', 'here', 'see'],
    peerDepartures.map(({ keys, when, verl, here, upstream }) => [
      keys.map(code).join(', '),
      when,
      verl,
      here,
      upstream.join(', '),
    ]),
  );
  const blocks = [INTRODUCTION, ...families.map(section), SEMANTICS, differences, DEPARTURES, departures];
  return `${blocks.join('\n\n')}\n`;
}

function section(family: CatalogFamily): string {
  const entries = metricCatalog.filter((entry) => entry.family === family);
  const sources = [...new Set(entries.map(({ source }) => source))];
  const source = sources.length === 1 ? `Source: ${sources[0]!}.` : undefined;
  const header = ['key', 'unit', 'value', 'over', 'formula', 'range', 'NaN if'];
  const rows = entries.map((entry) => [
    code(entry.key),
    entry.unit,
    reductionText[entry.reduction],
    entry.population,
    code(entry.formula),
    rangesText(entry.range, entry.presetRange),
    entry.undefinedWhen ?? 'never',
    ...(source === undefined ? [entry.source] : []),
  ]);
  return [
    `## ${TITLES[family]}`,
    [
      family === 'trainer' ? TRAINER : `\`${functionOf[family]}\`.`,
      ...(source === undefined ? [] : [source]),
    ].join(' '),
    ...placeholders(entries),
    table(source === undefined ? [...header, 'source'] : header, rows),
  ].join('\n\n');
}

/** What the placeholders of these entries stand for. */
function placeholders(entries: readonly CatalogEntry[]): string[] {
  const found = new Map<string, string>();
  for (const { placeholders: all = {} } of entries) {
    for (const [name, values] of Object.entries(all)) {
      if (typeof values === 'string') found.set(name, `any ${values}`);
      else found.set(name, values.map(code).join(', '));
    }
  }
  if (found.size === 0) return [];
  return [Array.from(found, ([name, values]) => `- ${code(`{${name}}`)}: ${values}`).join('\n')];
}

function code(text: string): string {
  return `\`${text}\``;
}

function table(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = [header, ...rows].map((row) => row.map((text) => text.replaceAll('|', '\\|')));
  const widths = header.map((_title, column) =>
    cells.reduce((widest, row) => Math.max(widest, row[column]!.length), 3),
  );
  const line = (row: readonly string[]): string =>
    `| ${row.map((text, column) => text.padEnd(widths[column]!)).join(' | ')} |`;
  const [titles, ...body] = cells.map(line);
  return [titles!, line(widths.map((width) => '-'.repeat(width))), ...body].join('\n');
}
