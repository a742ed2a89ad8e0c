/**
 * The numerical contract of logits statistics, as assertions, and how tests run a case on the active backend.
 *
 * | quantity                 | bound against the float64 reference of the same inputs |
 * |--------------------------|---------------------------------------------------------|
 * | log-probability, entropy | 4e-6 · (1 + |value|)                                    |
 * | Σπ², largest probability | relative 4e-6                                           |
 *
 * Nothing here is tuned to a backend.
 */

import * as tf from '@tensorflow/tfjs-core';
import { expect } from 'vitest';

import { logitsStatistics } from '../../src/kernels/index.js';
import { referenceLogits } from '../../src/kernels/logits/reference.js';
import { type PerStatistic, perStatistic, statisticNames } from '../../src/kernels/logits/request.js';
import { expectNoLeaks } from './leaks.js';
import { normal, type Random } from './random.js';
import { deviceTensor } from './tensors.js';

const REL = 4e-6;

/** Logits, row-major, and a label for each row. */
export interface LogitsCase {
  /** `[..., V]` */
  readonly shape: readonly number[];
  readonly logits: ArrayLike<number>;
  readonly labels: ArrayLike<number>;
  readonly temperature?: number;
  readonly labelDtype?: 'int32' | 'float32';
}

/** Rows of normal logits, every label somewhere in its row. */
export function normalCase(
  shape: readonly number[],
  random: Random,
  { mean = 0, std = 3, temperature = 1 } = {},
): LogitsCase {
  const cols = shape.at(-1)!;
  const size = shape.reduce((a, b) => a * b, 1);
  return {
    shape,
    logits: Float32Array.from({ length: size }, () => normal(random, mean, std)),
    labels: Int32Array.from({ length: size / cols }, () => Math.floor(random() * cols)),
    temperature,
  };
}

/** The float64 reference of a case. */
export function referenceOf({ shape, logits, labels, temperature }: LogitsCase): PerStatistic<Float64Array> {
  return referenceLogits(logits, labels, labels.length, shape.at(-1)!, temperature);
}

/** Tensors of a case, on the device. */
export function tensorsOf({ shape, logits, labels, labelDtype = 'int32' }: LogitsCase): tf.Tensor[] {
  return [
    deviceTensor({ shape, values: logits }),
    deviceTensor({ shape: shape.slice(0, -1), values: labels, dtype: labelDtype }),
  ];
}

/** The numbers of the four results, which are disposed; asserts that they have the shape of the labels. */
export async function numbersOf(
  statistics: PerStatistic<tf.Tensor>,
  shape: readonly number[],
): Promise<PerStatistic<Float32Array>> {
  expect(Object.keys(statistics)).toEqual([...statisticNames]);
  const numbers = await Promise.all(
    statisticNames.map(async (name) => {
      const tensor = statistics[name];
      expect(tensor.dtype).toBe('float32');
      expect(tensor.shape).toEqual(shape);
      const data = Float32Array.from(await tensor.data<'float32'>());
      tensor.dispose();
      return data;
    }),
  );
  return perStatistic((name) => numbers[statisticNames.indexOf(name)]!);
}

/** Runs a case; asserts that nothing stays alive. */
export async function statisticsOf(golden: LogitsCase): Promise<PerStatistic<Float32Array>> {
  return expectNoLeaks(async () => {
    const [logits, labels] = tensorsOf(golden);
    const { temperature } = golden;
    const statistics = logitsStatistics(logits!, labels!, temperature === undefined ? {} : { temperature });
    tf.dispose([logits!, labels!]);
    return numbersOf({ ...statistics }, golden.shape.slice(0, -1));
  });
}

/** Asserts that `actual` meets the contract. Results are float32, so what is beyond float32 is infinite there, too. */
export function expectLogits(
  actual: PerStatistic<ArrayLike<number>>,
  reference: PerStatistic<ArrayLike<number>>,
  where: string,
): void {
  for (const name of statisticNames) {
    const isLog = name === 'logProbs' || name === 'entropy';
    const wanted = Float32Array.from(reference[name]);
    expect(actual[name], `${where}: ${name}`).toBeCloseToReference(wanted, {
      abs: isLog ? REL : 0,
      rel: REL,
    });
  }
}

/** Runs a case against its reference. */
export async function expectReference(golden: LogitsCase, where: string): Promise<void> {
  expectLogits(await statisticsOf(golden), referenceOf(golden), where);
}
