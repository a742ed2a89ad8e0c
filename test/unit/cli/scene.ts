/** A project, an environment and a machine made up together, for linking from start to end. Not a test. */
import path from 'node:path';
import { expect } from 'vitest';
import { BackendError } from '../../../src/errors.js';
import { inspectTensorFlowBinding } from '../../../src/kernels/tensorflow/binding.js';
import {
  bindingFile,
  fakeMachine,
  installNodePackage,
  installWheel,
  temporaryFolder,
  textOf,
  writeFiles,
  type FakeMachine,
} from './fake-installation.js';

export interface Scene {
  readonly directory: string;
  readonly wheel: string;
  readonly machine: FakeMachine;
  readonly binding: () => string | undefined;
  readonly inspect: () => ReturnType<typeof inspectTensorFlowBinding>;
}

/** A project with the node package (`files` added to it) and a Python environment. */
export function scene(files: Readonly<Record<string, string>> = {}): Scene {
  const project = temporaryFolder();
  const directory = installNodePackage(project, files);
  return { directory, ...surroundings(project, directory) };
}

/** A project into which the node package still has to come. */
export function sceneWithoutPackage(): Scene {
  const project = temporaryFolder();
  writeFiles(project, { 'package.json': '{}', 'node_modules/other/package.json': '{ "version": "1.0.0" }' });
  const directory = path.join(project, 'node_modules/@tensorflow/tfjs-node-gpu');
  return { directory, ...surroundings(project, directory) };
}

function surroundings(project: string, directory: string): Omit<Scene, 'directory'> {
  const wheel = installWheel(path.join(project, 'site-packages'));
  return {
    wheel,
    machine: fakeMachine(project, wheel),
    binding: () => textOf(path.join(directory, bindingFile)),
    inspect: () => inspectTensorFlowBinding([path.join(project, 'package.json')]),
  };
}

export async function refusalOf(action: Promise<unknown>): Promise<BackendError> {
  const error = await action.catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(BackendError);
  return error as BackendError;
}
