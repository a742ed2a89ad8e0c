/** The four states of the native binding on made-up installations, and loading one without disturbing anything. */
import { mkdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import * as tf from '@tensorflow/tfjs-core';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { BackendError } from '../../src/errors.js';
import {
  inspectTensorFlowBinding,
  linkRecordPath,
  loadTensorFlowBackend,
  type LinkRecord,
} from '../../src/kernels/tensorflow/binding.js';
import {
  bindingFile,
  installNodePackage,
  installWheel,
  officialBinding,
  temporaryFolder,
  writeFiles,
} from './cli/fake-installation.js';

/** As seen from a file in `project`. */
function inspect(project: string): ReturnType<typeof inspectTensorFlowBinding> {
  return inspectTensorFlowBinding([path.join(project, 'package.json')]);
}

/** A package whose binding is recorded as linked to a wheel. */
function linkedToPython(project: string): { directory: string; wheel: string } {
  const wheel = installWheel(path.join(project, 'site-packages'));
  const directory = installNodePackage(project, { [bindingFile]: 'built here' });
  const libtensorflow = path.join(wheel, 'libtensorflow_cc.so.2');
  writeFileSync(libtensorflow, 'library');
  const { size, mtimeMs } = statSync(libtensorflow);
  const record: LinkRecord = {
    format: 1,
    tensorflow: {
      version: '2.21.0',
      build: 'cpu',
      python: '/env/bin/python3',
      libtensorflow,
      framework: path.join(wheel, 'libtensorflow_framework.so.2'),
      size,
      modified: Math.trunc(mtimeMs),
    },
  };
  const file = linkRecordPath(directory, path.join(directory, bindingFile));
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, JSON.stringify(record));
  return { directory, wheel };
}

describe('the state of the binding', () => {
  test('is absent where neither package is installed', () => {
    const { state, detail, remedy } = inspect(temporaryFolder());
    expect(state).toBe('absent');
    expect(detail).toContain('not installed');
    expect(remedy).toContain('link-tensorflow');
  });

  test('is without-binding where npm left the package without its native part', () => {
    const project = temporaryFolder();
    const directory = installNodePackage(project);
    const found = inspect(project);
    expect(found).toMatchObject({
      state: 'without-binding',
      package: '@tensorflow/tfjs-node-gpu',
      directory,
    });
    expect(found.binding).toBeUndefined();
  });

  test('is linked to the official library, whose version its file name tells', () => {
    const project = temporaryFolder();
    const directory = installNodePackage(project, officialBinding);
    expect(inspect(project)).toMatchObject({
      state: 'linked',
      binding: path.join(directory, bindingFile),
      links: {
        kind: 'official',
        libtensorflow: path.join(directory, 'deps/lib/libtensorflow.so.2.9.1'),
        version: '2.9.1',
      },
    });
  });

  test('is linked to the wheel that the record of the binding names', () => {
    const project = temporaryFolder();
    const { wheel } = linkedToPython(project);
    expect(inspect(project)).toMatchObject({
      state: 'linked',
      links: { kind: 'python', libtensorflow: path.join(wheel, 'libtensorflow_cc.so.2'), version: '2.21.0' },
    });
  });

  test('is broken when the Python environment is gone, and says which file is missing', () => {
    const project = temporaryFolder();
    const { wheel } = linkedToPython(project);
    rmSync(wheel, { recursive: true });
    const { state, detail, remedy } = inspect(project);
    expect(state).toBe('broken');
    expect(detail).toContain(path.join(wheel, 'libtensorflow_cc.so.2'));
    expect(remedy).toContain('--python');
  });

  test.each(['deps/lib/libtensorflow.so.2.9.1', 'deps/lib/libtensorflow_framework.so.2.9.1'])(
    'is broken without %s',
    (library) => {
      const project = temporaryFolder();
      const directory = installNodePackage(project, officialBinding);
      rmSync(path.join(directory, library));
      expect(inspect(project).state).toBe('broken');
    },
  );

  test('is broken when the library is a link to nowhere', () => {
    const project = temporaryFolder();
    const directory = installNodePackage(project, officialBinding);
    const library = path.join(directory, 'deps/lib/libtensorflow.so.2.9.1');
    rmSync(library);
    symlinkSync(path.join(directory, 'gone'), library);
    expect(inspect(project).state).toBe('broken');
  });

  test('stays linked, with a note, when TensorFlow was replaced since', () => {
    const project = temporaryFolder();
    const { wheel } = linkedToPython(project);
    writeFileSync(path.join(wheel, 'libtensorflow_cc.so.2'), 'a newer library');
    expect(inspect(project)).toMatchObject({ state: 'linked' });
    expect(inspect(project).detail).toContain('replaced since');
  });

  test('follows the binding, not a record of one that was replaced', () => {
    const project = temporaryFolder();
    const { directory } = linkedToPython(project);
    writeFiles(directory, officialBinding);
    expect(inspect(project)).toMatchObject({ state: 'linked', links: { kind: 'official' } });
  });

  test('is that of the package that is furthest along', () => {
    const project = temporaryFolder();
    installNodePackage(project);
    installNodePackage(project, officialBinding, '@tensorflow/tfjs-node');
    expect(inspect(project)).toMatchObject({ state: 'linked', package: '@tensorflow/tfjs-node' });
  });

  test('prefers the GPU package where both are linked', () => {
    const project = temporaryFolder();
    installNodePackage(project, officialBinding, '@tensorflow/tfjs-node');
    installNodePackage(project, officialBinding);
    expect(inspect(project).package).toBe('@tensorflow/tfjs-node-gpu');
  });

  test('is found from the second origin where the first sees nothing', () => {
    const [empty, project] = [temporaryFolder(), temporaryFolder()];
    installNodePackage(project);
    const origins = [empty, project].map((folder) => path.join(folder, 'package.json'));
    expect(inspectTensorFlowBinding(origins).state).toBe('without-binding');
  });
});

