/** The SIMD module, compiled once per process and instantiated once per memory that it works in. */
import { messageOf } from '../../arguments.js';
import type { ModuleMemory } from './module-memory.js';
import { type SimdExports, moduleBytes } from './module.generated.js';
import { plainOn } from './plain/index.js';

export type { SimdExports } from './module.generated.js';
export type { ModuleMemory } from './module-memory.js';

/** The part of the global `WebAssembly` that is used here; Node's types do not declare it. */
interface WebAssemblyApi {
  readonly Memory: new (descriptor: { readonly initial: number }) => ModuleMemory;
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Instance: new (
    module: object,
    imports: { readonly env: { readonly memory: ModuleMemory } },
  ) => { readonly exports: unknown };
  readonly validate: (bytes: Uint8Array) => boolean;
}

/** Absent under `--jitless`. */
function webAssembly(): WebAssemblyApi | undefined {
  return (globalThis as unknown as { readonly WebAssembly?: WebAssemblyApi }).WebAssembly;
}

/** Why the module cannot run in this process, in the words of an error. */
export interface ModuleObstacle {
  readonly expected: string;
  readonly received: string;
  readonly remedy: string;
  readonly cause?: unknown;
}

let bytes: Uint8Array | undefined;
let compiled: object | undefined;
const instances = new WeakMap<ModuleMemory, SimdExports>();
const plain = new WeakMap<ModuleMemory, SimdExports>();

/** The functions of the module, at work in `memory`: the addresses that they take are offsets into its buffer. */
export function simdOn(memory: ModuleMemory): SimdExports {
  let simd = instances.get(memory);
  if (simd === undefined) {
    const { Module, Instance } = webAssembly()!;
    compiled ??= new Module(decoded());
    simd = new Instance(compiled, { env: { memory } }).exports as SimdExports;
    simd.prepareExponentials(0);
    simd.prepareLogits(0);
    instances.set(memory, simd);
  }
  return simd;
}

/** The same functions as plain loops; as slow as they are, they run wherever JavaScript does. */
export function loopsOn(memory: ModuleMemory): SimdExports {
  let loops = plain.get(memory);
  if (loops === undefined) plain.set(memory, (loops = plainOn(memory)));
  return loops;
}

/** A memory of its own for the module, of `pages` times 64 KiB. */
export function newMemory(pages: number): ModuleMemory {
  return new (webAssembly()!.Memory)({ initial: pages });
}

/** Why WebAssembly with SIMD is missing here; undefined where it is there. Asks for no memory. */
export function engineObstacle(): ModuleObstacle | undefined {
  const api = webAssembly();
  if (api === undefined) {
    return {
      expected: 'a Node with WebAssembly',
      received: 'one without: it was started with --jitless or --no-expose-wasm',
      remedy: 'start node without that flag (see also NODE_OPTIONS)',
    };
  }
  if (api.validate(decoded())) return undefined;
  return {
    expected: 'WebAssembly with SIMD',
    received: 'an engine or a processor without it',
    remedy: 'start node without flags that switch processor features off, on a processor with SSE4.1 or NEON',
  };
}

/** What an error of WebAssembly says, where `engineObstacle` finds none: that memory is missing. */
export function memoryObstacle(cause: unknown): ModuleObstacle {
  const limit = process.execArgv.find((flag) => /^--wasm[-_]max[-_]mem/.test(flag));
  return {
    expected: 'memory for WebAssembly',
    received: messageOf(cause),
    remedy:
      limit === undefined
        ? 'start node with --disable-wasm-trap-handler, which reserves no 10 GiB of addresses per memory, or raise the limit of `ulimit -v`'
        : `start node without ${limit}`,
    cause,
  };
}

function decoded(): Uint8Array {
  return (bytes ??= Uint8Array.from(atob(moduleBytes), (c) => c.charCodeAt(0)));
}
