/** How evenly the tokens of a batch are spread over ranks, before and after the rows are rearranged. */
import { isArrayLike, kindOf } from '../../arguments.js';
import { ValueError } from '../../errors.js';
import { Pending } from '../../kernels/index.js';
import { type RolloutBatch, assertBatch } from '../batch/batch.js';
import { rowLengths } from '../batch/lengths.js';
import { type Metrics, momentsOf, total } from '../numbers/statistics.js';

const WHERE = 'computeSequenceBalanceMetrics';

/**
 * `global_seqlen/{min,max,minmax_diff}`: tokens per rank if the rows are dealt in order, in equal slices;
 * `global_seqlen/{balanced_min,balanced_max}`: tokens per rank as `partitions` deals them; `global_seqlen/mean`: tokens
 * per rank on average.
 *
 * Tokens of a sequence are prompt and response. Where the ranks do not divide the rows, slices in order differ by one
 * row.
 *
 * @param batch needs global_token_num (all ranks), or what tells the lengths (see `computeTimingMetrics`)
 * @param partitions for every rank the rows that it gets; every row once
 * @returns plain numbers; undefined ones are NaN. One read-back, none with global_token_num
 * @throws MissingInputError without token counts; ValueError for partitions without ranks, that leave a row out, or
 *   deal one twice; ShapeError, DtypeError, DisposedTensorError, BackendError
 * @source verl, utils/seqlen_balancing.py, log_seqlen_unbalance
 * @example  await computeSequenceBalanceMetrics(batch, [[0, 5, 2], [1, 4, 3]]);
 */
export async function computeSequenceBalanceMetrics(
  batch: RolloutBatch,
  partitions: ArrayLike<ArrayLike<number>>,
): Promise<Metrics> {
  return Pending.attempt(() => sequenceBalanceMetrics(batch, partitions));
}

/** The `Pending` behind `computeSequenceBalanceMetrics`. */
export function sequenceBalanceMetrics(
  batch: RolloutBatch,
  partitions: ArrayLike<ArrayLike<number>>,
): Pending<Metrics> {
  assertBatch(WHERE, batch);
  const rows = batch.globalTokenNum?.length ?? batch.batchSize;
  const dealt = rowsOfRanks(partitions, rows);
  assertPartition(dealt, rows);
  return sequenceLengths(batch).map((lengths) => metricsOf(lengths, dealt));
}

/** Tokens of every sequence. */
function sequenceLengths(batch: RolloutBatch): Pending<readonly number[]> {
  if (batch.globalTokenNum !== undefined) return Pending.of(Array.from(batch.globalTokenNum));
  // Rows of one step have no lengths; each is one.
  const ones = new Float64Array(batch.batchSize).fill(1);
  return rowLengths(WHERE, batch, true).map(({ prompt, response = ones }) =>
    Array.from(response, (tokens, row) => (prompt?.[row] ?? 0) + tokens),
  );
}

function metricsOf(lengths: readonly number[], dealt: readonly (readonly number[])[]): Metrics {
  const ranks = dealt.length;
  const edge = (rank: number): number => Math.floor((rank * lengths.length) / ranks);
  const inOrder = momentsOf(dealt.map((_rows, rank) => total(lengths.slice(edge(rank), edge(rank + 1)))));
  const balanced = momentsOf(dealt.map((rows) => total(rows.map((row) => lengths[row]!))));
  return {
    'global_seqlen/min': inOrder.min,
    'global_seqlen/max': inOrder.max,
    'global_seqlen/minmax_diff': inOrder.max - inOrder.min,
    'global_seqlen/balanced_min': balanced.min,
    'global_seqlen/balanced_max': balanced.max,
    'global_seqlen/mean': total(lengths) / ranks,
  };
}

/** A copy of the partitions: the caller may go on writing to his lists. Lists that cannot fit are not copied. */
function rowsOfRanks(partitions: ArrayLike<ArrayLike<number>>, rows: number): number[][] {
  if (!isArrayLike(partitions)) throw noPartition(kindOf(partitions));
  const dealt: number[][] = [];
  for (let rank = 0; rank < partitions.length; rank++) {
    const own: unknown = partitions[rank];
    if (!isArrayLike(own)) throw noPartition(`${kindOf(own)} for rank ${rank}`);
    if (own.length > rows) throw noPartition(`${own.length} rows for rank ${rank}, of ${rows} rows`);
    dealt.push(Array.from(own as ArrayLike<number>));
  }
  return dealt;
}

/** @throws ValueError unless every row is dealt once */
function assertPartition(dealt: readonly (readonly number[])[], rows: number): void {
  const rankOf = new Map<number, number>();
  for (const [rank, own] of dealt.entries()) {
    for (const row of own) {
      const isRow = Number.isSafeInteger(row) && row >= 0 && row < rows;
      if (!isRow) throw noPartition(`${kindOf(row)} for rank ${rank}, of ${rows} rows`);
      if (rankOf.has(row)) throw noPartition(`row ${row} for rank ${rankOf.get(row)!} and for rank ${rank}`);
      rankOf.set(row, rank);
    }
  }
  if (rankOf.size === rows && dealt.length > 0) return;
  throw noPartition(dealt.length === 0 ? 'no rank' : `${rankOf.size} of ${rows} rows`);
}

function noPartition(received: string): ValueError {
  return new ValueError({
    where: WHERE,
    input: 'partitions',
    expected: 'for every rank the numbers of its rows, every row once',
    received,
    remedy: 'pass what the balancer dealt, e.g. [[0, 3], [1, 2]]',
  });
}