describe('loading the backend', () => {
  const core = createRequire(import.meta.url).resolve('@tensorflow/tfjs-core');
  const util = createRequire(import.meta.url)('node:util') as Record<string, unknown>;

  /** JavaScript that does what the node package does when it is loaded, with `backend` as the factory's body. */
  const packageProgram = (backend: string): string => `
    const tf = require(${JSON.stringify(core)});
    const util = require('node:util');
    class Backend extends tf.KernelBackend {
      binding = { TF_Version: '2.21.0' };
      isUsingGpuDevice = true;
      sawUtil = { isNullOrUndefined: typeof util.isNullOrUndefined, isArray: typeof util.isArray };
      numDataIds() { return 0; }
      dispose() {}
    }
    tf.registerBackend('tensorflow', () => { ${backend} }, 3);
    tf.setBackend('tensorflow');`;

  class Elsewhere extends tf.KernelBackend {
    override dispose(): void {
      // nothing to free
    }
  }

  function load(project: string): ReturnType<typeof loadTensorFlowBackend> {
    return loadTensorFlowBackend([path.join(project, 'package.json')]);
  }

  function installLoadable(program: string): string {
    const project = temporaryFolder();
    installNodePackage(project, { ...officialBinding, 'dist/index.js': program });
    return project;
  }

  afterEach(() => {
    vi.unstubAllEnvs();
    for (const name of tf.engine().backendNames()) tf.removeBackend(name);
  });

  test('is refused in a sentence where there is no package', async () => {
    const error = (await load(temporaryFolder()).catch((reason: unknown) => reason)) as BackendError;
    expect(error).toBeInstanceOf(BackendError);
    expect(error.message).toMatch(
      /expected a native TensorFlow binding, got none: @tensorflow\/tfjs-node-gpu is not installed \(npm skips/,
    );
  });

  test('reports what came up, quiets TensorFlow and leaves it active where no backend was', async () => {
    vi.stubEnv('TF_CPP_MIN_LOG_LEVEL', undefined);
    vi.stubEnv('TF_FORCE_GPU_ALLOW_GROWTH', undefined);
    const loaded = await load(installLoadable(packageProgram('return new Backend();')));
    expect(loaded).toMatchObject({
      package: '@tensorflow/tfjs-node-gpu',
      packageVersion: '4.22.0',
      tensorflowVersion: '2.21.0',
      usesGpu: true,
    });
    expect(process.env.TF_CPP_MIN_LOG_LEVEL).toBe('2');
    expect(process.env.TF_FORCE_GPU_ALLOW_GROWTH).toBe('true');
    expect(tf.getBackend()).toBe('tensorflow');
  });

  test('keeps the settings of the environment', async () => {
    vi.stubEnv('TF_CPP_MIN_LOG_LEVEL', '0');
    vi.stubEnv('TF_FORCE_GPU_ALLOW_GROWTH', 'false');
    await load(installLoadable(packageProgram('return new Backend();')));
    expect(process.env.TF_CPP_MIN_LOG_LEVEL).toBe('0');
    expect(process.env.TF_FORCE_GPU_ALLOW_GROWTH).toBe('false');
  });

  test('leaves the backend active that was active before', async () => {
    tf.registerBackend('elsewhere', () => new Elsewhere());
    await tf.setBackend('elsewhere');
    await load(installLoadable(packageProgram('return new Backend();')));
    expect(tf.getBackend()).toBe('elsewhere');
    expect(tf.engine().backendNames()).toContain('tensorflow');
  });

  test('gives back what Node 23 removed from util, before the package is loaded', async () => {
    const { isNullOrUndefined, isArray } = util;
    delete util.isNullOrUndefined; // as on Node 23, whichever Node this is
    delete util.isArray;
    try {
      await load(installLoadable(packageProgram('return new Backend();')));
      expect(tf.engine().findBackend('tensorflow')).toHaveProperty('sawUtil', {
        isNullOrUndefined: 'function',
        isArray: 'function',
      });
      const restored = util as Record<'isNullOrUndefined' | 'isArray', (value: unknown) => boolean>;
      expect([undefined, null, 0, ''].map((x) => restored.isNullOrUndefined(x))).toEqual([
        true,
        true,
        false,
        false,
      ]);
      expect([[], {}].map((x) => restored.isArray(x))).toEqual([true, false]);
    } finally {
      Object.assign(util, { isNullOrUndefined, isArray });
    }
  });

  test.each([
    ['throws', `throw new Error('libcudart.so.11.0: cannot open shared object file')`],
    [
      'registers a backend that does not start',
      packageProgram(`throw new Error('cannot open shared object file')`),
    ],
  ])('refuses a package that %s, with the reason', async (_, program) => {
    const error = await load(installLoadable(program)).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(BackendError);
    expect((error as BackendError).received).toContain('cannot open shared object file');
    expect((error as BackendError).remedy).toContain('link-tensorflow');
  });

  test('makes inspection say broken after a failure, until the binding is replaced', async () => {
    const project = installLoadable(`throw new Error('undefined symbol: TF_Gone')`);
    await expect(load(project)).rejects.toThrow(BackendError);
    expect(inspect(project)).toMatchObject({ state: 'broken' });
    expect(inspect(project).detail).toContain('undefined symbol: TF_Gone');
    const binding = path.join(project, 'node_modules/@tensorflow/tfjs-node-gpu', bindingFile);
    rmSync(binding);
    writeFileSync(binding, 'another');
    expect(inspect(project).state).toBe('linked');
  });

  test('keeps the active backend when loading fails', async () => {
    tf.registerBackend('elsewhere', () => new Elsewhere());
    await tf.setBackend('elsewhere');
    await expect(load(installLoadable(packageProgram(`throw new Error('no')`)))).rejects.toThrow(
      BackendError,
    );
    expect(tf.getBackend()).toBe('elsewhere');
  });

  test.each([
    ['absent', () => temporaryFolder()],
    [
      'without-binding',
      () => {
        const project = temporaryFolder();
        installNodePackage(project);
        return project;
      },
    ],
  ])('refuses a binding that is %s with its remedy', async (_, make) => {
    await expect(load(make())).rejects.toThrow(/link-tensorflow/);
  });
});
