/**
 * The WGSL of the masked-moments pass, generated for the channels, masks and views of a request.
 *
 * The work is cut into *units*, one chunk of one row each, shared by a number of lanes (see webgpu-tree.ts). Each lane
 * strides over the chunk in tiles of eight elements: masks first, then, unless none of them selects, the inputs, each
 * once, then the program once, then every channel takes its tile. Sizes are uniforms, so one pipeline serves all
 * shapes that are read in the same way.
 */
import type { ChannelRequest } from '../../moments/request.js';
import type { ProgramNode } from '../../program.js';
import { SPECIAL_UNIFORMS } from '../wgsl-functions.js';
import { type WgslType, lowerToWgsl } from '../wgsl.js';
import { KINDS, TILE, accumulatorText } from './accumulator.js';
import { type Team, directivesText, isLooped, mainText } from './tree.js';

const QUADS = [0, 1] as const;

/** How a shader reads an input or a mask. */
export interface ViewShape {
  /** Which of the buffers it is in. */
  readonly buffer: number;
  readonly step: 0 | 1;
}

/** A buffer that a shader reads. */
export interface BufferShape {
  readonly type: WgslType;
  /** Whether it is read as vectors of four, since every view of it begins and strides by multiples of four. */
  readonly isVector: boolean;
  /** Whether the elements are the bits of words, in a word four at a time if they are vectors. */
  readonly isPacked: boolean;
}

/** What the text of a shader depends on, and nothing else. */
export interface PassShape {
  readonly nodes: readonly ProgramNode[];
  readonly channels: readonly ChannelRequest[];
  readonly inputs: readonly (ViewShape & { readonly name: string })[];
  readonly masks: readonly ViewShape[];
  readonly buffers: readonly BufferShape[];
  readonly team: Team;
}

/** The sizes of a pass, which are uniforms. */
export interface PassSizes {
  /** rows · chunks */
  readonly units: number;
  readonly cols: number;
  /** Units per row. */
  readonly chunks: number;
  readonly chunkLength: number;
  /** Stride and offset of every input, then of every mask. */
  readonly views: readonly { readonly stride: number; readonly offset: number }[];
}

export function passUniforms({ units, cols, chunks, chunkLength, views }: PassSizes): Uint32Array {
  return Uint32Array.from([
    ...[units, cols, chunks, chunkLength],
    ...[...Object.values(SPECIAL_UNIFORMS), 0],
    ...views.flatMap(({ stride, offset }) => [stride, offset, 0, 0]),
  ]);
}

/** The type in which the values of a node are reduced: integer inputs stay integers so that extremes are exact. */
export function nodeType({ nodes, inputs, buffers }: PassShape, node: number): WgslType {
  const { op, ...rest } = nodes[node]!;
  if (op !== 'input') return 'f32';
  const { name } = rest as { name: string };
  return buffers[inputs.find((view) => view.name === name)!.buffer]!.type;
}

