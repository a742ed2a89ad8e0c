/**
 * What the rows of a delta are about: keys in one order, known by a fingerprint of their names and reductions.
 *
 * Names are most of the bytes of a small metric record and hardly ever change, so they travel once; a schema is known
 * by its content, not by who sent it, so thousands of workers that run the same code share one.
 */
import { createHash } from 'node:crypto';
import type { MomentsRow } from '../../../rows/index.js';
import type { Reduction } from '../../records/reduce-type.js';

/**
 * The reductions that travel: those that a moments row alone says everything about. A place in this list is what goes
 * over the wire, so it may only grow at its end.
 */
export const streamReductions = [
  'scalar',
  'sum',
  'avg_min_max',
  'avg',
  'min',
  'max',
  'denominator',
  'counter',
] as const satisfies readonly Reduction[];

/** What a key of a stream can be: a reduce type or a denominator. */
export type StreamReduction = (typeof streamReductions)[number];

/** A key and how its row becomes exported numbers. */
export interface KeyDefinition {
  readonly key: string;
  readonly reduction: StreamReduction;
}

/** All that was recorded under a key: what a stream carries and merges. */
export interface StreamRow extends KeyDefinition {
  readonly row: MomentsRow;
}

/** Bytes of UTF-8 that a text on the wire has at most: its length is written with 16 bits. */
export const MOST_TEXT_BYTES = 0xffff;

/** @returns whether `value` is a reduction that travels */
export function isStreamReduction(value: unknown): value is StreamReduction {
  return (streamReductions as readonly unknown[]).includes(value);
}

/**
 * The one number that stands for the names and reductions of a schema: 48 bits of SHA-256 of how they are written,
 * which two of a thousand different schemas share with a probability of 2e-9.
 *
 * @param parent the fingerprint of the schema that these follow
 */
export function fingerprintOf(written: Uint8Array, parent?: number): number {
  const hash = createHash('sha256');
  if (parent !== undefined) hash.update(new Uint8Array(Float64Array.of(parent).buffer));
  return hash.update(written).digest().readUIntBE(0, 6);
}
