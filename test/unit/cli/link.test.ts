/** Linking from start to end on made-up installations: what it builds, what it keeps, what it refuses. */
import { rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { summary } from '../../../src/cli/link-tensorflow.js';
import { withWriteAccess } from '../../../src/cli/link/binding-files.js';
import { linkTensorFlow } from '../../../src/cli/link/link.js';
import { linkFolder } from '../../../src/kernels/tensorflow/binding.js';
import {
  fakeMachine,
  installNodePackage,
  installWheel,
  notFound,
  officialBinding,
  operationAnswer,
  outcome,
  temporaryFolder,
  textOf,
  type FakeMachine,
} from './fake-installation.js';
import { refusalOf, scene, sceneWithoutPackage, type Scene } from './scene.js';

describe('linking', () => {
  test('puts a binding in place, records what it links to and shows a result', async () => {
    const { machine, directory, wheel, binding, inspect } = scene();
    const linked = await linkTensorFlow('python3', machine);
    expect(linked).toMatchObject({
      built: true,
      directory,
      operation: { tensorflowVersion: '2.21.0', sum: 3.5 },
    });
    expect(binding()).toBe('binding 1 for 2.21.0');
    expect(inspect()).toMatchObject({
      state: 'linked',
      links: { kind: 'python', libtensorflow: path.join(wheel, 'libtensorflow_cc.so.2'), version: '2.21.0' },
    });
  });

  test('tries the new binding before it replaces anything, and the installed one at the end', async () => {
    const { machine, directory } = scene();
    await linkTensorFlow('python3', machine);
    const operations = machine.ran.filter((line) => line.startsWith('node'));
    expect(operations).toHaveLength(2);
    expect(operations[0]).toMatch(/building-\d+\/tfjs_binding\.node$/);
    expect(operations[1]!.endsWith(directory)).toBe(true);
  });

  test('gives the compiler the headers, both libraries and the place to find them at run time', async () => {
    const { machine, wheel, directory } = scene();
    await linkTensorFlow('python3', machine);
    const command = machine.ran.find((line) => line.startsWith('g++'))!;
    expect(command).toContain(`-I ${path.join(wheel, 'include')}`);
    expect(command).toContain(path.join(directory, 'binding', 'tfjs_backend.cc'));
    expect(command).toContain(path.join(wheel, 'libtensorflow_cc.so.2'));
    expect(command).toContain(path.join(wheel, 'libtensorflow_framework.so.2'));
    expect(command).toContain(`-Xlinker -rpath -Xlinker ${wheel}`);
    expect(command).toContain('-DNAPI_VERSION=8');
    expect(command).toMatch(/-I \S*node-api-headers\/include/);
  });

  test('takes a compiler with arguments from CXX', async () => {
    const { machine } = scene();
    await linkTensorFlow('python3', { ...machine, compiler: 'g++ -m64' });
    expect(machine.ran.some((line) => line.startsWith('g++ -m64 -std=c++17'))).toBe(true);
  });

  test('verifies instead of building when that TensorFlow is linked already', async () => {
    const { machine } = scene();
    await linkTensorFlow('python3', machine);
    machine.ran.length = 0;
    const again = await linkTensorFlow('python3', machine);
    expect(again.built).toBe(false);
    expect(machine.ran.map((line) => line.split(' ')[0])).toEqual(['python3', 'node']);
  });

  test('builds again when TensorFlow was replaced since', async () => {
    const { machine, wheel, binding } = scene();
    await linkTensorFlow('python3', machine);
    writeFileSync(path.join(wheel, 'libtensorflow_cc.so.2'), 'a newer library');
    expect((await linkTensorFlow('python3', machine)).built).toBe(true);
    expect(binding()).toBe('binding 2 for 2.21.0');
  });

  test('builds again when the linked binding does not work any more', async () => {
    const { machine, binding } = scene();
    await linkTensorFlow('python3', machine);
    const { node } = machine.programs;
    machine.programs.node = () => {
      machine.programs.node = node;
      return Promise.resolve(outcome({ status: 1, stderr: 'Error: cannot open shared object file' }));
    };
    expect((await linkTensorFlow('python3', machine)).built).toBe(true);
    expect(binding()).toBe('binding 2 for 2.21.0');
    expect(machine.said.join(' ')).toContain('does not work');
  });

  test('clears what a killed run left behind', async () => {
    const { machine, directory } = scene({ [`${linkFolder}/building-4194305/tfjs_binding.node`]: 'half' });
    await linkTensorFlow('python3', machine); // no process can have that number: Linux ends at 4194304
    expect(textOf(path.join(directory, linkFolder, 'building-4194305/tfjs_binding.node'))).toBeUndefined();
  });

  test('says which GPU advice applies when a CUDA build finds no GPU', async () => {
    const { machine } = scene();
    const linked = await linkTensorFlow('python3', machine);
    const cuda = { ...linked, tensorflow: { ...linked.tensorflow, build: 'cuda' as const } };
    expect(summary(linked).join('\n')).not.toContain('CUDA');
    expect(summary(cuda).join('\n')).toContain('TensorFlow found no GPU');
    const onGpu = { ...cuda, operation: { ...cuda.operation, usesGpu: true } };
    expect(summary(onGpu).join('\n')).toContain('on a GPU');
    expect(summary(onGpu).join('\n')).not.toContain('found no GPU');
  });
});

describe('a link that fails keeps the state from before', () => {
  const failures: [string, (machine: FakeMachine) => void, RegExp][] = [
    [
      'no compiler',
      ({ programs }) => (programs.compiler = (command) => Promise.reject(notFound(command))),
      /C\+\+ compiler.*g\+\+/,
    ],
    [
      'sources that do not compile',
      ({ programs }) =>
        (programs.compiler = () =>
          Promise.resolve(outcome({ status: 1, stderr: 'x.cc:1:2: error: no such type\nmore' }))),
      /compile against TensorFlow 2\.21\.0.*error: no such type/,
    ],
    [
      'a function that this TensorFlow lacks',
      ({ programs }) =>
        (programs.node = () =>
          Promise.resolve(
            outcome({ status: 1, stderr: 'Error: x.node: undefined symbol: TFE_NewOp\n at y' }),
          )),
      /C function TFE_NewOp/,
    ],
    [
      'a crash in native code',
      ({ programs }) => (programs.node = () => Promise.resolve(outcome({ status: null, signal: 'SIGSEGV' }))),
      /SIGSEGV/,
    ],
    [
      'another libtensorflow being loaded',
      ({ programs }) =>
        (programs.node = () =>
          Promise.resolve(outcome({ stdout: operationAnswer({ tensorflowVersion: '2.9.1' }) }))),
      /expected TensorFlow 2\.21\.0 .*got TensorFlow 2\.9\.1.*LD_LIBRARY_PATH/,
    ],
    [
      'a wrong sum',
      ({ programs }) =>
        (programs.node = () => Promise.resolve(outcome({ stdout: operationAnswer({ sum: 3 }) }))),
      /= 3\.5, got 3/,
    ],
  ];

  test.each(failures)('%s, over an official binding', async (_, damage, message) => {
    const { machine, directory, binding } = scene(officialBinding);
    damage(machine);
    expect((await refusalOf(linkTensorFlow('python3', machine))).message).toMatch(message);
    expect(binding()).toBe('official');
    expect(
      textOf(path.join(directory, linkFolder, `building-${process.pid}/tfjs_binding.node`)),
    ).toBeUndefined();
  });

  test.each(failures)('%s, over an earlier link', async (_, damage) => {
    const { machine, wheel, binding, inspect } = scene();
    await linkTensorFlow('python3', machine);
    writeFileSync(path.join(wheel, 'libtensorflow_cc.so.2'), 'a newer library');
    damage(machine);
    await refusalOf(linkTensorFlow('python3', machine));
    expect(binding()).toBe('binding 1 for 2.21.0');
    expect(inspect().links?.kind).toBe('python');
  });

  test.each(failures)('%s, over nothing', async (_, damage) => {
    const { machine, inspect } = sceneWithoutPackage();
    damage(machine);
    await refusalOf(linkTensorFlow('python3', machine));
    expect(inspect().state).toBe('absent');
  });
});

describe('two first links at once', () => {
  /** A scene without the package, into which another run puts it while this one still fetches. */
  function overtaken(): Scene {
    const made = sceneWithoutPackage();
    const { npm } = made.machine.programs;
    made.machine.programs.npm = (...call) => {
      installNodePackage(path.dirname(made.machine.nodeModules));
      return npm(...call);
    };
    return made;
  }

  test('both succeed: the slower one links the package that is there by then', async () => {
    const { machine, directory, inspect } = overtaken();
    expect(await linkTensorFlow('python3', machine)).toMatchObject({ built: true, directory });
    expect(inspect().state).toBe('linked');
  });

  test('the slower one, if it fails, leaves the package of the other', async () => {
    const { machine, inspect } = overtaken();
    machine.programs.compiler = () => Promise.resolve(outcome({ status: 1, stderr: 'error: no' }));
    await refusalOf(linkTensorFlow('python3', machine));
    expect(inspect().state).toBe('without-binding');
  });
});

describe('refusals', () => {
  test.each([
    ['darwin', 'arm64'],
    ['win32', 'x64'],
    ['linux', 'arm'],
  ])('%s on %s is no platform to link on', async (platform, arch) => {
    const { machine } = scene();
    const error = await refusalOf(linkTensorFlow('python3', { ...machine, platform, arch }));
    expect(error.message).toContain('Linux on x64 or arm64');
    expect(error.remedy).toContain('webgpu');
    expect(machine.ran).toEqual([]);
  });

  test('a package without its sources cannot be built', async () => {
    const { machine, directory } = scene();
    rmSync(path.join(directory, 'binding'), { recursive: true });
    expect((await refusalOf(linkTensorFlow('python3', machine))).message).toContain('tfjs_binding.cc');
  });

  test('a folder that cannot be written is named', async () => {
    const { machine, directory } = scene({ [linkFolder]: 'a file where the folder should be' });
    const error = await refusalOf(linkTensorFlow('python3', machine));
    expect(error.message).toContain(directory);
    expect(error.remedy).toContain('owner');
  });

  test.each(['EACCES', 'EPERM', 'EROFS', 'ENOSPC', 'ENOENT', 'ENOTEMPTY'])(
    '%s becomes advice',
    async (code) => {
      const refused = (): Promise<never> => Promise.reject(Object.assign(new Error(`${code}: no`), { code }));
      const error = await refusalOf(withWriteAccess('/somewhere', refused));
      expect(error.expected).toContain('/somewhere');
      expect(error.received).toContain(code);
    },
  );

  test('an error that has nothing to do with files passes through', async () => {
    await expect(withWriteAccess('/x', () => Promise.reject(new TypeError('bug')))).rejects.toThrow(
      TypeError,
    );
  });

  test('a library path that the loader would split is refused', async () => {
    const project = temporaryFolder();
    installNodePackage(project);
    const wheel = installWheel(path.join(project, 'a:b'));
    const error = await refusalOf(linkTensorFlow('python3', fakeMachine(project, wheel)));
    expect(error.message).toContain('without `:`');
  });
});