/** The shader of a pass. It binds the records, the buffers in order, and the uniforms. */
export function passText(shape: PassShape): string {
  const { channels, inputs, masks, buffers, nodes, team } = shape;
  const computed = [...new Set(channels.map(({ node }) => node))].filter(
    (node) => nodes[node]!.op !== 'input',
  );
  const typeOf = (name: string): WgslType => buffers[inputs.find((view) => view.name === name)!.buffer]!.type;
  const lowered = computed.length === 0 ? undefined : lowerToWgsl(nodes, computed, typeOf);
  const kinds = channels.map(({ node }) => nodeType(shape, node));
  const views = [...inputs, ...masks];
  const reader = new Reader(shape);
  const named = new Map(inputs.map(({ name }, i) => [name, i]));

  /** The values of a node in one quad of the tile. */
  const valueOf = (node: number, q: number): string => {
    const { op, ...rest } = nodes[node]!;
    if (op !== 'input') return `values${q}.v${computed.indexOf(node)}`;
    return `x${named.get((rest as { name: string }).name)!}_${q}`;
  };
  const selected = (mask: number | undefined, q: number): string =>
    mask === undefined ? `in${q}` : `m${mask}_${q}`;
  /** Values, then selections, of the two quads of a channel. */
  const tileOf = (c: number): string[] => {
    const { node, mask } = channels[c]!;
    return [...QUADS.map((q) => valueOf(node, q)), ...QUADS.map((q) => selected(mask, q))];
  };
  const isSparse = channels.every(({ mask }) => mask !== undefined);
  const body = `
  let row = select(0u, unit / uniforms.chunks, live);
  let first = (unit % uniforms.chunks) * uniforms.chunkLength;
  let last = select(first, min(first + uniforms.chunkLength, uniforms.cols), live);
${views.map((_, v) => `  let base${v} = row * uniforms.views[${v}].x + uniforms.views[${v}].y;`).join('\n')}
${inputs.map((view, v) => (view.step === 0 ? `  let row${v} = ${reader.perRow(v)};` : '')).join('\n')}
${masks.map(({ step }, m) => (step === 0 ? `  let row${inputs.length + m} = ${reader.perRow(inputs.length + m)};` : '')).join('\n')}
${isLooped(team) ? `  var accs: array<Moments, ${kinds.length}>;` : ''}
${kinds.map((kind, c) => `  ${isLooped(team) ? `accs[${c}]` : `var acc${c}`} = empty(${KINDS[kind]}u);`).join('\n')}
  for (var start = first; start < last; start += LANES * ${TILE}u) {
${QUADS.map((q) => reader.place(q)).join('\n')}
${masks.flatMap((_, m) => QUADS.map((q) => `    let m${m}_${q} = in${q} & ${reader.selects(inputs.length + m, q)};`)).join('\n')}
${isSparse ? `    if (!any(${masks.flatMap((_, m) => QUADS.map((q) => `m${m}_${q}`)).join(' | ')})) { continue; }` : ''}
${inputs.flatMap((_, v) => QUADS.map((q) => `    let x${v}_${q} = ${reader.values(v, q)};`)).join('\n')}
${
  lowered === undefined
    ? ''
    : QUADS.map(
        (q) =>
          `    let values${q} = evaluate(${lowered.inputs.map((name) => `x${named.get(name)!}_${q}`).join(', ')});`,
      ).join('\n')
}
${isLooped(team) ? loopedText(kinds, tileOf) : kinds.map((kind, c) => `    add_${kind}(&acc${c}, ${tileOf(c).join(', ')});`).join('\n')}
  }`;
  return [
    directivesText(team),
    accumulatorText([...new Set(kinds)]),
    `
struct Uniforms {
  units: u32, cols: u32, chunks: u32, chunkLength: u32,
  ${Object.keys(SPECIAL_UNIFORMS)
    .map((name) => `${name}: u32,`)
    .join(' ')}
  views: array<vec4<u32>, ${views.length}>,
};
@group(0) @binding(0) var<storage, read_write> records: array<Moments>;
${buffers
  .map(
    ({ type, isVector, isPacked }, b) =>
      `@group(0) @binding(${b + 1}) var<storage, read> buffer${b}: array<${isPacked ? 'u32' : isVector ? `vec4<${type}>` : type}>;`,
  )
  .join('\n')}
${buffers.map(({ isPacked }, b) => (isPacked ? bitsText(b) : '')).join('')}
@group(0) @binding(${buffers.length + 1}) var<uniform> uniforms: Uniforms;`,
    lowered?.text ?? '',
    mainText(team, body),
  ].join('\n');
}

/** Four elements of the packed buffer `b`: neighbours that begin at a multiple of four, or any. 1 where it selects. */
function bitsText(b: number): string {
  const words = ['x', 'y', 'z', 'w'].map((i) => `buffer${b}[at.${i} >> 5u]`);
  return `
fn quadOf${b}(at: u32) -> vec4<u32> {
  return (vec4<u32>(buffer${b}[at >> 5u] >> (at & 31u)) >> vec4<u32>(0u, 1u, 2u, 3u)) & vec4<u32>(1u);
}
fn bitsOf${b}(at: vec4<u32>) -> vec4<u32> {
  return (vec4<u32>(${words.join(', ')}) >> (at & vec4<u32>(31u))) & vec4<u32>(1u);
}`;
}

/** Lets every channel take its tile, one loop for each type of element. */
function loopedText(kinds: readonly WgslType[], tileOf: (c: number) => string[]): string {
  const names = ['v0', 'v1', 'in0_', 'in1_'] as const;
  return [...new Set(kinds)]
    .map((kind) => {
      const own = kinds.flatMap((other, c) => (other === kind ? [c] : []));
      const cases = own.map((c) => {
        const tile = tileOf(c).map((value, i) => `${names[i]!} = ${value};`);
        return `        case ${c}u: { ${tile.join(' ')} }`;
      });
      return `
    for (var c = ${own[0]!}u; c <= ${own.at(-1)!}u; c++) {
      var v0: vec4<${kind}>;
      var v1: vec4<${kind}>;
      var in0_: vec4<bool>;
      var in1_: vec4<bool>;
      switch (c) {
${cases.join('\n')}
        default: { continue; }
      }
      var acc = accs[c];
      add_${kind}(&acc, v0, v1, in0_, in1_);
      accs[c] = acc;
    }`;
    })
    .join('\n');
}

