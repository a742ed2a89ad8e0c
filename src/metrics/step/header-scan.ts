/**
 * What the bytes of a header may hold, found before they are parsed: values that JSON makes take up to many times the
 * memory of their text.
 *
 * An honest header has less than 8 kB beside the groups of the rows, which a test holds: what is skipped and why, options,
 * and the channels of all families.
 */

/** Brackets that are open at once, at most; options of families have the most. */
const MOST_NESTED = 8;
/** Bytes outside of the lists that have one entry per row or table, at most. */
export const MOST_BYTES = 2 ** 16;
/** Names of parts, options and channels, at most. All families together have about 100 channels. */
const MOST_NAMES = 512;
/** Bytes of one of these, at most. */
const MOST_BYTES_OF_A_NAME = 128;
/** Entries of lists, at most, beside one for every row. */
const MOST_ENTRIES = 1024;
/** Where the lists are that have one entry per row: parts of the header itself. */
const DEPTH_OF_LISTS = 2;

const [QUOTE, BACKSLASH, COLON, COMMA] = [0x22, 0x5c, 0x3a, 0x2c];
const [OPEN_LIST, CLOSE_LIST, OPEN_RECORD, CLOSE_RECORD] = [0x5b, 0x5d, 0x7b, 0x7d];

/**
 * What is wrong with the bytes of a header; undefined if they may be parsed. Whether they are JSON is not asked.
 *
 * @param rows that the body can have, at most
 */
export function scanFault(bytes: Uint8Array, rows: number): string | undefined {
  let [depth, names, entries, outside, length] = [0, 0, 0, 0, 0];
  let isInList = false;
  for (let at = 0; at < bytes.length; at++) {
    const start = at;
    switch (bytes[at]!) {
      case QUOTE:
        for (at++; at < bytes.length && bytes[at] !== QUOTE; at++) if (bytes[at] === BACKSLASH) at++;
        length = at - start - 1;
        break;
      case OPEN_LIST:
      case OPEN_RECORD:
        if (++depth > MOST_NESTED) return 'a header that is nested too deep';
        if (depth === DEPTH_OF_LISTS && bytes[at] === OPEN_LIST) isInList = true;
        break;
      case CLOSE_LIST:
      case CLOSE_RECORD:
        if (--depth < DEPTH_OF_LISTS) isInList = false;
        break;
      case COLON:
        if (length > MOST_BYTES_OF_A_NAME) return `a header with a name of ${length} bytes`;
        if (++names > MOST_NAMES) return `a header of more than ${MOST_NAMES} names`;
        break;
      case COMMA:
        if (++entries > MOST_NAMES + MOST_ENTRIES + rows)
          return `a header of more entries than ${rows} rows have`;
        break;
    }
    if (isInList) continue;
    outside += at + 1 - start;
    if (outside > MOST_BYTES) return `a header of more than ${MOST_BYTES} bytes beside its lists`;
  }
  return undefined;
}
