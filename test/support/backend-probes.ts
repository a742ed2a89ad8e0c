/**
 * Decides which backend projects a test run has.
 *
 * Named in `TENSORTALLY_TEST_BACKENDS` (comma list), a backend is demanded: its project exists without any probe, so
 * if it cannot start, the run fails. Otherwise cpu and wasm always run, and webgpu and tensorflow where a probe says
 * that they can. Probes load native code, so each runs in a process of its own: a crash is an answer, not the end.
 */

import { spawnSync } from 'node:child_process';

import { backendNames, type BackendName } from '../../src/kernels/backends/names.js';

const MARK = 'probe:';

/** Packages greet on stdout when they load, so what a probe says stands on a marked line of its own. */
const PROBE_FRAME = `const say = (reason) => process.stdout.write('\\n${MARK}' + reason.split('\\n')[0] + '\\n');`;

/** Says why webgpu cannot run, or nothing if it can. */
const WEBGPU_PROBE = `${PROBE_FRAME}
  import('webgpu').then(async ({ create }) => {
    const adapter = await create([]).requestAdapter();
    if (adapter === null) say('no usable Vulkan, Metal or D3D12 driver; VK_ICD_FILENAMES may name one');
  }).catch((error) => say(error.message)).finally(() => process.exit(0));
`;

/** Says why tensorflow cannot run, or nothing if it can. The util functions are what the package needs on Node ≥ 23. */
const TENSORFLOW_PROBE = `${PROBE_FRAME}
  process.env.TF_CPP_MIN_LOG_LEVEL ??= '2';
  const util = require('node:util');
  util.isNullOrUndefined ??= (v) => v == null;
  util.isArray ??= Array.isArray;
  const fs = require('node:fs');
  const path = require('node:path');
  try {
    const root = path.dirname(require.resolve('@tensorflow/tfjs-node-gpu/package.json'));
    if (fs.existsSync(path.join(root, 'lib/napi-v8/tfjs_binding.node'))) require(root);
    else say('@tensorflow/tfjs-node-gpu has no binding; tensortally link-tensorflow makes one');
  } catch (error) {
    const isAbsent = error.code === 'MODULE_NOT_FOUND';
    say(isAbsent ? 'its package is not installed; tensortally link-tensorflow fetches and links it' : error.message);
  }
  process.exit(0);
`;

/** Runs a probe; undefined means that the backend can run here. */
function reasonAgainst(probe: string): string | undefined {
  const child = spawnSync(process.execPath, ['-e', probe], {
    cwd: new URL('../..', import.meta.url),
    encoding: 'utf8',
    timeout: 60_000,
  });
  if (child.error !== undefined) return `its probe did not finish: ${child.error.message}`;
  if (child.signal !== null) return `its probe died of ${child.signal}`;
  if (child.status !== 0) return `its probe ended with code ${child.status ?? 'unknown'}`;
  const answer = child.stdout.split('\n').find((line) => line.startsWith(MARK));
  return answer?.slice(MARK.length);
}

/** A backend that this run leaves out, and why. */
export interface LeftOut {
  readonly name: BackendName;
  readonly reason: string;
}

/**
 * The backends of this run.
 *
 * @param demanded the comma list of `TENSORTALLY_TEST_BACKENDS`, if set
 * @throws Error if the list names something that is no backend
 */
export function chooseBackends(demanded: string | undefined): { run: BackendName[]; leftOut: LeftOut[] } {
  if (demanded !== undefined && demanded.trim() !== '') {
    const names = demanded.split(',').map((name) => name.trim());
    const unknown = names.filter((name) => !backendNames.some((known) => known === name));
    if (unknown.length > 0) {
      throw new Error(
        `TENSORTALLY_TEST_BACKENDS names ${unknown.join(', ')}; backends are ${backendNames.join(', ')}`,
      );
    }
    const run = backendNames.filter((known) => names.includes(known));
    const reason = 'TENSORTALLY_TEST_BACKENDS does not name it';
    const leftOut = backendNames.filter((known) => !run.includes(known)).map((name) => ({ name, reason }));
    return { run, leftOut };
  }
  const run: BackendName[] = ['cpu', 'wasm'];
  const leftOut: LeftOut[] = [];
  for (const [name, probe] of [
    ['webgpu', WEBGPU_PROBE],
    ['tensorflow', TENSORFLOW_PROBE],
  ] as const) {
    const reason = reasonAgainst(probe);
    if (reason === undefined) run.push(name);
    else leftOut.push({ name, reason });
  }
  return { run, leftOut };
}
