/**
 * Whose definition a metric follows where peers and common sense differ.
 *
 * `recommended` is what a correct engine reports; the others give the numbers of two verl revisions, for comparing
 * runs. `semanticDifferences` lists where they differ. Where a revision raises an exception, the value is NaN.
 */
import { kindOf } from '../arguments.js';
import { ValueError } from '../errors.js';

export const semanticsNames = ['recommended', 'verl-2026-08', 'verl-2026-01'] as const;
export type Semantics = (typeof semanticsNames)[number];

/** @throws ValueError for anything that is not one of `semanticsNames` */
export function assertSemantics(
  where: string,
  semantics: string,
  input = 'options.semantics',
): asserts semantics is Semantics {
  if ((semanticsNames as readonly string[]).includes(semantics)) return;
  throw new ValueError({
    where,
    input,
    expected: `one of ${semanticsNames.join(', ')}`,
    received: kindOf(semantics),
    remedy: "leave it out for 'recommended'",
  });
}

/** Whether explicit length columns win over the attention mask; verl ignored them until mid 2026. */
export function usesLengthColumns(semantics: Semantics): boolean {
  return semantics !== 'verl-2026-01';
}
