/**
 * Entry of the SIMD module: whatever is exported here can be called from `../instance.ts`.
 *
 * These files are AssemblyScript: TypeScript's syntax, WebAssembly's types. To add a kernel, write its file beside this
 * one, export its functions below, and run `npm run simd` (all other scripts do); their signatures appear in
 * `SimdExports`. What holds for every file here:
 *
 * - Functions take addresses and numbers and return numbers. All memory is the caller's (`../workspace.ts`): no
 *   classes, arrays, strings or StaticArray, which would bring static data; the build refuses that.
 * - Addresses are byte offsets (`usize`, beyond 2 GiB too: cast what comes from JavaScript with `>>> 0`, compare
 *   unsigned). `v128.load` takes any alignment.
 * - A function that is to vanish in its callers has the decorator `@inline` in a block comment on the line of
 *   `function`, as in selection.ts: bare, it is no TypeScript and prettier refuses it. Generics are compiled once per
 *   type.
 * - Constant vectors in a hot loop are best kept in variables, see exponentials.ts.
 */
export {
  absolute,
  add,
  choose,
  divide,
  equal,
  expm1,
  expm1Residual,
  exponential,
  larger,
  less,
  lessEqual,
  log1p,
  logarithm,
  multiply,
  negate,
  notEqual,
  smaller,
  square,
  squareRoot,
  subtract,
  subtractFloat32,
  widenBool,
  widenFloat32,
  widenInt32,
} from './arithmetic.js';
export { foldLogits, prepareLogits } from './logits.js';
export { prepareExponentials } from './exponentials.js';
export { reduceBool, reduceConstant, reduceFloat32, reduceFloat64, reduceInt32 } from './moments.js';
export { findChanges, packBool, packFloat32, packInt32, selectBits } from './packing.js';
export { clearRecords } from './records.js';
export {
  selectBool,
  selectFloat32,
  selectInt32,
  selectedEnd,
  selectionBytes,
  tileElements,
  tileRows,
} from './selection.js';
