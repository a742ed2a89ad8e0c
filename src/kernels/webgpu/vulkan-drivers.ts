/**
 * Whether a Vulkan driver is installed, by the files that the Vulkan loader looks for.
 *
 * Asked before Dawn is started unasked: without a driver its native code prints warnings that nobody can catch. Only a
 * hint; a named backend is tried whatever this says.
 */
import { readdirSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';

/**
 * Whether Dawn has a chance to find an adapter: always true off Linux, where the system brings its graphics API.
 *
 * @source Vulkan-Loader, docs/LoaderDriverInterface.md, "Driver Discovery on Linux"
 */
export function mayHaveGpuDriver(
  environment: NodeJS.ProcessEnv = process.env,
  platform: NodeJS.Platform = process.platform,
): boolean {
  if (platform !== 'linux') return true;
  const named = ['VK_DRIVER_FILES', 'VK_ICD_FILENAMES', 'VK_ADD_DRIVER_FILES'];
  if (named.some((name) => (environment[name] ?? '') !== '')) return true;
  return searchPath(environment).some(holdsManifest);
}

function searchPath(environment: NodeJS.ProcessEnv): string[] {
  const home = environment.HOME ?? homedir();
  const list = (name: string, fallback: string): string[] => (environment[name] ?? fallback).split(':');
  return [
    ...list('XDG_CONFIG_HOME', path.join(home, '.config')),
    ...list('XDG_CONFIG_DIRS', '/etc/xdg'),
    '/usr/local/etc',
    '/etc',
    ...list('XDG_DATA_HOME', path.join(home, '.local/share')),
    ...list('XDG_DATA_DIRS', '/usr/local/share:/usr/share'),
    '/usr/local/share',
    '/usr/share',
  ].map((folder) => path.join(folder, 'vulkan/icd.d'));
}

function holdsManifest(folder: string): boolean {
  try {
    return readdirSync(folder).some((file) => file.endsWith('.json'));
  } catch {
    return false;
  }
}
