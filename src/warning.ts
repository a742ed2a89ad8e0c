/** How the package warns: as a `TensortallyWarning` of the process, with a code to filter by. */
import { printable } from './printable.js';

/** Warns with `text`, in which names of the user may stand. */
export function warn(code: string, text: string): void {
  process.emitWarning(printable(text), { type: 'TensortallyWarning', code });
}