/** How the elements of a tile are found in the buffers. */
class Reader {
  readonly #views: readonly ViewShape[];
  readonly #buffers: readonly BufferShape[];
  /**
   * With vectors the four elements of a quad are neighbours and rows end with a whole quad. Otherwise the elements
   * of neighbouring lanes are neighbours, so that they are still read together.
   */
  readonly #areNeighbours: boolean;

  constructor({ inputs, masks, buffers }: PassShape) {
    this.#views = [...inputs, ...masks];
    this.#buffers = buffers;
    this.#areNeighbours = buffers.some(({ isVector }) => isVector);
  }

  /** Declares where quad `q` is, `at`, whether its elements exist, `in`, and a place that does, `near`. */
  place(q: number): string {
    if (this.#areNeighbours) {
      return `    let at${q} = start + 4u * (${q}u * LANES + lane);
    let in${q} = vec4<bool>(at${q} < last);
    let near${q} = min(at${q}, last - 4u);`;
    }
    return `    let at${q} = start + lane + vec4<u32>(${[0, 1, 2, 3].map((i) => `${4 * q + i}u`).join(', ')}) * LANES;
    let in${q} = at${q} < vec4<u32>(last);
    let near${q} = min(at${q}, vec4<u32>(last - 1u));`;
  }

  /** The one value of view `v` in this row, four times. */
  perRow(v: number): string {
    const { buffer } = this.#views[v]!;
    const { type, isPacked } = this.#bufferOf(v);
    return isPacked ? `bitsOf${buffer}(vec4<u32>(base${v}))` : `vec4<${type}>(buffer${buffer}[base${v}])`;
  }

  /** The elements of view `v` in quad `q`. */
  values(v: number, q: number): string {
    const { buffer, step } = this.#views[v]!;
    const { type, isVector, isPacked } = this.#bufferOf(v);
    if (step === 0) return `row${v}`;
    if (isPacked && isVector) return `quadOf${buffer}(base${v} + near${q})`;
    if (isPacked && this.#areNeighbours) {
      return `bitsOf${buffer}(vec4<u32>(base${v} + near${q}) + vec4<u32>(0u, 1u, 2u, 3u))`;
    }
    if (isPacked) return `bitsOf${buffer}(base${v} + near${q})`;
    if (isVector) return `buffer${buffer}[(base${v} + near${q}) >> 2u]`;
    const places = this.#areNeighbours
      ? [0, 1, 2, 3].map((i) => `near${q} + ${i}u`)
      : ['x', 'y', 'z', 'w'].map((i) => `near${q}.${i}`);
    return `vec4<${type}>(${places.map((place) => `buffer${buffer}[base${v} + ${place}]`).join(', ')})`;
  }

  /** Whether the elements of a mask select. */
  selects(v: number, q: number): string {
    return `((bitcast<vec4<u32>>(${this.values(v, q)}) & vec4<u32>(${
      this.#bufferOf(v).type === 'f32' ? '0x7fffffffu' : '0xffffffffu'
    })) != vec4<u32>(0u))`;
  }

  #bufferOf(v: number): BufferShape {
    return this.#buffers[this.#views[v]!.buffer]!;
  }
}

/** The shader that merges up to `fan` neighbouring records of a row into one, to keep the read-back small. */
export function joinRecordsText(team: Team): string {
  return [
    directivesText(team),
    accumulatorText(['f32', 'i32']),
    `
struct Uniforms { units: u32, parts: u32, chunks: u32, fan: u32, noBits: u32 };
@group(0) @binding(0) var<storage, read_write> records: array<Moments>;
@group(0) @binding(1) var<storage, read> chunks: array<Moments>;
@group(0) @binding(2) var<uniform> uniforms: Uniforms;`,
    mainText(
      team,
      `
  let first = (unit / uniforms.parts) * uniforms.chunks;
  let begin = (unit % uniforms.parts) * uniforms.fan;
  let end = select(begin, min(begin + uniforms.fan, uniforms.chunks), live);
  var acc0 = empty(0u);
  for (var i = begin + lane; i < end; i += LANES) { acc0 = merge(acc0, chunks[first + i]); }`,
    ),
  ].join('\n');
}
