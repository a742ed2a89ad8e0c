/** The sources as plain JavaScript, for tests that start a Node of their own with flags of its own. */
import { type SpawnSyncReturns, spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import ts from 'typescript';

const ROOT = path.resolve(import.meta.dirname, '../..');

/** Inside node_modules, so that the copy finds the packages that the sources find. */
const FOLDER = path.join(ROOT, 'node_modules', `.tensortally-compiled-${process.pid}`);

let isThere = false;

/** The folder of a copy of the package whose `src` is compiled; made once, gone when this process is. */
export function compiledPackage(): string {
  if (isThere) return FOLDER;
  isThere = true;
  process.on('exit', () => {
    rmSync(FOLDER, { recursive: true, force: true });
  });
  const { config } = ts.readConfigFile(path.join(ROOT, 'tsconfig.json'), (file) => ts.sys.readFile(file)) as {
    config: unknown;
  };
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, ROOT);
  // Of files one by one the compiler cannot know that the package is of ES modules.
  const compilerOptions = {
    ...options,
    module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
  };
  for (const file of readdirSync(path.join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('.ts') || file.includes('assembly')) continue;
    const to = path.join(FOLDER, 'src', file.replace(/\.ts$/, '.js'));
    mkdirSync(path.dirname(to), { recursive: true });
    const source = readFileSync(path.join(ROOT, 'src', file), 'utf8');
    writeFileSync(to, ts.transpileModule(source, { compilerOptions, fileName: file }).outputText);
  }
  copyFileSync(path.join(ROOT, 'package.json'), path.join(FOLDER, 'package.json'));
  return FOLDER;
}

/** The address under which a program imports a file of the copy, e.g. `src/index.js`. */
export function compiledUrl(file = 'src/index.js'): string {
  return pathToFileURL(path.join(compiledPackage(), file)).href;
}

export interface NodeRun {
  readonly flags?: readonly string[];
  /** Kilobytes of addresses that the process may have, as of `ulimit -v`. */
  readonly addresses?: number;
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
}

/**
 * Runs an ES module in a Node of its own.
 *
 * @param program its source, in which 'tensortally' and 'tensortally/kernels' are the compiled package
 */
export function runNode(
  program: string,
  { flags = [], addresses, cwd, env }: NodeRun = {},
): SpawnSyncReturns<string> {
  const file = path.join(compiledPackage(), `program-${process.hrtime.bigint()}.mjs`);
  const source = program.replaceAll(/'tensortally(\/\w+)?'/g, (_, entry = '') =>
    JSON.stringify(compiledUrl(`src${entry}/index.js`)),
  );
  writeFileSync(file, source);
  const limit = addresses === undefined ? '' : `ulimit -v ${addresses}; `;
  return spawnSync('sh', ['-c', `${limit}exec "$@"`, 'sh', process.execPath, ...flags, file], {
    encoding: 'utf8',
    cwd,
    env: { ...process.env, ...env },
  });
}
