/** Names of the fields of a batch that is written by hand: a misspelt one would be left out in silence. */
import { ValueError } from '../../errors.js';
import { meantName } from '../../meant-name.js';

/** Under this name `computeRolloutCorrection` returns weights. */
export const WEIGHTS_AS_RETURNED = 'isWeights';

/**
 * Refuses a field that means another one. What means none may be the caller's own, and is left alone.
 *
 * @param fields verl's name of every field
 * @throws ValueError with the right name
 */
export function assertFieldNames(
  where: string,
  batch: object,
  fields: Readonly<Record<string, string>>,
): void {
  const stranger = Object.entries(batch).find(
    ([name, value]: [string, unknown]) =>
      value !== undefined &&
      value !== null &&
      !Object.hasOwn(fields, name) &&
      meantField(name, fields) !== undefined,
  );
  if (stranger === undefined) return;
  const [name] = stranger;
  const meant = meantField(name, fields)!;
  const isVerls = fields[meant] === name;
  throw new ValueError({
    where,
    input: `batch.${name}`,
    expected: `a field of a batch, such as ${meant}`,
    received: isVerls ? "verl's name of it" : 'one that does not exist',
    remedy: `write ${meant}, or leave it out${isVerls ? "; batchFromVerl takes verl's names" : ''}`,
  });
}

function meantField(name: string, fields: Readonly<Record<string, string>>): string | undefined {
  if (name === WEIGHTS_AS_RETURNED) return 'rolloutIsWeights';
  const verls = Object.entries(fields).flatMap(([field, verl]) => [field, verl]);
  const meant = meantName(name, verls);
  return Object.keys(fields).find((field) => field === meant || fields[field] === meant);
}
