/** Nothing that lies in the working directory is run: no package, no Python module, no program. */
import { existsSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';

import { findPythonTensorFlow } from '../../../src/cli/link/python-tensorflow.js';
import { type RunCommand, runCommand, trustedEnvironment } from '../../../src/cli/link/run-command.js';
import { BackendError } from '../../../src/errors.js';
import { findNodePackages } from '../../../src/kernels/tensorflow/binding.js';
import { compiledPackage, runNode } from '../../support/compiled.js';
import { installNodePackage, temporaryFolder, textOf, writeFiles } from './fake-installation.js';

/** A folder in which everything that could be run tells of it in the file `run`. */
function trap(): { readonly folder: string; readonly ran: () => string | undefined } {
  const folder = temporaryFolder();
  const told = path.join(folder, 'run');
  const python = (name: string): string => `open(${JSON.stringify(told)}, "a").write("${name} ")\n`;
  writeFiles(folder, {
    'json.py': python('json'),
    'importlib/__init__.py': python('importlib'),
    'sitecustomize.py': python('sitecustomize'),
    'tensorflow/__init__.py': python('tensorflow'),
  });
  installNodePackage(folder, {
    'dist/index.js': `require('node:fs').writeFileSync(${JSON.stringify(told)}, 'node package');`,
    'lib/napi-v8/tfjs_binding.node': 'binding',
    'deps/lib/libtensorflow.so.2.9.1': 'library',
    'deps/lib/libtensorflow_framework.so.2.9.1': 'library',
  });
  return { folder, ran: () => textOf(told) };
}

test('initBackend loads no node package of the working directory or of a folder above it', () => {
  const { folder, ran } = trap();
  writeFiles(folder, { 'below/here.txt': '' });
  const { stdout } = runNode(
    `
        import { probeBackends } from 'tensortally/kernels';
        import { inspectTensorFlowBinding } from '${path.join(compiledPackage(), 'src/kernels/tensorflow/binding.js')}';
        await probeBackends();
        console.log(inspectTensorFlowBinding().directory ?? 'none');
        process.exit();
      `,
    { cwd: path.join(folder, 'below') },
  );
  expect(stdout.trim()).not.toBe('');
  expect(stdout).not.toContain(folder);
  expect(ran()).toBeUndefined();
}, 90_000);

test('another node package is an explicit absolute path in the environment', () => {
  const { folder } = trap();
  const before = process.env.TENSORTALLY_TFJS_NODE;
  const directory = path.join(folder, 'node_modules/@tensorflow/tfjs-node-gpu');
  try {
    process.env.TENSORTALLY_TFJS_NODE = directory;
    expect(findNodePackages()).toEqual([{ name: '@tensorflow/tfjs-node-gpu', directory }]);
    for (const wrong of [path.relative(process.cwd(), directory), folder, '.']) {
      process.env.TENSORTALLY_TFJS_NODE = wrong;
      expect(() => findNodePackages(), wrong).toThrow(BackendError);
    }
  } finally {
    if (before === undefined) delete process.env.TENSORTALLY_TFJS_NODE;
    else process.env.TENSORTALLY_TFJS_NODE = before;
  }
});

test('Python imports nothing from there, neither its own modules nor TensorFlow', async () => {
  const { folder, ran } = trap();
  const inFolder: RunCommand = (command, words, options) =>
    runCommand(command, words, { ...options, cwd: folder, env: { ...process.env, PYTHONPATH: ':relative' } });
  const found = await findPythonTensorFlow(inFolder, 'python3').catch((error: unknown) => error);
  // Whether this machine's Python has a TensorFlow or not: it is not the one of the folder.
  if (found instanceof BackendError) expect(found.message).not.toContain(folder);
  else expect(found).not.toMatchObject({ directory: path.join(folder, 'tensorflow') });
  expect(ran()).toBeUndefined();
});

test('programs are started with search paths of absolute folders alone', async () => {
  expect(
    trustedEnvironment({
      PATH: ':/bin:.:node_modules/.bin:/usr/bin',
      PYTHONPATH: '',
      NODE_PATH: ':',
      HOME: '/h',
      // Headers and libraries are code, too.
      CPATH: ':/opt/include',
      CPLUS_INCLUDE_PATH: '',
      C_INCLUDE_PATH: 'include',
      LIBRARY_PATH: '/opt/lib:',
      COMPILER_PATH: '.',
    }),
  ).toEqual({ PATH: '/bin:/usr/bin', HOME: '/h', CPATH: '/opt/include', LIBRARY_PATH: '/opt/lib' });
  const { stdout } = await runCommand('/bin/sh', ['-c', 'echo "$PATH"'], { env: { PATH: '.:/bin' } });
  expect(stdout.trim()).toBe('/bin');
  expect(existsSync('/bin/sh')).toBe(true);
});
