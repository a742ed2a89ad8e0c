/** What is said of a Python environment, from what its interpreter answers and what lies in its folders. */
import { rmSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { findPythonTensorFlow } from '../../../src/cli/link/python-tensorflow.js';
import type { CommandOutcome, RunCommand } from '../../../src/cli/link/run-command.js';
import { BackendError } from '../../../src/errors.js';
import { installWheel, notFound, outcome, pythonAnswer, temporaryFolder } from './fake-installation.js';

const answering =
  (part: Partial<CommandOutcome>): RunCommand =>
  () =>
    Promise.resolve(outcome(part));

function find(wheel: string, version = '2.21.0'): ReturnType<typeof findPythonTensorFlow> {
  return findPythonTensorFlow(answering({ stdout: pythonAnswer({ version, wheel }) }), 'python3');
}

describe('a Python with TensorFlow', () => {
  test('is described by version, build and files', async () => {
    const wheel = installWheel(temporaryFolder());
    expect(await find(wheel)).toMatchObject({
      version: '2.21.0',
      build: 'cpu',
      python: '/env/bin/python3',
      pythonVersion: '3.11.7',
      directory: wheel,
      include: path.join(wheel, 'include'),
      libtensorflow: path.join(wheel, 'libtensorflow_cc.so.2'),
      framework: path.join(wheel, 'libtensorflow_framework.so.2'),
      size: 'library'.length,
    });
  });

  test('is where it is, however the interpreter names the place', async () => {
    const wheel = installWheel(temporaryFolder());
    const { directory, libtensorflow } = await find(path.relative(process.cwd(), wheel));
    expect(directory).toBe(wheel);
    expect(libtensorflow).toBe(path.join(wheel, 'libtensorflow_cc.so.2'));
  });

  test('has a CUDA build where the wheel says so', async () => {
    const wheel = installWheel(temporaryFolder(), 'cuda');
    expect(await find(wheel)).toMatchObject({ build: 'cuda', cudaVersion: '12.5.1' });
  });

  test.each(['2.16.0', '2.16.2', '2.21.0rc1', '3.0.0'])('may be version %s', async (version) => {
    expect((await find(installWheel(temporaryFolder()), version)).version).toBe(version);
  });

  test('answers on the last line, after whatever a startup file prints', async () => {
    const wheel = installWheel(temporaryFolder());
    const stdout = `hello\n${pythonAnswer({ version: '2.20.0', wheel })}\n`;
    expect((await findPythonTensorFlow(answering({ stdout }), 'python3')).version).toBe('2.20.0');
  });
});

describe('refused is', () => {
  async function refusal(run: RunCommand): Promise<BackendError> {
    const error = await findPythonTensorFlow(run, 'my-python').catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(BackendError);
    return error as BackendError;
  }

  test('an interpreter that does not exist', async () => {
    const { received, remedy } = await refusal((command) => Promise.reject(notFound(command)));
    expect(received).toBe('no program my-python');
    expect(remedy).toContain('--python');
  });

  test('an interpreter that fails, with its last words', async () => {
    const { received } = await refusal(
      answering({ status: 1, stderr: 'Traceback\nImportError: No module named importlib.metadata\n' }),
    );
    expect(received).toContain('No module named importlib.metadata');
  });

  test('a program that fails without a word', async () => {
    expect((await refusal(answering({ status: 1 }))).received).toContain('exit status 1');
  });

  test('a program that is no Python, though it succeeds', async () => {
    expect((await refusal(answering({ status: 0, stdout: '' }))).received).toContain('did not answer');
    expect((await refusal(answering({ status: 0, stdout: 'hello' }))).received).toContain('did not answer');
  });

  test('a file that may not be executed', async () => {
    const denied = Object.assign(new Error('spawn my-python EACCES'), { code: 'EACCES' });
    expect((await refusal(() => Promise.reject(denied))).received).toContain('EACCES');
  });

  test('a Python without TensorFlow, with the command to install it there', async () => {
    const { remedy } = await refusal(answering({ stdout: pythonAnswer({ version: null, wheel: null }) }));
    expect(remedy).toContain('/env/bin/python3 -m pip install tensorflow');
  });

  test.each(['2.15.1', '1.15.0'])('TensorFlow %s as too old', async (version) => {
    const wheel = installWheel(temporaryFolder());
    const { expected, received } = await refusal(answering({ stdout: pythonAnswer({ version, wheel }) }));
    expect(expected).toContain('2.16 or later');
    expect(received).toContain(version);
  });

  test.each(['libtensorflow_cc.so.2', 'libtensorflow_framework.so.2', 'include/tensorflow/c/eager/c_api.h'])(
    'an installation without %s',
    async (file) => {
      const wheel = installWheel(temporaryFolder());
      rmSync(path.join(wheel, file));
      const { received } = await refusal(answering({ stdout: pythonAnswer({ version: '2.21.0', wheel }) }));
      expect(received).toContain(file);
    },
  );
});

test('a program that repeats the question is refused in a line that can be read', async () => {
  const run = answering({ status: 2, stderr: `ls: cannot access '${'import sys; '.repeat(100)}'` });
  const error = await findPythonTensorFlow(run, '/bin/ls').catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(BackendError);
  expect((error as Error).message).toContain('/bin/ls, which failed: ls: cannot access');
  expect((error as Error).message.length).toBeLessThan(400);
});
