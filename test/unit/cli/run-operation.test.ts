/** The operation in a process of its own, on a made-up package: what the package finds there, and what is told of it. */
import path from 'node:path';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { runCommand } from '../../../src/cli/link/run-command.js';
import { runOperation } from '../../../src/cli/link/run-operation.js';
import { BackendError } from '../../../src/errors.js';
import { installNodePackage, temporaryFolder, writeFiles } from './fake-installation.js';

afterEach(() => {
  vi.unstubAllEnvs();
});

/** A package that computes like tfjs-node 4.22 does: with two functions of `util` that Node 23 removed. */
const packageProgram = `
const util = require('node:util');
const preBinding = require('@mapbox/node-pre-gyp/lib/pre-binding');
const backend = { binding: { TF_Version: preBinding.find('its own') }, isUsingGpuDevice: false };
module.exports = {
  engine: () => ({ findBackend: () => backend }),
  tensor1d: (values) => (util.isArray(values) ? values : []),
  sum: (values) => {
    if (util.isNullOrUndefined(values)) throw new Error('nothing to sum');
    return { dataSync: () => [values.reduce((a, b) => a + b)] };
  },
};`;

function install(program = packageProgram): string {
  return installNodePackage(temporaryFolder(), {
    'dist/index.js': program,
    'node_modules/@mapbox/node-pre-gyp/lib/pre-binding.js': 'exports.find = (name) => name;',
  });
}

/** Makes every Node process that starts from here one without what Node 23 removed. */
function removeFromUtil(): void {
  const folder = temporaryFolder();
  const program = `const util = require('node:util'); delete util.isArray; delete util.isNullOrUndefined;`;
  writeFiles(folder, { 'node-23.cjs': program });
  vi.stubEnv('NODE_OPTIONS', `--require ${path.join(folder, 'node-23.cjs')}`);
}

describe('the operation', () => {
  test('runs on a Node that lacks what the package calls', async () => {
    removeFromUtil();
    const lacking = await runCommand(process.execPath, [
      '-p',
      'typeof util.isArray + typeof util.isNullOrUndefined',
    ]);
    expect(lacking.stdout.trim()).toBe('undefinedundefined');
    expect(await runOperation(runCommand, install())).toEqual({
      tensorflowVersion: 'its own',
      usesGpu: false,
      sum: 3.5,
    });
  });

  test('runs through the binding that it is given', async () => {
    const { tensorflowVersion } = await runOperation(runCommand, install(), '/workshop/tfjs_binding.node');
    expect(tensorflowVersion).toBe('/workshop/tfjs_binding.node');
  });

  test('tells why the package does not load', async () => {
    const refused = runOperation(runCommand, install(`throw new Error('libcudart.so.11.0: no such file')`));
    await expect(refused).rejects.toThrow(BackendError);
    await expect(refused).rejects.toThrow(/exit status 1 \(Error: libcudart\.so\.11\.0: no such file\)/);
  });
});
