/** The end of a journal: whether its last line is whole, and the step of its last commit. */
import { constants } from 'node:buffer';
import { readSync } from 'node:fs';
import { parseLine } from './lines.js';

const NEWLINE = '\n'.charCodeAt(0);

/** Bytes that are read at once. */
const BLOCK = 1 << 16;

/** Of a longer line, no text can be made, here and in `readJournal`. */
const MOST_BYTES = constants.MAX_STRING_LENGTH;

/** Whether a file of `size` bytes ends in the middle of a line. */
export function isTorn(file: number, size: number): boolean {
  return size > 0 && byteAt(file, size - 1) !== NEWLINE;
}

/**
 * The step of the last commit in a file, read from its end: a journal is long, and its last line is near.
 *
 * A line is what `readJournal` takes for one, so a whole one counts without its line break too. Lines of a kind and
 * what is no line of a journal are passed over.
 */
export function lastStep(file: number, size: number): number | undefined {
  const block = Buffer.alloc(Math.min(BLOCK, size));
  let end = size; // behind the line that is being looked for
  for (let from = size; from > 0;) {
    const length = Math.min(block.length, from);
    from -= length;
    const bytes = block.subarray(0, readSync(file, block, 0, length, from));
    for (let at = bytes.length - 1; at >= 0; at--) {
      if (bytes[at] !== NEWLINE) continue;
      const step = stepOf(file, from + at + 1, end);
      if (step !== undefined) return step;
      end = from + at;
    }
  }
  return stepOf(file, 0, end);
}

/** The step of the line in [start, end), if it is a commit. */
function stepOf(file: number, start: number, end: number): number | undefined {
  if (end - start > MOST_BYTES) return undefined;
  const bytes = Buffer.alloc(end - start);
  const line = parseLine(bytes.toString('utf8', 0, readSync(file, bytes, 0, bytes.length, start)));
  return typeof line === 'object' && 'step' in line ? line.step : undefined;
}

function byteAt(file: number, position: number): number | undefined {
  const byte = Buffer.alloc(1);
  return readSync(file, byte, 0, 1, position) === 1 ? byte[0] : undefined;
}
