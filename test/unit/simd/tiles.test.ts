/** Plans of programs: what is computed when and where, followed step by step. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import {
  type Expression,
  add,
  constant,
  evaluate,
  exp,
  input,
  less,
  multiply,
  select,
  square,
  subtract,
} from '../../../src/kernels/expression.js';
import {
  type InputKind,
  type Place,
  type TilePlan,
  planTiles,
} from '../../../src/kernels/host/moments/tiles.js';
import { compile } from '../../../src/kernels/program.js';
import { runsOf } from '../../support/long.js';

const VALUES: Readonly<Record<string, number>> = { a: 2, b: -3, c: 0.5, row: 7 };

function planOf(
  expressions: readonly Expression[],
  kindOf: (name: string) => InputKind = (name) => (name === 'row' ? 'cell' : 'float32'),
): { readonly plan: TilePlan; readonly outputs: readonly number[] } {
  const { nodes, outputs } = compile(expressions);
  return { plan: planTiles(nodes, new Set(outputs), kindOf), outputs };
}

/** What every delivered node is, computed in the buffers of the plan. */
function follow({ steps, cells }: TilePlan): Map<number, number> {
  const buffers: number[] = [];
  const delivered = new Map<number, number>();
  const valueOf = (place: Place): number => {
    if ('buffer' in place) return buffers[place.buffer]!;
    const content = cells[place.cell]!;
    return typeof content === 'number' ? content : VALUES[content]!;
  };
  for (const step of steps) {
    if (step.kind === 'load') buffers[step.buffer] = VALUES[step.input]!;
    else if (step.kind === 'difference')
      buffers[step.buffer] = VALUES[step.inputs[0]]! - VALUES[step.inputs[1]]!;
    else if (step.kind === 'deliver') {
      delivered.set(step.node, 'input' in step.from ? VALUES[step.from.input]! : valueOf(step.from));
    } else {
      const operands = step.args.map(valueOf);
      const operation: Expression = expressionOf(step.op, operands.length);
      buffers[step.buffer] = evaluate(operation, (name) => operands[Number(name)]!);
    }
  }
  return delivered;
}

/** One operation of inputs that are called 0, 1 and 2. */
function expressionOf(op: string, operands: number): Expression {
  const [x, y, z] = ['0', '1', '2'].map(input) as [Expression, Expression, Expression];
  if (op === 'expm1Residual') return subtract({ kind: 'unary', op: 'expm1', operand: x }, x);
  if (op === 'select') return select(x, y, z);
  return operands === 1
    ? ({ kind: 'unary', op, operand: x } as Expression)
    : ({ kind: 'binary', op, left: x, right: y } as Expression);
}

function count(plan: TilePlan, kind: string): number {
  return plan.steps.filter((step) => step.kind === kind).length;
}

describe('a plan', () => {
  test('delivers inputs where they are', () => {
    const { plan } = planOf([input('a'), input('b')]);
    expect(plan).toEqual({
      steps: [
        { kind: 'deliver', node: 0, from: { input: 'a' } },
        { kind: 'deliver', node: 1, from: { input: 'b' } },
      ],
      buffers: 0,
      cells: [],
    });
  });

  test('subtracts two float32 inputs as they are read', () => {
    const { plan } = planOf([subtract('a', 'b')]);
    expect(plan.steps.map(({ kind }) => kind)).toEqual(['difference', 'deliver']);
    expect(follow(plan)).toEqual(new Map([[2, 5]]));
  });

  test('widens inputs that are subtracted after something else, or are no float32', () => {
    expect(count(planOf([square('a'), subtract('a', 'b')]).plan, 'difference')).toBe(0);
    expect(count(planOf([subtract('a', 'b')], () => 'other').plan, 'difference')).toBe(0);
    expect(count(planOf([subtract('a', 'row')]).plan, 'difference')).toBe(0);
  });

  test('computes and loads once what several channels use', () => {
    const ratio = exp(multiply('a', 'b'));
    const { plan } = planOf([ratio, square(ratio), add(ratio, 'a'), less(ratio, 1)]);
    expect(count(plan, 'load')).toBe(2);
    expect(count(plan, 'compute')).toBe(5);
  });

  test('keeps what is the same everywhere in cells', () => {
    const { plan } = planOf([multiply(add('a', 2), 'row'), input('row'), constant(3)]);
    expect([...plan.cells].sort()).toEqual([2, 3, 'row']);
    expect(count(plan, 'load')).toBe(1);
  });

  test('needs few buffers for many nodes', () => {
    let chain: Expression = add('a', 'b');
    for (let i = 0; i < 50; i++) chain = square(add(chain, i + 1));
    expect(planOf([chain]).plan.buffers).toBe(2);
    const channels = Array.from({ length: 50 }, (_, i) => exp(multiply('a', i + 2)));
    expect(planOf(channels).plan.buffers).toBe(2);
  });
});

test('followed step by step, a plan gives the values of the expressions', () => {
  const leaf = fc.oneof(
    fc.constantFrom(...Object.keys(VALUES)).map(input),
    fc.integer({ min: -3, max: 3 }).map(constant),
  );
  const { tree } = fc.letrec<{ tree: Expression }>((tie) => ({
    tree: fc.oneof(
      { maxDepth: 5, withCrossShrink: true },
      leaf,
      fc.tuple(tie('tree'), tie('tree')).map(([x, y]) => subtract(x, y)),
      fc.tuple(tie('tree'), tie('tree')).map(([x, y]) => multiply(x, y)),
      fc.tuple(tie('tree'), tie('tree'), tie('tree')).map(([x, y, z]) => select(less(x, y), z, y)),
      tie('tree').map(square),
    ),
  }));
  fc.assert(
    fc.property(fc.array(tree, { minLength: 1, maxLength: 5 }), (expressions) => {
      const { plan, outputs } = planOf(expressions);
      const delivered = follow(plan);
      expressions.forEach((expression, i) => {
        const expected = evaluate(expression, (name) => VALUES[name]!);
        expect(delivered.get(outputs[i]!)).toSatisfy((value: number) => Object.is(value + 0, expected + 0));
      });
    }),
    { numRuns: runsOf(300), seed: 1 },
  );
});
