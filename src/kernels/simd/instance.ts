/** The SIMD module, compiled once per process and instantiated once per memory that it works in. */
import { type SimdExports, moduleBytes } from './module.generated.js';

export type { SimdExports } from './module.generated.js';

/** What the module needs of a `WebAssembly.Memory`. The buffer is another one after every growth. */
export interface WasmMemory {
  readonly buffer: ArrayBuffer;
  /** Adds pages of 64 KiB. */
  grow(pages: number): number;
}

/** The part of the global `WebAssembly` that is used here; Node's types do not declare it. */
interface WebAssemblyApi {
  readonly Memory: new (descriptor: { readonly initial: number }) => WasmMemory;
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Instance: new (
    module: object,
    imports: { readonly env: { readonly memory: WasmMemory } },
  ) => { readonly exports: unknown };
}

const { WebAssembly } = globalThis as unknown as { readonly WebAssembly: WebAssemblyApi };

let compiled: object | undefined;
const instances = new WeakMap<WasmMemory, SimdExports>();

/** The functions of the module, at work in `memory`: the addresses that they take are offsets into its buffer. */
export function simdOn(memory: WasmMemory): SimdExports {
  let simd = instances.get(memory);
  if (simd === undefined) {
    compiled ??= new WebAssembly.Module(Uint8Array.from(atob(moduleBytes), (c) => c.charCodeAt(0)));
    simd = new WebAssembly.Instance(compiled, { env: { memory } }).exports as SimdExports;
    simd.prepareExponentials(0);
    simd.prepareLogits(0);
    instances.set(memory, simd);
  }
  return simd;
}

/** A memory of its own for the module, of `pages` times 64 KiB. */
export function newMemory(pages: number): WasmMemory {
  return new WebAssembly.Memory({ initial: pages });
}
