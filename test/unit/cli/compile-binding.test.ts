/** The one call of the compiler: every argument that the binding's behaviour at run time depends on. */
import { existsSync } from 'node:fs';
import path from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { compileBinding, compilerCommand } from '../../../src/cli/link/compile-binding.js';
import type { PythonTensorFlow } from '../../../src/cli/link/python-tensorflow.js';
import { BackendError } from '../../../src/errors.js';
import { outcome, temporaryFolder, writeFiles } from './fake-installation.js';

const directory = '/project/node_modules/@tensorflow/tfjs-node-gpu';
const wheel = '/env/lib/python3.11/site-packages/tensorflow';
const tensorflow: PythonTensorFlow = {
  version: '2.21.0',
  build: 'cuda',
  python: '/env/bin/python3',
  pythonVersion: '3.11.7',
  directory: wheel,
  include: `${wheel}/include`,
  libtensorflow: `${wheel}/libtensorflow_cc.so.2`,
  framework: `${wheel}/libtensorflow_framework.so.2`,
  size: 1,
  modified: 1,
};

let words: readonly string[];

beforeAll(async () => {
  const compilation = { directory, tensorflow, napiVersion: 8, output: '/workshop/x.node', compiler: 'c++' };
  await compileBinding((command, given) => {
    expect(command).toBe('c++');
    words = given;
    return Promise.resolve(outcome({}));
  }, compilation);
});

/** What follows each `flag`. */
function after(flag: string): string[] {
  return words.flatMap((word, i) => (word === flag ? [words[i + 1]!] : []));
}

describe('the compiler is told', () => {
  test.each(['-std=c++17', '-O2', '-fPIC', '-shared', '-DNAPI_VERSION=8'])('%s', (flag) => {
    expect(words.filter((word) => word === flag)).toHaveLength(1);
  });

  test('where to write', () => {
    expect(after('-o')).toEqual(['/workshop/x.node']);
  });

  test('the headers of Node-API, which are there, then those of the wheel and of the package', () => {
    const [nodeApi, ...others] = after('-I');
    expect(existsSync(path.join(nodeApi!, 'node_api.h'))).toBe(true);
    expect(others).toEqual([`${wheel}/include`, directory]);
  });

  test('both sources, and after them both libraries', () => {
    const sources = ['tfjs_backend.cc', 'tfjs_binding.cc'].map((file) => `${directory}/binding/${file}`);
    const libraries = [tensorflow.libtensorflow, tensorflow.framework];
    expect(words.filter((word) => word.endsWith('.cc') || word.includes('.so'))).toEqual([
      ...sources,
      ...libraries,
    ]);
  });
});

describe('the linker is told', () => {
  const linkerWords = (): string[] => after('-Xlinker');

  test('to find the libraries in the wheel, by its absolute path', () => {
    const [place] = linkerWords().flatMap((word, i, all) => (word === '-rpath' ? [all[i + 1]!] : []));
    expect(place).toBe(wheel);
    expect(path.isAbsolute(place!)).toBe(true);
  });

  test('to write RPATH, which comes before LD_LIBRARY_PATH, and not RUNPATH, which comes after', () => {
    expect(linkerWords()).toContain('--disable-new-dtags');
    expect(linkerWords()).not.toContain('--enable-new-dtags');
  });

  test('to resolve every function when the binding is loaded', () => {
    expect(linkerWords().join(' ')).toContain('-z now');
  });

  test('nothing else', () => {
    expect(linkerWords()).toEqual(['--disable-new-dtags', '-rpath', wheel, '-z', 'now']);
  });
});

describe('the compiler is', () => {
  test.each([
    ['', ['g++']],
    ['  ', ['g++']],
    ['clang++', ['clang++']],
    ['ccache g++ -m64', ['ccache', 'g++', '-m64']],
    ['"/opt/my tools/g++" -m64', ['/opt/my tools/g++', '-m64']],
    ["'/opt/my tools/g++'", ['/opt/my tools/g++']],
    ['/opt/my\\ tools/g++', ['/opt/my tools/g++']],
    ['g++ -DNAME="a b"', ['g++', '-DNAME=a b']],
  ])('of CXX=%j: %j', (compiler, command) => {
    expect(compilerCommand(compiler)).toEqual(command);
  });

  test('a path with spaces as it is, where there is a file', () => {
    const folder = temporaryFolder();
    writeFiles(folder, { 'my tools/g++': '' });
    const file = path.join(folder, 'my tools/g++');
    expect(compilerCommand(file)).toEqual([file]);
  });

  test.each(['"g++', "g++ 'x"])('refused in CXX=%j, whose quote does not end', (compiler) => {
    expect(() => compilerCommand(compiler)).toThrow(BackendError);
    expect(() => compilerCommand(compiler)).toThrow(/a quote does not end/);
  });
});
