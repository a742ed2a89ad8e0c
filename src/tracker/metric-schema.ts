/**
 * A schema of metrics: what may be recorded, how, and under which names it is exported; for the compiler and at run time.
 *
 * It adds no behaviour to a tracker. Recording through it is recording through the handle that it was put on, with
 * denominators and reduce types taken from one place, and names that are in it.
 */
import type { Tensor } from '@tensorflow/tfjs-core';
import { assertNamed, assertOptions, kindOf } from '../arguments.js';
import { ValueError } from '../errors.js';
import { TrackerHandle } from './handle.js';
import { nameTaken } from './records/key-book.js';
import {
  type ExportedSuffix,
  type NonFiniteSuffix,
  type Reduction,
  type ScalarReduceType,
  type TensorReduceType,
  exportedNames,
  scalarReduceTypes,
  tensorReduceTypes,
} from './records/reduce-type.js';

/** A stat: the key of its denominator in the same schema, and how it is reduced; default `avg_min_max`. */
export interface StatDefinition {
  readonly denominator: string;
  readonly reduceType?: TensorReduceType;
}

/** What one key is: a denominator, a stat over one, a scalar named by its reduce type, or a counter. */
export type MetricDefinition = 'denominator' | StatDefinition | ScalarReduceType | 'counter';

/** Definitions by key. */
export type MetricDefinitions = Readonly<Record<string, MetricDefinition>>;

type KeysOf<S, D> = { [K in keyof S & string]: S[K] extends D ? K : never }[keyof S & string];

/** Keys of the denominators of a schema. */
export type DenominatorKey<S> = KeysOf<S, 'denominator'>;
/** Keys of the stats over the denominator `D`. */
export type StatKey<S, D extends string> = KeysOf<S, { readonly denominator: D }>;
export type ScalarKey<S> = KeysOf<S, ScalarReduceType>;
export type CounterKey<S> = KeysOf<S, 'counter'>;

type ReductionOf<D> = D extends { readonly reduceType: infer R extends TensorReduceType }
  ? R
  : D extends StatDefinition
    ? 'avg_min_max'
    : D extends Reduction
      ? D
      : never;

/** Every name that a schema exports, but for the counts of non-finite elements that only a rule for them adds. */
export type ExportedName<S> = {
  [K in keyof S & string]: `${K}${ExportedSuffix<ReductionOf<S[K]>>}`;
}[keyof S & string];

type NonFiniteName<S> = `${Exclude<keyof S & string, DenominatorKey<S>>}${NonFiniteSuffix}`;

/**
 * The numbers of an export that a schema knows, recorded below the path `P`. One is absent if nothing was selected,
 * `key/nonfinite` also if no rule was chosen or all elements were finite.
 */
export type ExportOf<S, P extends string = ''> = {
  readonly [N in ExportedName<S> | NonFiniteName<S> as P extends '' ? N : `${P}/${N}`]?: number;
};

/** Definitions whose stats name denominators that are there. */
type Consistent<S> = {
  readonly [K in keyof S]: S[K] extends { readonly denominator: unknown }
    ? { readonly denominator: DenominatorKey<S>; readonly reduceType?: TensorReduceType }
    : S[K];
};

type Some<K extends string, V> = Readonly<Partial<Record<K, V>>>;

/** A handle to one mask, see `DenominatorHandle`. */
export interface DefinedDenominator<S, D extends string> extends Disposable {
  /** `DenominatorHandle.stat` with the reduce types of the schema. */
  stat(values: Some<StatKey<S, D>, Tensor>): void;
}

/**
 * Defines metrics once, for all places that record or read them.
 *
 * @param definitions by key: `'denominator'`; `{ denominator: key, reduceType? }` for a stat; `'scalar'`, `'sum'`,
 *   `'min'`, `'max'` or `'last'` for a scalar; `'counter'`. Copied
 * @throws ValueError for an invalid definition, or a stat over a denominator that is not defined; KeyConflictError
 *   for two keys that export one name
 * @example
 *   const actor = defineMetrics({
 *     n_valid_tokens: 'denominator',
 *     loss: { denominator: 'n_valid_tokens' },
 *     grad_norm: 'scalar',
 *     skipped_batches: 'counter',
 *   });
 *   const records = actor.on(tracker.child('ppo_actor'));
 *   records.denominator({ n_valid_tokens: mask });
 *   records.stat('n_valid_tokens', { loss }); // { los } does not compile
 *   actor.read<'ppo_actor'>(await tracker.export())['ppo_actor/loss/avg']; // other names do not compile
 */
export function defineMetrics<const S extends MetricDefinitions>(
  definitions: S & Consistent<S>,
): MetricSchema<S> {
  return new MetricSchema<S>(definitions);
}

/** Metrics as `defineMetrics` was told. */
export class MetricSchema<S extends MetricDefinitions> {
  /** What was defined, frozen. */
  readonly definitions: S;

  /** @internal made by `defineMetrics` */
  constructor(definitions: S) {
    assertDefinitions(definitions);
    this.definitions = frozenCopy(definitions);
  }

