/** tensortally: everything that its parts make public. */
export * from './errors.js';
export * from './kernels/index.js';
export * from './metrics/index.js';
export * from './tracker/index.js';
