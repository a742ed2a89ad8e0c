/** Gauss' rule on [0, 1]: with q nodes it integrates polynomials of degree 2q − 1 exactly. */

/** Nodes in (0, 1) and their positive weights, which add up to 1. */
export interface Rule {
  readonly nodes: Float64Array;
  readonly weights: Float64Array;
}

/** Rules that were asked for; there are few, and they are small. */
const rules = new Map<number, Rule>();

/** The rule with `size` nodes, 1 or more. */
export function gaussLegendre(size: number): Rule {
  let rule = rules.get(size);
  if (rule === undefined) {
    rule = makeRule(size);
    rules.set(size, rule);
  }
  return rule;
}

/** Newton's method on the Legendre polynomial, from Tricomi's estimate of its zeros. */
function makeRule(size: number): Rule {
  const nodes = new Float64Array(size);
  const weights = new Float64Array(size);
  for (let i = 0; i < size; i++) {
    let x = Math.cos((Math.PI * (i + 0.75)) / (size + 0.5));
    let slope = 1;
    // Converges quadratically: four steps from a good start reach the last digit, the others guard the start.
    for (let step = 0; step < 8; step++) {
      const [value, derivative] = legendre(size, x);
      x -= value / derivative;
      slope = derivative;
    }
    nodes[i] = (1 + x) / 2;
    weights[i] = 1 / ((1 - x * x) * slope * slope);
  }
  return { nodes, weights };
}

/** The Legendre polynomial of this degree at x in (−1, 1), and its derivative. */
function legendre(degree: number, x: number): [value: number, derivative: number] {
  let before = 1;
  let value = x;
  for (let k = 2; k <= degree; k++) {
    [before, value] = [value, ((2 * k - 1) * x * value - (k - 1) * before) / k];
  }
  return [value, (degree * (before - x * value)) / (1 - x * x)];
}