  /**
   * Record calls below the path of a tracker or of one of its handles, the scopes that are open there included.
   *
   * @throws ValueError for what is neither
   */
  on(tracker: TrackerHandle): DefinedMetrics<S> {
    if (!(tracker instanceof TrackerHandle)) {
      throw new ValueError({
        where: 'on',
        input: 'tracker',
        expected: 'a StatsTracker or one of its handles',
        received: kindOf(tracker),
        remedy: "pass the tracker, or tracker.child('ppo_actor') for keys below a path",
      });
    }
    return new DefinedMetrics<S>(this.definitions, tracker);
  }

  /**
   * An export whose names the compiler knows; the very same object, unchecked. `P` is the path that the metrics were
   * recorded under, as it begins their exported names.
   */
  read<P extends string = ''>(exported: Readonly<Record<string, number>>): ExportOf<S, P> {
    return exported;
  }
}

/**
 * Record calls that know their metrics. Atomicity and errors are those of the handle that the schema was put on; weights
 * and rules for non-finite elements are given to that handle, or to its tracker.
 */
export class DefinedMetrics<S extends MetricDefinitions> {
  readonly #definitions: S;
  readonly #handle: TrackerHandle;

  /** @internal made by `MetricSchema.on` */
  constructor(definitions: S, handle: TrackerHandle) {
    this.#definitions = definitions;
    this.#handle = handle;
  }

