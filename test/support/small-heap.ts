/**
 * Runs a module of TypeScript in a process of its own with a small heap, for tests of what refusing costs. Not a test.
 *
 * What the module prints last is its answer, as JSON. It is bundled first: Node reads no TypeScript.
 */
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { build } from 'vite';

/** Inside of the package, so that what is not bundled is found. */
const FOLDER = fileURLToPath(new URL('../../node_modules/.cache', import.meta.url));

/** @param megabytes of the heap: a process that needs more ends with an error */
export async function runInSmallHeap(module: URL, megabytes: number): Promise<unknown> {
  const folder = await mkdtemp(`${FOLDER}-hostile-`);
  try {
    await build({
      configFile: false,
      logLevel: 'silent',
      build: {
        ssr: fileURLToPath(module),
        outDir: folder,
        minify: false,
        rolldownOptions: { output: { entryFileNames: 'run.mjs' } },
      },
    });
    const { stdout } = await promisify(execFile)(
      process.execPath,
      [`--max-old-space-size=${megabytes}`, '--expose-gc', path.join(folder, 'run.mjs')],
      { maxBuffer: 2 ** 20 },
    );
    return JSON.parse(stdout.trimEnd().split('\n').at(-1)!) as unknown;
  } finally {
    await rm(folder, { recursive: true });
  }
}
