/** What a step left out, told to whoever asked to hear it, and otherwise once. */
import { Told } from '../../warning.js';
import type { Skipped, StepFamily } from './families.js';

/** Sets of left-out inputs. */
const told = new Told();

/**
 * Tells what was left out: all of it to `onSkipped`, or without one what would be missed, in a warning, once for every set
 * of inputs.
 *
 * @param where the public function
 * @param missed see `missedOf`
 */
export function tellSkipped(
  where: string,
  skipped: Skipped,
  missed: Skipped,
  onSkipped: ((family: StepFamily, reason: string) => void) | undefined,
): void {
  if (onSkipped !== undefined) {
    for (const [family, reason] of Object.entries(skipped)) onSkipped(family as StepFamily, reason);
    return;
  }
  const text = Object.entries(missed)
    .map(([family, reason]) => `${family}: ${reason}`)
    .join('\n  ');
  if (text === '' || told.fresh([text]).length === 0) return;
  process.emitWarning(
    `${where} left out what the batch and the options do not allow:\n  ${text}\n` +
      'Name the families that are wanted in options.families, or pass options.onSkipped to hear of it yourself.',
    { type: 'TensortallyWarning', code: 'TENSORTALLY_LEFT_OUT' },
  );
}
