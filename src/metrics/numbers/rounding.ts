/**
 * When numbers are equal but for rounding.
 *
 * Rewards, returns and log-probabilities arrive as float32, and most were computed in it: 0.1 + 0.9 and 0.3 + 0.7 are
 * one reward in two roundings. Where equality decides, bits would decide by chance.
 */

/**
 * Relative to the magnitude of the numbers: each of two may be off by four roundings to float32, of 2⁻²⁴ each. About
 * 4.8e-7.
 */
export const FLOAT32_TOLERANCE = 2 ** -21;

/**
 * Whether numbers from `min` to `max` are one number, but for float32 rounding.
 *
 * @param magnitude of what they were computed from; default the larger of their own. Around 0 it is what tells rounding
 *   from spread: ±1e-20 differ by all that they are
 * @returns false for NaN
 */
export function isOneNumber(
  min: number,
  max: number,
  magnitude = Math.max(Math.abs(min), Math.abs(max)),
): boolean {
  return min === max || (magnitude < Infinity && max - min <= FLOAT32_TOLERANCE * magnitude);
}
