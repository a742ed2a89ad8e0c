/**
 * The scalar expression language: what a channel computes from the inputs at one element.
 *
 * An expression has one meaning, `evaluate` below: float64 arithmetic on the (float32, int32 or bool) inputs. Every
 * backend lowers the same tree to its own code and is tested against that meaning.
 */

/** A function of the named inputs at one element. */
export type Expression =
  | { readonly kind: 'input'; readonly name: string }
  | { readonly kind: 'constant'; readonly value: number }
  | { readonly kind: 'subtract'; readonly left: Expression; readonly right: Expression };

/** The value of the input called `name`. */
export function input(name: string): Expression {
  return { kind: 'input', name };
}

/** The same finite number at every element; `constant(1)` makes a channel that only counts. */
export function constant(value: number): Expression {
  return { kind: 'constant', value };
}

/** left − right. */
export function subtract(left: Expression, right: Expression): Expression {
  return { kind: 'subtract', left, right };
}

/** The meaning of an expression: its float64 value given the values of the inputs. */
export function evaluate(expression: Expression, read: (name: string) => number): number {
  switch (expression.kind) {
    case 'input':
      return read(expression.name);
    case 'constant':
      return expression.value;
    case 'subtract':
      return evaluate(expression.left, read) - evaluate(expression.right, read);
  }
}

/** Names of the inputs that `expression` reads, each once, in order of first use. */
export function inputNames(expression: Expression): string[] {
  switch (expression.kind) {
    case 'input':
      return [expression.name];
    case 'constant':
      return [];
    case 'subtract':
      return [...new Set([...inputNames(expression.left), ...inputNames(expression.right)])];
  }
}