  /**
   * Records masks, see `TrackerHandle.denominator`: one to use through what is returned, or several by name.
   *
   * @throws ValueError for a key that the schema does not define as a denominator; what the handle refuses
   */
  denominator<D extends DenominatorKey<S>>(name: D, mask: Tensor): DefinedDenominator<S, D>;
  denominator(masks: Some<DenominatorKey<S>, Tensor>): void;
  denominator(
    masks: string | Readonly<Record<string, Tensor | undefined>>,
    mask?: Tensor,
  ): DefinedDenominator<S, string> | undefined {
    if (typeof masks !== 'string') {
      this.#assertDefined('denominator', masks, 'a denominator', isDenominator);
      if (mask !== undefined) throw maskWithoutName(masks);
      this.#handle.denominator(masks as Record<string, Tensor>);
      return undefined;
    }
    this.#assertDefined('denominator', { [masks]: mask }, 'a denominator', isDenominator);
    const handle = this.#handle.denominator(masks, mask!);
    return {
      stat: (values) => {
        handle.stat(values as Record<string, Tensor>, { reduceType: this.#reduceTypes(masks, values) });
      },
      [Symbol.dispose]: () => {
        handle[Symbol.dispose]();
      },
    };
  }

  /**
   * Reduces values over the masks that they pair with, in one pass, see `TrackerHandle.stat`.
   *
   * @throws ValueError for a denominator that the schema does not define, or a key that it does not define as a stat over
   *   it; what the handle refuses
   */
  stat<D extends DenominatorKey<S>>(denominator: D, values: Some<StatKey<S, D>, Tensor>): void {
    assertName('stat', 'denominator', denominator);
    this.#assertDefined('stat', { [denominator]: undefined }, 'a denominator', isDenominator);
    const reduceType = this.#reduceTypes(denominator, values);
    this.#handle.stat(values as Record<string, Tensor>, { denominator, reduceType });
  }

  /**
   * Records numbers, see `TrackerHandle.scalar`.
   *
   * @throws ValueError for a key that the schema does not define as a scalar; what the handle refuses
   */
  scalar(values: Some<ScalarKey<S>, number | boolean>): void {
    const isScalar = (definition: MetricDefinition): boolean =>
      (scalarReduceTypes as readonly unknown[]).includes(definition);
    this.#assertDefined('scalar', values, 'a scalar', isScalar);
    const numbers = values as Record<string, number | boolean>;
    const types = Object.keys(numbers).map(
      (key) => [key, this.#definitions[key] as ScalarReduceType] as const,
    );
    // The short call is the fast one.
    if (types.every(([, type]) => type === 'scalar')) this.#handle.scalar(numbers);
    else this.#handle.scalar(numbers, { reduceType: Object.fromEntries(types) });
  }

  /**
   * Counts, see `TrackerHandle.counter`.
   *
   * @throws ValueError for a key that the schema does not define as a counter; what the handle refuses
   */
  counter(values: Some<CounterKey<S>, number | boolean>): void {
    this.#assertDefined('counter', values, 'a counter', (definition) => definition === 'counter');
    this.#handle.counter(values as Record<string, number | boolean>);
  }

  /** The reduce types of stats over a denominator. */
  #reduceTypes(denominator: string, values: unknown): Record<string, TensorReduceType> {
    const isStat = (definition: MetricDefinition): boolean =>
      typeof definition === 'object' && definition.denominator === denominator;
    this.#assertDefined('stat', values, `a stat over '${denominator}'`, isStat);
    return Object.fromEntries(
      Object.keys(values as object).map((key) => {
        const { reduceType = 'avg_min_max' } = this.#definitions[key] as StatDefinition;
        return [key, reduceType];
      }),
    );
  }

  /** @throws ValueError naming a key that the schema does not define as what it is used for */
  #assertDefined(
    where: string,
    values: unknown,
    what: string,
    isDefined: (definition: MetricDefinition) => boolean,
  ): void {
    const input = where === 'denominator' ? 'masks' : 'values';
    assertNamed(where, input, values, {
      expected: `an object of named ${input}`,
      remedy: 'pass { key: … } with keys of the schema',
    });
    for (const key of Object.keys(values)) {
      const definition = Object.hasOwn(this.#definitions, key) ? this.#definitions[key] : undefined;
      if (definition !== undefined && isDefined(definition)) continue;
      throw new ValueError({
        where,
        input: key,
        expected: `a key that the schema defines as ${what}`,
        received: definition === undefined ? 'one that it does not have' : describe(definition),
        remedy: 'spell it as in defineMetrics, or define it there',
      });
    }
  }
}

function frozenCopy<S extends MetricDefinitions>(definitions: S): S {
  const copies = Object.entries(definitions).map(
    ([key, definition]) =>
      [key, typeof definition === 'object' ? Object.freeze({ ...definition }) : definition] as const,
  );
  return Object.freeze(Object.fromEntries(copies)) as S;
}

function isDenominator(definition: MetricDefinition): boolean {
  return definition === 'denominator';
}

function maskWithoutName(masks: object): ValueError {
  return new ValueError({
    where: 'denominator',
    input: 'mask',
    expected: 'either a name and its mask, or an object of named masks alone',
    received: `a mask behind ${kindOf(masks)}`,
    remedy: 'put it into the object under its key',
  });
}

function assertName(where: string, input: string, name: unknown): void {
  if (typeof name === 'string') return;
  throw new ValueError({
    where,
    input,
    expected: 'the key of a denominator',
    received: kindOf(name),
    remedy: "call it as stat('n_valid_tokens', { loss })",
  });
}

function describe(definition: MetricDefinition): string {
  if (typeof definition === 'object') return `a stat over '${definition.denominator}'`;
  if (definition === 'denominator' || definition === 'counter') return `a ${definition}`;
  return `a scalar of reduce type '${definition}'`;
}

/** @throws ValueError or KeyConflictError naming the definition that is invalid or contradicts another one */
function assertDefinitions(definitions: unknown): asserts definitions is MetricDefinitions {
  assertNamed('defineMetrics', 'definitions', definitions, {
    expected: 'an object of definitions by key',
    remedy: "call it as defineMetrics({ n_valid_tokens: 'denominator', … })",
  });
  const entries = Object.entries(definitions);
  const owners = new Map<string, string>();
  for (const [key, definition] of entries) {
    assertDefinition(key, definition);
    if (typeof definition === 'object') assertDenominator(key, definition, definitions);
    const reduction = typeof definition === 'object' ? (definition.reduceType ?? 'avg_min_max') : definition;
    for (const name of exportedNames(key, reduction)) {
      const owner = owners.get(name);
      if (owner !== undefined) throw nameTaken('defineMetrics', key, name, `'${owner}'`);
      owners.set(name, key);
    }
  }
}

function assertDefinition(key: string, definition: unknown): asserts definition is MetricDefinition {
  const isText = (types: readonly string[], value: unknown): boolean =>
    (types as readonly unknown[]).includes(value);
  if (isText(['denominator', 'counter', ...scalarReduceTypes], definition) && key !== '') return;
  if (typeof definition === 'object' && definition !== null && key !== '') {
    assertOptions('defineMetrics', definition, { denominator: 'string', reduceType: 'any' }, key);
    const { denominator, reduceType } = definition as Partial<StatDefinition>;
    if (reduceType !== undefined && !isText(tensorReduceTypes, reduceType)) {
      throw noReduceType(key, reduceType);
    }
    if (denominator !== undefined) return;
  }
  throw new ValueError({
    where: 'defineMetrics',
    input: key === '' ? 'definitions' : key,
    expected:
      key === ''
        ? 'keys that are not empty'
        : `'denominator', 'counter', { denominator, reduceType? } or one of ${scalarReduceTypes.map((type) => `'${type}'`).join(', ')}`,
    received: key === '' ? "''" : kindOf(definition),
    remedy:
      "define e.g. { n_valid_tokens: 'denominator', loss: { denominator: 'n_valid_tokens' }, lr: 'last' }",
  });
}

function noReduceType(key: string, reduceType: unknown): ValueError {
  return new ValueError({
    where: 'defineMetrics',
    input: `${key}.reduceType`,
    expected: `one of ${tensorReduceTypes.map((type) => `'${type}'`).join(', ')}`,
    received: kindOf(reduceType),
    remedy: 'leave it out for avg_min_max; plain numbers have no denominator',
  });
}

function assertDenominator(key: string, { denominator }: StatDefinition, all: object): void {
  if (Object.hasOwn(all, denominator) && (all as MetricDefinitions)[denominator] === 'denominator') return;
  throw new ValueError({
    where: 'defineMetrics',
    input: `${key}.denominator`,
    expected: 'the key of a denominator of the same schema',
    received: `'${denominator}'`,
    remedy: `define it: { ${denominator}: 'denominator' }`,
  });
}
