/** What a promise is rejected with, as a value to look at; undefined if it is not. */
export function failureOf(promise: PromiseLike<unknown>): PromiseLike<unknown> {
  return promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
}
