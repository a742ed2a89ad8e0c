/**
 * Test projects: `unit` needs no particular backend, `backend:<name>` runs the shared bodies on one backend.
 *
 * Which backend projects a run has is decided in test/support/backend-probes.ts. What is left out is said aloud.
 */

import { defineConfig, type TestProjectInlineConfiguration } from 'vitest/config';

import { backendNames } from './src/kernels/backend-names.js';
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

const unit: TestProjectInlineConfiguration = {
  test: {
    name: 'unit',
    include: [
      'test/unit/**/*.test.ts',
      'test/laws/**/*.test.ts',
      'test/types/**/*.test.ts',
      'test/golden/areal.*.test.ts',
      'test/support/**/*.test.ts',
      'test/architecture.test.ts',
    ],
    setupFiles,
    testTimeout: 20_000,
    hookTimeout: 20_000,
  },
};

const backends = run.map((name): TestProjectInlineConfiguration => ({
  test: {
    name: `backend:${name}`,
    include: ['test/backend/**/*.test.ts', 'test/golden/{moments,verl.*}.test.ts'],
    // `<topic>.<backend>.test.ts` is about one backend alone.
    exclude: backendNames.filter((other) => other !== name).map((other) => `**/*.${other}.test.ts`),
    env: { TENSORTALLY_TEST_BACKEND: name },
    setupFiles,
    // A guard against a hung device, not a claim of speed: software WebGPU needs tens of seconds for 2^24 elements.
    testTimeout: 180_000,
    hookTimeout: 60_000,
  },
}));

export default defineConfig({
  test: {
    // Native backends live in the process, so every file gets one of its own.
    pool: 'forks',
    maxWorkers: 2,
    projects: [unit, ...backends],
  },
});
