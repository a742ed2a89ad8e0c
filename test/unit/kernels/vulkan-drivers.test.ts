/** Whether a Vulkan driver may be there: what the loader would look at, and nothing else. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';

import { mayHaveGpuDriver } from '../../../src/kernels/webgpu/vulkan-drivers.js';

/** An environment whose own search folders are empty; the system's folders stay what they are. */
function bare(): Record<string, string> & { HOME: string } {
  const home = mkdtempSync(path.join(tmpdir(), 'tensortally-vulkan-'));
  onTestFinished(() => {
    rmSync(home, { recursive: true });
  });
  return { HOME: home, XDG_CONFIG_DIRS: home, XDG_DATA_DIRS: home };
}

describe('mayHaveGpuDriver', () => {
  test('finds a manifest in a data folder', () => {
    const environment = bare();
    const folder = path.join(environment.HOME, '.local/share/vulkan/icd.d');
    mkdirSync(folder, { recursive: true });
    writeFileSync(path.join(folder, 'some_icd.json'), '{}');
    expect(mayHaveGpuDriver(environment, 'linux')).toBe(true);
  });

  test('believes a driver that is named', () => {
    expect(mayHaveGpuDriver({ ...bare(), VK_ICD_FILENAMES: '/some/icd.json' }, 'linux')).toBe(true);
    expect(mayHaveGpuDriver({ ...bare(), VK_DRIVER_FILES: '/some/icd.json' }, 'linux')).toBe(true);
  });

  test('does not take an empty folder or an empty variable for a driver', () => {
    const environment = { ...bare(), VK_ICD_FILENAMES: '' };
    mkdirSync(path.join(environment.HOME, 'vulkan/icd.d'), { recursive: true });
    // Only the system's own folders are left to decide, as without any of it.
    expect(mayHaveGpuDriver(environment, 'linux')).toBe(mayHaveGpuDriver(bare(), 'linux'));
  });

  test('asks nothing where the system brings its graphics API', () => {
    expect(mayHaveGpuDriver({}, 'darwin')).toBe(true);
    expect(mayHaveGpuDriver({}, 'win32')).toBe(true);
  });
});
