/** One-time warnings of a tracker about what it accepts and its user should know. */
import { warn } from '../warning.js';

export type NoticeCode =
  | 'TENSORTALLY_NAME_TAKEN'
  | 'TENSORTALLY_NEVER_EXPORTED'
  | 'TENSORTALLY_REDUCE_TYPE'
  | 'TENSORTALLY_TIMING_LOST'
  | 'TENSORTALLY_UNPAIRED';

/** Subjects that are remembered; a tracker that has this many has been told. */
const MOST = 1000;

export class Notices {
  /** What messages call the tracker. */
  readonly tracker: string;
  readonly #said = new Set<string>();

  /** @param name of the tracker */
  constructor(name: string) {
    this.tracker = name === '' ? 'the tracker without a name' : `tracker '${name}'`;
  }

  /** Warns about `subject`, unless this tracker has done so before. */
  once(code: NoticeCode, subject: string, text: string): void {
    const notice = `${code} ${subject}`;
    if (this.#said.has(notice) || this.#said.size >= MOST) return;
    this.#said.add(notice);
    warn(code, `${this.tracker}: ${text}`);
  }
}
