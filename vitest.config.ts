/**
 * Test projects: `unit` needs no particular backend, `backend:<name>` runs the shared bodies on one backend.
 *
 * `backend:<name>-alone` has the files that change what a process has only once (mocks, warnings, registered backends).
 * On `cpu` and `wasm` all other files share a process per worker, since loading TensorFlow.js for each takes longer than
 * most of the tests; GPU drivers get a process for every file.
 *
 * Which backend projects a run has is decided in test/support/backend-probes.ts. What is left out is said aloud.
 */

import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config';

import { backendNames } from './src/kernels/backends/names.js';
import { chooseBackends } from './test/support/backend-probes.js';

/** Probing loads native code; a run that asks for the unit project alone does not need it. */
const asked = process.argv.flatMap((argument, i, all) =>
  argument === '--project' ? [all[i + 1]] : argument.startsWith('--project=') ? [argument.slice(10)] : [],
);
const onlyUnit = asked.length > 0 && asked.every((project) => project === 'unit');
const { run, leftOut } = onlyUnit
  ? { run: [], leftOut: [] }
  : chooseBackends(process.env.TENSORTALLY_TEST_BACKENDS);
for (const { name, reason } of leftOut) console.warn(`not tested here: ${name} (${reason})`);

const setupFiles = ['test/support/matchers.ts'];

/** Golden suites of what never touches a tensor. */
const HOST_GOLDEN = ['test/golden/{areal.*,pass_at_k,verl.{validation,bootstrap,reduce_metrics}}.test.ts'];

const unit: TestProjectInlineConfiguration = {
  test: {
    name: 'unit',
    include: [
      'test/unit/**/*.test.ts',
      'test/laws/**/*.test.ts',
      'test/types/**/*.test.ts',
      ...HOST_GOLDEN,
      'test/support/**/*.test.ts',
      'test/architecture.test.ts',
    ],
    setupFiles,
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
};

/** What has a path of its own on a GPU, see test/support/backend.ts. */
const DEVICE_BODIES = [
  'test/backend/{moments*,*-metrics,*laws,expressions,channel-refusals,large,casts,counts}.test.ts',
  'test/backend/{variance-proxy,rollout-correction*,step-*,one-step*,tensors-handed-out,logits,logits-refusals,masks,mask-refusals,histogram*,tracker}.test.ts',
  'test/backend/op-faults.tensorflow.test.ts',
  'test/golden/**/*.test.ts',
];

/** What needs a process of its own. */
const ALONE = [
  'test/backend/{logits-gradient,tracker-model,tracker-soak,removed,tracker-removed,memory-growth,backends}.test.ts',
  'test/backend/{plain-loops.cpu,heap-growth.wasm}.test.ts',
];

const backends = run.flatMap((name): TestProjectInlineConfiguration[] => {
  // `<topic>.<backend>.test.ts` is about one backend alone.
  const foreign = backendNames.filter((other) => other !== name).map((other) => `**/*.${other}.test.ts`);
  const project = {
    include: ['test/backend/**/*.test.ts', 'test/golden/**/*.test.ts'],
    exclude: [...HOST_GOLDEN, ...foreign],
    setupFiles,
    // A guard against a hung device, not a claim of speed: software WebGPU needs tens of seconds for 2^24 elements.
    testTimeout: 180_000,
    hookTimeout: 180_000,
  };
  const env = { TENSORTALLY_TEST_BACKEND: name };
  if (name === 'cpu' || name === 'wasm') {
    const shared = { name: `backend:${name}`, isolate: false, exclude: [...project.exclude, ...ALONE] };
    const alone = { name: `backend:${name}-alone`, include: ALONE, exclude: foreign };
    return [{ test: { ...project, ...shared, env } }, { test: { ...project, ...alone, env } }];
  }
  const projects = [{ test: { ...project, name: `backend:${name}`, env } }];
  if (name === 'webgpu') return projects;
  const onGpu = { name: 'backend:tensorflow-gpu', env: { ...env, TENSORTALLY_TEST_DEVICE: 'gpu' } };
  return [...projects, { test: { ...project, include: DEVICE_BODIES, ...onGpu } }];
});

export default defineConfig({
  test: {
    // Native backends live in the process, so every file gets one of its own.
    pool: 'forks',
    maxWorkers: 2,
    projects: [unit, ...backends],
  },
});
