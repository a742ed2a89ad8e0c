/** The end of a journal: whether its last line is whole, and the step of its last commit. */
import { readSync } from 'node:fs';

const NEWLINE = '\n'.charCodeAt(0);
const BRACE = '}'.charCodeAt(0);

/** Bytes that are read at once. */
const BLOCK = 1 << 16;

/** Bytes of a line's beginning that show what it is. */
const HEAD = 64;

/** Whether a file of `size` bytes ends in the middle of a line. */
export function isTorn(file: number, size: number): boolean {
  return size > 0 && byteAt(file, size - 1) !== NEWLINE;
}

/**
 * The step of the last commit in a file, read from its end: a journal is long, and its last line is near.
 *
 * Only whole lines count. Lines of a kind and what is no line of a journal are passed over.
 */
export function lastStep(file: number, size: number): number | undefined {
  const block = Buffer.alloc(Math.min(BLOCK, size));
  let end: number | undefined; // behind the line that is being looked for
  for (let from = size; from > 0;) {
    const length = Math.min(block.length, from);
    from -= length;
    const bytes = block.subarray(0, readSync(file, block, 0, length, from));
    for (let at = bytes.length - 1; at >= 0; at--) {
      if (bytes[at] !== NEWLINE) continue;
      const step = end === undefined ? undefined : stepOf(file, from + at + 1, end);
      if (step !== undefined) return step;
      end = from + at;
    }
  }
  return end === undefined ? undefined : stepOf(file, 0, end);
}

/** The step of the line in [start, end), if it is a whole commit. */
function stepOf(file: number, start: number, end: number): number | undefined {
  const head = Buffer.alloc(Math.min(HEAD, end - start));
  readSync(file, head, 0, head.length, start);
  const digits = /^\s*\{\s*"step"\s*:\s*(\d{1,16})\s*,/.exec(head.toString('latin1'))?.[1];
  return digits !== undefined && byteAt(file, end - 1) === BRACE ? Number(digits) : undefined;
}

function byteAt(file: number, position: number): number | undefined {
  const byte = Buffer.alloc(1);
  return readSync(file, byte, 0, 1, position) === 1 ? byte[0] : undefined;
}
