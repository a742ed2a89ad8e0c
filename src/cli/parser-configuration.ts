/** How every command reads its words. A command that sets one thing otherwise sets the others again: yargs keeps no part. */
export const parserConfiguration = {
  'duplicate-arguments-array': false, // given twice, the last one counts
  'boolean-negation': false, // else --no-out would make false of a folder
  'camel-case-expansion': false, // else an unknown --a-b is told twice
};

/** The value of a number option, for a message: yargs keeps NaN of what is no number. */
export function shownNumber(value: number): string {
  return Number.isNaN(value) ? 'what is no number' : String(value);
}
