/** `tensortally explain`: what the number under a metric's key means, or all keys that there are. */
import type { CommandModule } from 'yargs';
import { ValueError } from '../errors.js';
import { explainMetric, metricCatalog, semanticDifferences } from '../metrics/index.js';
import { describeCatalog, describeMetric, describeTrackerKey } from './explain/description.js';
import { catalogDocument } from './explain/document.js';
import { explainTrackerKey } from './explain/tracker-keys.js';
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
      .positional('key', { type: 'string', describe: 'The metric, e.g. critic/vf_explained_var' })
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
      explain(key, json, width);
    }
  },
};

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
