/** How the commands print: names that came from outside reach a terminal only as printable text. */
import { printable, printableJson } from '../printable.js';

/** Prints lines; what a line holds cannot make a line of its own. */
export function printLines(lines: readonly string[]): void {
  console.log(lines.map(printable).join('\n'));
}

/** Prints a value as indented JSON. */
export function printJson(value: unknown): void {
  console.log(printableJson(JSON.stringify(value, null, 2)));
}
