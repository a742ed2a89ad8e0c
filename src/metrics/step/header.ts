/** The header of a state's bytes: what it says, and what must hold of it for the state to be one that a step made. */
import { TensortallyError } from '../../errors.js';
import { dataChannels } from '../data.js';
import { groupChannels } from '../groups.js';
import { correlationChannels } from '../numbers/correlation.js';
import { klKeys } from '../policy/kl.js';
import { areRecords } from '../policy/plans.js';
import { policyKeys } from '../policy/policy.js';
import { correctionChannels } from '../rollout-correction/correction.js';
import { correctionSettings } from '../rollout-correction/options.js';
import type { StateContents } from './contents.js';
import { effectiveOptions } from './effective-options.js';
import { type FamilyOptions, type TensorFamily, stepFamilies, tensorFamilies } from './families.js';

/** What there is in the body, and all of the state that is not numbers by row. */
export interface Header extends Pick<
  StateContents,
  'rows' | 'skipped' | 'families' | 'responseWidth' | 'promptWidth' | 'isFullSequence'
> {
  readonly options: FamilyOptions;
  /** By family and channel, which of the tables. */
  readonly channels: Readonly<Record<string, Readonly<Record<string, number>>>>;
  readonly tables: number;
  /** Rows of each table; undefined if all have one for every row of the batch. Totals of short rows have fewer. */
  readonly tableRows?: readonly number[];
  /** Why lengths are unknown; those that are not here follow. */
  readonly unknownLengths: { readonly prompt?: string; readonly response?: string };
  readonly hasNumTurns: boolean;
  readonly hasToolCallCounts: boolean;
  /** The groups of the rows, each with its type before it, see encoding.ts. */
  readonly groups?: readonly string[];
  /** Entries of global_token_num. */
  readonly globalTokens?: number;
}

/** Rows of a state that holds nothing but totals, at most: no byte stands for them. */
export const MOST_ROWS_OF_TOTALS = 2 ** 30;

const isRecord = (x: unknown): x is Readonly<Record<string, unknown>> =>
  typeof x === 'object' && x !== null && !Array.isArray(x);
const isText = (x: unknown): x is string => typeof x === 'string';
const isCount = (x: unknown): x is number => Number.isSafeInteger(x) && (x as number) >= 0;
const isFlag = (x: unknown): boolean => typeof x === 'boolean';
const isFamily = (x: unknown): boolean => (stepFamilies as readonly unknown[]).includes(x);
const isGroup = (x: unknown): boolean =>
  isText(x) && (x.startsWith('s') || (x.startsWith('n') && !Number.isNaN(Number(x.slice(1) || NaN))));
const unless =
  (holds: (x: unknown) => boolean) =>
  (x: unknown): boolean =>
    x === undefined || holds(x);
const listOf =
  (holds: (x: unknown) => boolean) =>
  (x: unknown): boolean =>
    Array.isArray(x) && x.every(holds);

/** Tables of a state, at most: all families together have about 60 channels. */
const MOST_TABLES = 256;

/** What each part must be, whatever the others are. */
const PARTS: { readonly [K in keyof Required<Header>]: (x: unknown) => boolean } = {
  rows: isCount,
  tables: (x) => isCount(x) && x <= MOST_TABLES,
  tableRows: unless(listOf(isCount)),
  skipped: (x) => isRecord(x) && Object.entries(x).every(([family, why]) => isFamily(family) && isText(why)),
  families: unless(
    (x) =>
      Array.isArray(x) &&
      x.length <= stepFamilies.length &&
      x.every(isFamily) &&
      new Set(x).size === x.length,
  ),
  responseWidth: unless(isCount),
  promptWidth: unless(isCount),
  isFullSequence: unless(isFlag),
  options: isRecord,
  channels: (x) =>
    isRecord(x) && Object.values(x).every((own) => isRecord(own) && Object.values(own).every(isCount)),
  unknownLengths: (x) =>
    isRecord(x) &&
    Object.entries(x).every(([part, why]) => (part === 'prompt' || part === 'response') && isText(why)),
  hasNumTurns: isFlag,
  hasToolCallCounts: isFlag,
  groups: unless(listOf(isGroup)),
  globalTokens: unless(isCount),
};

