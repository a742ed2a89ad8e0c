/** An error names the function that the user called, whatever is wrong with its tensors. */
import * as tf from '@tensorflow/tfjs-core';
import { describe, expect, test } from 'vitest';
import * as tensortally from '../../../src/index.js';
import { TensortallyError, expression, klPenalty } from '../../../src/index.js';
import { columns } from './batch.js';
import { histogramCalls } from './histogram-calls.js';
import { kernelCalls } from './kernel-calls.js';
import { metricsCalls } from './metrics-calls.js';
import type { Row, Rows } from './row.js';
import { trackerCalls } from './tracker-calls.js';

await tensortally.initBackend('cpu'); // before the rows are looked at, which make tensors

const four = (): tf.Tensor => tf.tensor2d([1, 2, 3, 4], [2, 2]);

/** The kernels, which the table of bad arguments leaves to tests of their own. */
const KERNELS: Rows = {
  maskedMoments: () => ({
    parameters: [four(), four(), {}].map((fits) => ({ fits, takes: [] })),
    call: tensortally.maskedMoments,
  }),
  momentsTables: () => ({
    parameters: [{ x: four() }, four(), {}].map((fits) => ({ fits, takes: [] })),
    call: tensortally.momentsTables,
  }),
  channelMoments: () => ({
    parameters: [{ c: 'x' }, { x: four() }, four(), {}].map((fits) => ({ fits, takes: [] })),
    call: tensortally.channelMoments,
  }),
  channelTables: () => ({
    parameters: [{ c: 'x' }, { x: four() }, four(), {}].map((fits) => ({ fits, takes: [] })),
    call: tensortally.channelTables,
  }),
  'channelTables{masks}': () => ({
    parameters: [{ c: { of: 'x', mask: 'm' } }, { x: four() }, { m: four() }, {}].map((fits) => ({
      fits,
      takes: [],
    })),
    call: tensortally.channelTables,
  }),
  logitsStatistics: () => ({
    parameters: [tf.zeros([2, 2, 3]), tf.zeros([2, 2], 'int32'), { mask: four() }].map((fits) => ({
      fits,
      takes: [],
    })),
    call: tensortally.logitsStatistics,
  }),
  batchFromVerl: () => ({ parameters: [{ fits: columns(), takes: [] }], call: tensortally.batchFromVerl }),
  batchFromAreal: () => ({
    parameters: [
      { fits: { attention_mask: four(), loss_mask: four(), logprobs: four(), versions: four() }, takes: [] },
      { fits: {}, takes: [] },
    ],
    call: tensortally.batchFromAreal,
  }),
};

/** What is given in place of a tensor, by what is wrong with it. */
const WRONG: Readonly<Record<string, () => unknown>> = {
  'another shape': () => tf.zeros([3, 5]),
  'no axis': () => tf.scalar(1),
  'five axes': () => tf.zeros([1, 1, 1, 1, 2]),
  text: () => tf.tensor2d(['a', 'b', 'c', 'd'], [2, 2], 'string'),
  'complex numbers': () => tf.complex(tf.zeros([2, 2]), tf.zeros([2, 2])),
  'what is disposed': () => {
    const tensor = four();
    tensor.dispose();
    return tensor;
  },
  'an array': () => [
    [1, 2],
    [3, 4],
  ],
  nothing: () => undefined,
  null: () => null,
  'an option that there is not': () => ({ noSuchOption: 1 }),
};

/** `fits`, with `wrong` in place of it and of each value in it. */
function spoilt(fits: unknown, wrong: unknown): unknown[] {
  if (fits instanceof tf.Tensor || typeof fits !== 'object' || fits === null || Array.isArray(fits))
    return [wrong];
  if (Object.getPrototypeOf(fits) !== Object.prototype) return [wrong];
  return [wrong, ...Object.keys(fits).map((key) => ({ ...fits, [key]: wrong }))];
}

async function refusalOf({ call }: Row, args: readonly unknown[]): Promise<unknown> {
  try {
    await (call as (...args: readonly unknown[]) => unknown)(...args);
  } catch (error) {
    return error;
  }
  return undefined;
}

const ROWS: Rows = { ...KERNELS, ...kernelCalls, ...histogramCalls, ...metricsCalls, ...trackerCalls };

describe.each(
  Object.entries(ROWS).filter(([key, row]) => {
    const isPlain = key in KERNELS || row().parameters.some(({ fits }) => spoilt(fits, 0).length > 1);
    return isPlain || row().parameters.some(({ fits }) => fits instanceof tf.Tensor);
  }),
)('%s', (key, row) => {
  const called = key.replace(/\{.*/, '');
  const names = [called, called.replace('#', '.'), called.split('#').at(-1)];

  test('is named by what it throws', async () => {
    let refusals = 0;
    for (const [at] of row().parameters.entries()) {
      for (const [what, wrong] of Object.entries(WRONG)) {
        for (const i of spoilt(row().parameters[at]!.fits, undefined).keys()) {
          const fresh = row();
          const args = fresh.parameters.map(({ fits }, j) => (j === at ? spoilt(fits, wrong())[i] : fits));
          const error = await refusalOf(fresh, args);
          if (error === undefined) continue;
          const about = `${key} with ${what} in parameter ${at + 1}`;
          if (!(error instanceof TensortallyError)) throw new Error(about, { cause: error });
          expect(names, about).toContain(error.where);
          refusals++;
        }
      }
    }
    expect(refusals).toBeGreaterThan(0);
  });
});

/** What the compiler uses, on expressions that have been looked at. */
const UNCHECKED = ['operandsOf', 'partsOf'];

test.each(
  Object.entries(expression).filter(([name, of]) => typeof of === 'function' && !UNCHECKED.includes(name)),
)('expression.%s is named for an operand that is none', (name, of) => {
  const call = of as (...operands: unknown[]) => unknown;
  for (const operand of [undefined, null, NaN, '', {}]) {
    let error: unknown;
    try {
      call(...Array<unknown>(call.length).fill(operand));
    } catch (caught) {
      error = caught;
    }
    expect(error).toMatchObject({ where: `expression.${name}` });
  }
});

test('the function that takes an expression is named for one that is none', async () => {
  const wrong = [undefined, NaN, '', { kind: 'unary', op: 'abs' }, { kind: 'constant', value: NaN }];
  for (const operand of [
    ...wrong,
    { kind: 'unary', op: 'cube', operand: expression.input('x') },
  ] as never[]) {
    for (const of of [tensortally.channelMoments, tensortally.channelTables]) {
      const refused = async (): Promise<unknown> => of({ c: operand }, { x: four() });
      await expect(refused()).rejects.toMatchObject({ where: of.name });
    }
  }
  expect(() => klPenalty('', 'x')).toThrow(/^klPenalty: /);
  expect(() => klPenalty('x', NaN)).toThrow(/^klPenalty: /);
});
