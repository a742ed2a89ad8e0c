/** `tensortally explain`: what the number under a metric's key means, or all keys that there are. */
import type { CommandModule } from 'yargs';
import { ValueError } from '../errors.js';
import { explainMetric, metricCatalog, semanticDifferences } from '../metrics/index.js';
import { describeCatalog, describeKeys, describeMetric, describeTrackerKey } from './explain/description.js';
import { catalogDocument } from './explain/document.js';
import { explainTrackerKey, wholeTrackerKeys } from './explain/tracker-keys.js';
import { printJson, printLines } from './output.js';

interface ExplainArguments {
  readonly key: string | undefined;
  readonly json: boolean;
  readonly markdown: boolean;
}

export const explainCommand: CommandModule<object, ExplainArguments> = {
  command: 'explain [key]',
  describe: 'Say what a metric means, or list all of them',
  builder: (command) =>
    command
      .positional('key', {
        type: 'string',
        describe: "The metric, e.g. critic/vf_explained_var, or a family, e.g. 'group/*'",
      })
      .option('json', { type: 'boolean', default: false, describe: 'Print it as JSON' })
      .option('markdown', { type: 'boolean', default: false, describe: 'Print everything as a document' })
      .check(({ key, json, markdown }) => {
        if (markdown && (json || key !== undefined)) throw new Error('--markdown goes with nothing else');
        return true;
      }),
  handler: ({ key, json, markdown }) => {
    const width = Math.max(60, process.stdout.columns || 100);
    if (markdown) process.stdout.write(catalogDocument());
    else if (key === undefined) {
      if (json) printJson({ metrics: metricCatalog, differences: semanticDifferences });
      else printLines(describeCatalog());
    } else {
      const family = keysOf(key);
      if (family.length === 0) explain(key, json, width);
      else if (json) printJson({ keys: family });
      else printLines(describeKeys(family));
    }
  },
};

/** The keys of a family as the documents write it, e.g. `group/*`; none for what is no family. */
function keysOf(family: string): string[] {
  if (!family.includes('*')) return [];
  const parts = family.split('*');
  return [...metricCatalog.map(({ key }) => key), ...wholeTrackerKeys].filter((key) => isMadeOf(key, parts));
}

/** Whether `key` is these parts with any text between them. */
function isMadeOf(key: string, [first = '', ...rest]: readonly string[]): boolean {
  const last = rest.pop() ?? '';
  if (!key.startsWith(first)) return false;
  let at = first.length;
  for (const part of rest) {
    const found = key.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return key.endsWith(last) && key.length - last.length >= at;
}

/** Prints what a key of the catalogue means, or else what a tracker would mean by it. */
function explain(key: string, json: boolean, width: number): void {
  try {
    const explained = explainMetric(key);
    if (json) printJson(explained);
    else printLines(describeMetric(explained, width));
  } catch (error) {
    const explained = error instanceof ValueError ? explainTrackerKey(key) : undefined;
    if (explained === undefined) throw error;
    if (json) printJson(explained);
    else {
      printLines(describeTrackerKey(explained, width));
      // The name may also be a misspelt one of the catalogue.
      const { remedy } = error as ValueError;
      if (remedy.startsWith('did you mean'))
        printLines(['', `The catalogue of metrics does not have it; ${remedy}`]);
    }
  }
}