/** What is wrong with a header; undefined if nothing is. */
export function faultOf(where: string, given: unknown): string | undefined {
  if (!isRecord(given)) return 'a header that is no record';
  const stranger = Object.keys(given).find((part) => !Object.hasOwn(PARTS, part));
  if (stranger !== undefined) return `a header with ${stranger}`;
  for (const [part, holds] of Object.entries(PARTS)) {
    if (!holds(given[part])) return `a header with an invalid ${part}`;
  }
  const header = given as unknown as Header;
  const { rows, tables, groups, channels, globalTokens, tableRows } = header;
  if (tableRows !== undefined) {
    // A table has a row for every row of the batch, or one for all of them.
    const areTotals =
      tableRows.length === tables && tableRows.every((n) => n === rows || (n === 1 && rows > 1));
    if (!areTotals || rows > MOST_ROWS_OF_TOTALS)
      return `tables of ${tableRows.length} lengths for ${rows} rows`;
  }
  if (groups !== undefined && groups.length !== rows) return `${groups.length} groups for ${rows} rows`;
  if ((groups === undefined) !== (channels.groups === undefined))
    return 'groups without metrics, or without ids';
  const used = new Set(Object.values(channels).flatMap((own) => Object.values(own)));
  if (used.size !== tables) return `${tables} tables, of which ${used.size} are used`;
  // Without tokens either, there is no state of such a batch.
  if (isBare(header) && globalTokens === undefined) return `${rows} rows of which nothing is known`;
  try {
    effectiveOptions(where, header.options, header.families);
  } catch (error) {
    if (error instanceof TensortallyError) return `options that no step has: ${error.message}`;
    throw error;
  }
  for (const [family, own] of Object.entries(channels)) {
    const fault = channelFault(where, family, own, header);
    if (fault !== undefined) return fault;
  }
  return undefined;
}

function channelFault(
  where: string,
  family: string,
  own: Readonly<Record<string, number>>,
  { tables, options, skipped }: Header,
): string | undefined {
  if (!(tensorFamilies as readonly string[]).includes(family)) return `the family ${family}`;
  const found = Object.keys(own).sort();
  const beyond = found.find((channel) => own[channel]! >= tables);
  if (beyond !== undefined) return `table ${own[beyond]} of ${tables} for ${family}`;
  const parts = PARTIAL_FAMILIES[family];
  if (parts !== undefined) {
    const isExplained =
      parts.whole.some((all) => all.every((channel) => channel in own)) || family in skipped;
    return isExplained && parts.areFitting(found)
      ? undefined
      : `the channels ${found.join(', ')} for ${family}`;
  }
  const keys = RECORD_KEYS[family];
  const isFitting =
    keys === undefined
      ? channelSets(where, family as SetFamily, options).some(
          (set) => [...set].sort().join('\n') === found.join('\n'),
        )
      : areRecords(found, keys);
  return isFitting ? undefined : `the channels ${found.join(', ')} for ${family}`;
}

/** Families whose channels are there as far as the batch allows. */
const PARTIAL_FAMILIES: Readonly<
  Record<
    string,
    | {
        /** One of these is always there, unless the state says why not. */
        readonly whole: readonly (readonly string[])[];
        readonly areFitting: (channels: readonly string[]) => boolean;
      }
    | undefined
  >
> = {
  data: {
    whole: [
      ['score', 'rewards', 'advantages'],
      ['stepScore', 'stepRewards', 'advantages'],
    ],
    areFitting: (channels) => {
      const has = (channel: string): boolean => channels.includes(channel);
      const areKnown = channels.every((channel) => (dataChannels as readonly string[]).includes(channel));
      return areKnown && has('errors') === (has('returns') && has('values'));
    },
  },
  groups: {
    whole: [['rewards', 'scores']],
    areFitting: (channels) => {
      const has = (channel: string): boolean => channels.includes(channel);
      const areKnown = channels.every((channel) => (groupChannels as readonly string[]).includes(channel));
      const areOfTheirs = (!has('rewardSizes') || has('rewards')) && (!has('scoreSizes') || has('scores'));
      return (
        areKnown && areOfTheirs && (has('produced') ? channels.length === 1 : has('rewards') || has('scores'))
      );
    },
  },
};

/** Families of records, whose channels name their metric, and how its number is made. */
const RECORD_KEYS: Readonly<Record<string, readonly string[] | undefined>> = {
  policy: policyKeys,
  kl: klKeys,
};

type SetFamily = Exclude<TensorFamily, 'data' | 'groups' | 'policy' | 'kl'>;

/** What the channels of a family can be: one of these sets. */
function channelSets(
  where: string,
  family: SetFamily,
  options: FamilyOptions,
): readonly (readonly string[])[] {
  switch (family) {
    case 'varianceProxy': {
      const always = ['advantages', 'power'];
      return [always, [...always, 'weightedPower', 'weights'], ['aSquared', 'rowPower', 'stepPower']];
    }
    case 'rolloutCorrection': {
      const { semantics = 'recommended' } = options;
      const settings = correctionSettings(where, { ...options.rolloutCorrection, semantics });
      return [false, true].map((areSteps) => Object.keys(correctionChannels(settings, areSteps)));
    }
    case 'debug':
      return [['distance', ...Object.keys(correlationChannels('oldLogProbs', 'rolloutLogProbs'))]];
  }
}

/** Whether nothing in the state is about its rows one by one. */
export function isBare({ tables, unknownLengths, hasNumTurns, hasToolCallCounts }: Header): boolean {
  const hasLengths = unknownLengths.prompt === undefined || unknownLengths.response === undefined;
  return tables === 0 && !hasLengths && !hasNumTurns && !hasToolCallCounts;
}
