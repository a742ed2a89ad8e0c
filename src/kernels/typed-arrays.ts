/** Typed arrays, put together. */

/** All elements of `parts`, in order, in an array of the given type. */
export function joined<A extends Float64Array | Int32Array>(
  Type: new (length: number) => A,
  parts: readonly A[],
): A {
  const all = new Type(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
