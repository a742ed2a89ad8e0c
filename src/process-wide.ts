/**
 * What is one per process and not one per copy of this package.
 *
 * A process may load the package twice: a trainer and a library of its own version, or a bundle beside node_modules.
 * What all of them must agree on is kept on `globalThis`, under a symbol that names it and the form of its structure.
 * Copies that know another form have one of their own, so that neither meets what it does not understand.
 */

/**
 * The thing of this process that is called `name`, made by whoever asks first.
 *
 * @param form number of the structure's form; to be raised by every change that an older copy would not understand
 */
export function processWide<T extends object>(name: string, form: number, make: () => T): T {
  const key = Symbol.for(`tensortally/${name}@${form}`);
  const known = (globalThis as Record<symbol, T | undefined>)[key];
  if (known !== undefined) return known;
  const made = make();
  // Not enumerable: tools that list globals, such as test runners that look for leaks, are not to trip over it.
  Object.defineProperty(globalThis, key, { value: made });
  return made;
}

/**
 * Makes `instanceof` hold for instances that another copy of the package made of the same class. Only for classes whose
 * users call their public methods and nothing else: private fields are those of the other copy.
 *
 * @param form as of `processWide`, of the public methods
 */
export function recognizeAcrossCopies(
  type: { readonly prototype: object },
  name: string,
  form: number,
): void {
  const brand = Symbol.for(`tensortally/${name}@${form}`);
  Object.defineProperty(type.prototype, brand, { value: true });
  Object.defineProperty(type, Symbol.hasInstance, {
    value(this: unknown, value: unknown): boolean {
      // A subclass is asked about instances of its own.
      if (this !== type) return Function.prototype[Symbol.hasInstance].call(this as () => void, value);
      return typeof value === 'object' && value !== null && brand in value;
    },
  });
}
