/**
 * Programs as WGSL: one function of the inputs at four elements, in which every node is one line.
 *
 * It computes in float32, so it follows the float64 meaning as far as no intermediate result cancels or exceeds
 * 3.4e38. NaN and infinities come out as float64 has them, see wgsl-functions.ts.
 */
import { type Operation, type ProgramNode, argsOf } from '../program.js';
import { type WgslFunction, functionsText } from './wgsl-functions.js';

/** Types of the elements that a shader reads; bool tensors are int32 on the GPU. */
export type WgslType = 'f32' | 'i32';

export interface LoweredProgram {
  /**
   * Declares `fn evaluate(…) -> Values`, which takes `vec4`s of the inputs in the order of `inputs` and returns one
   * member `v0`, `v1`, … of type `vec4<f32>` per wanted node.
   */
  readonly text: string;
  /** Names of the inputs that the wanted nodes need. */
  readonly inputs: readonly string[];
}

interface Formula {
  readonly uses?: readonly WgslFunction[];
  readonly of: (a: string, b: string, c: string) => string;
}

const BITS = (x: string): string => `bitcast<vec4<u32>>(${x})`;
const compared = (sign: string): Formula => ({
  uses: ['ordered4'],
  of: (a, b) => `vec4<f32>((${a} ${sign} ${b}) & ordered4(${a}, ${b}))`,
});
const calling = (name: WgslFunction): Formula => ({
  uses: [name],
  of: (a, b) => `${name}(${b === '' ? a : `${a}, ${b}`})`,
});
const hiding = (sign: string): Formula => ({ uses: ['hidden'], of: (a, b) => `${a} ${sign} hidden(${b})` });

const FORMULAS: Readonly<Record<Operation, Formula>> = {
  negate: { of: (a) => `bitcast<vec4<f32>>(${BITS(a)} ^ vec4<u32>(0x80000000u))` },
  abs: { of: (a) => `bitcast<vec4<f32>>(${BITS(a)} & vec4<u32>(0x7fffffffu))` },
  square: { of: (a) => `${a} * ${a}` },
  sqrt: calling('sqrt4'),
  exp: calling('exp4'),
  expm1: calling('expm14'),
  expm1Residual: calling('expm1Residual4'),
  log: calling('log4'),
  log1p: calling('log1p4'),
  add: hiding('+'),
  subtract: hiding('-'),
  multiply: hiding('*'),
  divide: calling('divide4'),
  min: calling('min4'),
  max: calling('max4'),
  less: compared('<'),
  lessEqual: compared('<='),
  greater: compared('>'),
  greaterEqual: compared('>='),
  equal: compared('=='),
  notEqual: { uses: ['ordered4'], of: (a, b) => `vec4<f32>((${a} != ${b}) | !ordered4(${a}, ${b}))` },
  select: { of: (a, b, c) => `select(${c}, ${b}, (${BITS(a)} & vec4<u32>(0x7fffffffu)) != vec4<u32>(0u))` },
};

/**
 * Lowers the `wanted` ones of `nodes` and what they need.
 *
 * @param typeOf the type of an input's elements; int32 is converted with one rounding
 */
export function lowerToWgsl(
  nodes: readonly ProgramNode[],
  wanted: readonly number[],
  typeOf: (name: string) => WgslType,
): LoweredProgram {
  const used = new Set(wanted);
  for (let i = nodes.length - 1; i >= 0; i--) {
    if (used.has(i)) for (const arg of argsOf(nodes[i]!)) used.add(arg);
  }
  const inputs: string[] = [];
  const functions = new Set<WgslFunction>();
  const lines = nodes.flatMap((node, i) => {
    if (!used.has(i)) return [];
    if (node.op === 'input') return `let n${i} = vec4<f32>(i${inputs.push(node.name) - 1});`;
    if (node.op === 'constant') return `let n${i} = vec4<f32>(${constantText(node.value)});`;
    const { uses = [], of } = FORMULAS[node.op];
    for (const name of uses) functions.add(name);
    const [a = '', b = '', c = ''] = node.args.map((arg) => `n${arg}`);
    return `let n${i} = ${of(a, b, c)};`;
  });
  const parameters = inputs.map((name, i) => `i${i}: vec4<${typeOf(name)}>`);
  return {
    inputs,
    text: `${functionsText(functions)}
struct Values { ${wanted.map((_, i) => `v${i}: vec4<f32>`).join(', ')} };
fn evaluate(${parameters.join(', ')}) -> Values {
${lines.map((line) => `  ${line}`).join('\n')}
  return Values(${wanted.map((i) => `n${i}`).join(', ')});
}`,
  };
}

/** The float32 nearest to a number, by its bits; numbers beyond the largest one are infinite. */
function constantText(value: number): string {
  const nearest = Math.fround(value);
  if (Number.isNaN(nearest)) return 'bitcast<f32>(uniforms.nanBits)';
  if (!Number.isFinite(nearest)) {
    return nearest > 0
      ? 'bitcast<f32>(uniforms.infinityBits)'
      : 'bitcast<f32>(uniforms.infinityBits | 0x80000000u)';
  }
  // A zero that the compiler cannot know: it may take x + 0 for x, which is not so for −0.
  if (nearest === 0) return `bitcast<f32>(uniforms.noBits${Object.is(nearest, -0) ? ' | 0x80000000u' : ''})`;
  // Not a decimal: what a compiler makes of one, of −0 above all, is its own affair.
  const [bits] = new Uint32Array(Float32Array.of(nearest).buffer);
  return `bitcast<f32>(0x${bits!.toString(16)}u)`;
}
