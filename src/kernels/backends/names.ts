/** The backends that kernels exist for, best first. */
export const backendNames = ['tensorflow', 'webgpu', 'wasm', 'cpu'] as const;
export type BackendName = (typeof backendNames)[number];
