/** Examines every backend and puts the findings together. */
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { version_core } from '@tensorflow/tfjs-core';
import { backendNames, type BackendName } from '../../kernels/index.js';
import { inspectTensorFlowBinding, type TensorFlowBinding } from '../../kernels/tensorflow/binding.js';
import { webGpuPackageVersion } from '../../kernels/webgpu/boot.js';
import { lastWords } from '../link/run-command.js';
import { ownPackage } from '../../own-package.js';
import type { Examination } from './examination.js';

/** All that `tensortally doctor` knows. */
export interface Diagnosis {
  /** Whether `auto` finds a backend and no backend computes wrongly or crashes. */
  readonly healthy: boolean;
  readonly versions: Readonly<Record<string, string>>;
  /** What `initBackend('auto')` came to. */
  readonly auto: Examination;
  readonly backends: Readonly<Record<BackendName, Examination>>;
  readonly binding: TensorFlowBinding;
}

export type Examine = (name: 'auto' | BackendName) => Promise<Examination>;

/** Examines `auto` and every backend, one after the other: each may want the whole GPU. */
export async function diagnose(
  examine: Examine,
  binding: TensorFlowBinding = inspectTensorFlowBinding(),
): Promise<Diagnosis> {
  const auto = await examine('auto');
  const backends = {} as Record<BackendName, Examination>;
  for (const name of backendNames) backends[name] = await examine(name);
  const healthy =
    auto.outcome === 'passed' &&
    Object.values(backends).every(({ outcome }) => outcome === 'passed' || outcome === 'unavailable');
  return { healthy, versions: versions(backends), auto, backends, binding };
}

/**
 * Examines a backend in a process of its own, so that a crash in native code is a finding.
 *
 * A CUDA build may have to compile its kernels first, so the process gets some minutes.
 */
export const examineInProcess: Examine = (name) =>
  observe(fileURLToPath(new URL('./examination-process.js', import.meta.url)), [name], 300_000);

/** Runs the module `script` and takes its message as the finding, or its end without one as a crash. */
export function observe(script: string, words: readonly string[], timeoutMs: number): Promise<Examination> {
  return new Promise((resolve) => {
    const child = fork(script, words, { silent: true, timeout: timeoutMs, killSignal: 'SIGKILL' });
    let finding: Examination | undefined;
    let stderr = '';
    child.stdout?.resume();
    child.stderr?.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    child.on('message', (message) => {
      finding = message as Examination;
    });
    child.on('close', (status, signal) => {
      const said = lastWords(stderr);
      const end = signal === null ? `exit status ${status}` : `ended by ${signal}`;
      resolve(finding ?? { outcome: 'crashed', reason: said === '' ? end : `${end}: ${said}` });
    });
  });
}

function versions(backends: Readonly<Record<BackendName, Examination>>): Record<string, string> {
  const { tensorflow } = backends;
  const webgpu = webGpuPackageVersion();
  const libtensorflow = 'report' in tensorflow ? tensorflow.report.versions.tensorflow : undefined;
  return {
    tensortally: ownPackage().version,
    node: process.versions.node,
    tfjs: version_core,
    ...(webgpu === undefined ? {} : { webgpu }),
    ...(libtensorflow === undefined ? {} : { tensorflow: libtensorflow }),
  };
}
