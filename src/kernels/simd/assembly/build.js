/**
 * Compiles the AssemblyScript sources beside this file to `../module.generated.ts`: `npm run simd`.
 *
 * The output carries the hash of everything that it was made from, so that every script can call this first and pay
 * for it only when something changed. The module lives in memories that other code owns (the heap of a backend, for
 * one), so a module that brings data of its own, or imports anything but a memory, is refused.
 */
import { Buffer } from 'node:buffer';
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import process from 'node:process';

const FOLDER = import.meta.dirname;
const OUTPUT = path.join(FOLDER, '..', 'module.generated.ts');
const FLAGS = [
  ...['-O3', '--noAssert', '--enable', 'simd'],
  ...['--runtime', 'stub', '--importMemory', '--noExportMemory', '--bindings', 'raw'],
];

/** Sections of a WebAssembly binary that act when it is instantiated. */
const START_SECTION = 8;
const DATA_SECTION = 11;

const { WebAssembly } = globalThis;

const fingerprint = fingerprintOf([
  import.meta.filename,
  createRequire(import.meta.url).resolve('assemblyscript/package.json'),
  ...readdirSync(FOLDER)
    .filter((file) => file.endsWith('.ts'))
    .sort()
    .map((file) => path.join(FOLDER, file)),
]);
if (!isUpToDate()) await build();

function fingerprintOf(files) {
  const hash = createHash('sha256');
  for (const file of files) hash.update(`${path.basename(file)}\n`).update(readFileSync(file));
  return hash.digest('hex');
}

function isUpToDate() {
  try {
    return readFileSync(OUTPUT, 'utf8').includes(fingerprint);
  } catch (error) {
    if (error.code === 'ENOENT') return false;
    throw error;
  }
}

async function build() {
  // Loaded late: the compiler takes a second that an up-to-date module need not pay.
  const { default: asc } = await import('assemblyscript/asc');
  const files = new Map();
  const { error, stderr } = await asc.main(['index.ts', '--outFile', 'module.wasm', ...FLAGS], {
    // Sources import each other as `./name.js`, like every module here; the compiler looks for `./name.js.ts`.
    readFile: (name) => readSource(name.replace(/\.js\.ts$/, '.ts')),
    writeFile: (name, contents) => files.set(path.basename(name), contents),
    listFiles: () => [],
  });
  // Warnings too: the compiler only warns of conversions that lose bits.
  const complaints = stderr.toString();
  if (error || complaints !== '') {
    process.stderr.write(`${complaints}${error?.message ?? 'warnings are errors here'}\n`);
    process.exitCode = 1;
    return;
  }
  const bytes = files.get('module.wasm');
  assertGuest(bytes);
  const text = generated(bytes, signaturesIn(files.get('module.d.ts')));
  // Replaced in one step: two scripts may build at the same time.
  const draft = path.join(path.dirname(OUTPUT), `${process.pid}.generated.ts`);
  writeFileSync(draft, text);
  renameSync(draft, OUTPUT);
}

function readSource(name) {
  try {
    // Decorators of functions are no TypeScript, and prettier stumbles over them: sources have them in a comment.
    return readFileSync(path.resolve(FOLDER, name), 'utf8').replace(/^\/\* (@\w+) \*\/ /gm, '$1 ');
  } catch (error) {
    // The compiler tries several places for one import.
    if (error.code === 'ENOENT') return null;
    throw error;
  }
}

/** Refuses a module that would write to a memory before it is called. */
function assertGuest(bytes) {
  const module = new WebAssembly.Module(bytes);
  const imports = WebAssembly.Module.imports(module).map(({ module, name }) => `${module}.${name}`);
  if (imports.join() !== 'env.memory') throw new Error(`the module imports ${imports.join(', ')}`);
  const brought = sectionsOf(bytes).filter((id) => id === START_SECTION || id === DATA_SECTION);
  if (brought.length > 0) throw new Error('the module has static data or a start function');
}

/** Identifiers of the sections of a WebAssembly binary. */
function sectionsOf(bytes) {
  const found = [];
  for (let at = 8; at < bytes.length;) {
    found.push(bytes[at++]);
    let size = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = bytes[at++];
      size |= (byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    at += size;
  }
  return found;
}

/** The exported functions as members of an interface, from the declarations that the compiler writes. */
function signaturesIn(declarations) {
  return [...declarations.matchAll(/export function (\w+)\((.*)\): (\w+);/g)].map(
    ([, name, parameters, result]) => {
      if (/boolean|bigint/.test(parameters + result)) throw new Error(`${name}: pass numbers in and out`);
      return `  readonly ${name}: (${parameters}) => ${result};`;
    },
  );
}

function generated(bytes, signatures) {
  return [
    '/**',
    ' * Generated from the sources in assembly/ by assembly/build.js; not to be edited.',
    ' *',
    ` * Fingerprint: ${fingerprint}`,
    ' */',
    '',
    '/** What the module exports. Parameters are addresses, counts and numbers, as its sources say. */',
    'export interface SimdExports {',
    ...signatures,
    '}',
    '',
    '/** The compiled module, base64: text survives every bundler and needs no file at run time. */',
    'export const moduleBytes: string =',
    `  '${Buffer.from(bytes).toString('base64')}';`,
    '',
  ].join('\n');
}
