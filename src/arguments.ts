/**
 * What every public function refuses of its arguments, whatever they mean: null where options belong, text where a
 * function belongs. Callers without TypeScript reach these, and callers whose types lie.
 */
import { MissingInputError, ValueError } from './errors.js';
import { meantName } from './meant-name.js';
import { PROMISE, isThenable } from './promises.js';

/** What a message calls a value that has no place where it came. Never throws, whatever the value, and never is long. */
export function kindOf(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (typeof value === 'string')
    return value.length > 60 ? `the text '${value.slice(0, 60)}…'` : `the text '${value}'`;
  if (typeof value === 'number') return `the number ${value}`;
  if (typeof value !== 'object') return `a ${typeof value}`;
  try {
    if (Array.isArray(value)) return 'a plain array';
    if (isTensor(value)) return 'a tensor';
    const copy: unknown = (value as { readonly [COPY]?: unknown })[COPY];
    if (copy !== undefined && copy !== OWN_COPY) {
      return `a ${classOf(value) ?? 'result'} of another copy of tensortally (\`npm ls tensortally\` lists them)`;
    }
    if (isThenable(value))
      return value instanceof Promise ? PROMISE : `${PROMISE} (${classOf(value) ?? 'no class'})`;
    return `an object (${classOf(value) ?? 'no class'})`;
  } catch {
    // A proxy or a getter that throws.
    return 'an object (no class)';
  }
}

/**
 * Whether it is a tensor of any copy of tfjs: by what tfjs itself goes by. tfjs is not imported for it, because streams
 * and loggers work without.
 */
function isTensor(value: object): boolean {
  const { data, dataSync, throwIfDisposed } = value as Readonly<Record<string, unknown>>;
  return isThere(data) && isThere(dataSync) && isThere(throwIfDisposed);
}

function isThere(member: unknown): boolean {
  return member !== null && member !== undefined;
}

/** Under it, instances of a class say which copy of the package made them. */
const COPY = Symbol.for('tensortally/copy@1');
const OWN_COPY = Object.freeze({});

/** Lets messages say of instances that another copy of the package made that this is what is wrong with them. */
export function markCopy(type: abstract new (...args: never[]) => object): void {
  Object.defineProperty(type.prototype, COPY, { value: OWN_COPY });
}

function classOf(value: object): string | undefined {
  const { constructor } = value as { constructor?: unknown };
  if (typeof constructor !== 'function') return undefined;
  const name: unknown = constructor.name;
  return typeof name === 'string' ? name.slice(0, 60) : undefined;
}

/** What somebody else's failure says: the message of an error, a text as it is, and what anything else is. */
export function messageOf(thrown: unknown): string {
  const said: unknown = thrown instanceof Error ? thrown.message : thrown;
  return typeof said === 'string' ? said : kindOf(said);
}

/** An object with names of its own; lists, tensors, promises and functions have none. */
function isNamed(value: unknown): value is object {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  // These have parts, but none that an object's names would reach: they would be taken for empty.
  return !(isTensor(value) || value instanceof Map || value instanceof Set || isThenable(value));
}

/**
 * Refuses everything but an object with named parts.
 *
 * @param expected what the object is, for the message, e.g. `a batch`
 * @throws MissingInputError for undefined, ValueError for anything else
 */
export function assertNamed(
  where: string,
  input: string,
  value: unknown,
  { expected, remedy }: { readonly expected: string; readonly remedy: string },
): asserts value is object {
  if (isNamed(value)) return;
  const Refusal = value === undefined ? MissingInputError : ValueError;
  throw new Refusal({ where, input, expected, received: kindOf(value), remedy });
}

/**
 * `assertNamed` for an object whose names are listed: also refuses objects of a class, such as a Date, that keep what they
 * have where nobody can list it. They would be taken for empty.
 *
 * @throws as `assertNamed`
 */
export function assertRecord(
  where: string,
  input: string,
  value: unknown,
  detail: { readonly expected: string; readonly remedy: string },
): asserts value is object {
  assertNamed(where, input, value, detail);
  const prototype: unknown = Object.getPrototypeOf(value);
  // Another realm's Object is no such class.
  const isPlain = prototype === null || Object.getPrototypeOf(prototype) === null;
  if (isPlain || Object.keys(value).length > 0) return;
  throw new ValueError({ where, input, received: kindOf(value), ...detail });
}

/** What an option can be; `any` where a check of its own follows. */
type OptionKind = 'boolean' | 'number' | 'string' | 'function' | 'object' | 'any';

const EXPECTED_OPTION: Readonly<Record<Exclude<OptionKind, 'any'>, string>> = {
  boolean: 'true or false',
  number: 'a number',
  string: 'a text',
  function: 'a function',
  object: 'an object',
};

/**
 * Refuses options that are no object, those among them that are of another kind than they should be, and those that
 * there are not, since a misspelled option would silently leave the default in force. What is undefined is left out;
 * null is not, because a default does not replace it.
 *
 * @param kinds one for every option there is, so that a new option cannot go unchecked
 * @param input what the caller knows the options as
 * @throws ValueError naming the option
 */
export function assertOptions<T extends object>(
  where: string,
  options: T,
  kinds: { readonly [K in keyof Required<T>]: OptionKind },
  input = 'options',
): void {
  if (!isNamed(options)) {
    throw new ValueError({
      where,
      input,
      expected: `an object with ${Object.keys(kinds).join(', ')}`,
      received: kindOf(options),
      remedy: 'leave it out for the defaults',
    });
  }
  const stranger = Object.entries(options).find(
    ([name, value]) => value !== undefined && !Object.hasOwn(kinds, name),
  );
  if (stranger !== undefined) {
    const meant = meantName(stranger[0], Object.keys(kinds));
    throw new ValueError({
      where,
      input: `${input}.${stranger[0]}`,
      expected: `one of the options ${Object.keys(kinds).join(', ')}`,
      received: 'an option that does not exist',
      remedy: `${meant === undefined ? '' : `did you mean ${meant}? `}spell it as one of these, or leave it out`,
    });
  }
  for (const [name, kind] of Object.entries<OptionKind>(kinds)) {
    const value = (options as Readonly<Record<string, unknown>>)[name];
    if (value === undefined || kind === 'any') continue;
    if (kind === 'object' ? isNamed(value) : typeof value === kind) continue;
    throw new ValueError({
      where,
      input: `${input}.${name}`,
      expected: EXPECTED_OPTION[kind],
      received: kindOf(value),
      remedy: 'leave it out for the default',
    });
  }
}

/** @throws MissingInputError for undefined, ValueError for anything else that is no function */
export function assertFunction(where: string, input: string, value: unknown): void {
  if (typeof value === 'function') return;
  const Refusal = value === undefined ? MissingInputError : ValueError;
  const expected = EXPECTED_OPTION.function;
  throw new Refusal({ where, input, expected, received: kindOf(value), remedy: 'pass () => …' });
}

/** Whether a value has a length that a list can have. Nothing is copied: what says a length need not hold as much. */
export function isArrayLike(value: unknown): value is ArrayLike<unknown> {
  if (typeof value !== 'object' || value === null || !('length' in value)) return false;
  return Number.isSafeInteger(value.length) && (value.length as number) >= 0;
}

/**
 * The first place in a list of the caller whose element is no such thing; −1 if all are. Nothing is copied: a list may
 * say any length.
 */
export function strangerAt(list: ArrayLike<unknown>, isExpected: (value: unknown) => boolean): number {
  for (let i = 0; i < list.length; i++) if (!isExpected(list[i])) return i;
  return -1;
}
