/** Programs as WGSL text: what is computed how often. What it computes is tested on a device, in wgsl.webgpu. */
import { describe, expect, test } from 'vitest';

import {
  type Operand,
  add,
  constant,
  exp,
  log,
  multiply,
  subtract,
} from '../../../src/kernels/expression.js';
import { expressionOf } from '../../../src/kernels/expression.js';
import { lowerToWgsl } from '../../../src/kernels/webgpu/wgsl.js';
import { functionsText } from '../../../src/kernels/webgpu/wgsl-functions.js';
import { compile } from '../../../src/kernels/program.js';

function lowered(...expressions: Operand[]): ReturnType<typeof lowerToWgsl> {
  const { nodes, outputs } = compile(expressions.map((operand) => expressionOf(operand)));
  return lowerToWgsl(nodes, outputs, (name) => (name === 'count' ? 'i32' : 'f32'));
}

const occurrences = (text: string, part: string): number => text.split(part).length - 1;

describe('lowerToWgsl', () => {
  test('computes what channels share once', () => {
    const ratio = exp(subtract('a', 'b'));
    const { text } = lowered(ratio, multiply(ratio, 'c'), add(ratio, 1));
    const body = text.slice(text.indexOf('fn evaluate'));
    expect(occurrences(body, 'exp4(')).toBe(1);
    expect(occurrences(body, '- hidden(')).toBe(1);
    expect(occurrences(text, 'fn exp4(')).toBe(1);
  });

  test('takes only the inputs that the wanted nodes need, in their types', () => {
    const { nodes, outputs } = compile([expressionOf('unused'), add('count', 'x')]);
    const { inputs, text } = lowerToWgsl(nodes, outputs.slice(1), (name) =>
      name === 'count' ? 'i32' : 'f32',
    );
    expect(inputs).toEqual(['count', 'x']);
    expect(text).toContain('fn evaluate(i0: vec4<i32>, i1: vec4<f32>) -> Values');
  });

  test('writes constants by the bits of the nearest float32', () => {
    expect(lowered(add('x', 0.1)).text).toContain('bitcast<f32>(0x3dcccccdu)');
    expect(lowered(multiply('x', constant(-1e300))).text).toContain('uniforms.infinityBits | 0x80000000u');
  });

  test('brings the functions that it calls, with what they need, and no others', () => {
    const { text } = lowered(log('x'));
    for (const name of ['log4', 'logOf4', 'nan4']) expect(occurrences(text, `fn ${name}(`)).toBe(1);
    expect(text).not.toContain('fn exp4(');
  });

  test('never uses the built-in exponential or logarithm, which are too coarse', () => {
    const all = functionsText(['exp4', 'expm14', 'expm1Residual4', 'log4', 'log1p4', 'divide4', 'sqrt4']);
    expect(all).not.toMatch(/\b(exp|exp2|log|log2|pow)\(/);
  });
});
