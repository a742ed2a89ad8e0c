/** Where this package lies and which version it is, from the sources as well as from the build. */
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export function ownPackage(): { readonly directory: string; readonly version: string } {
  let directory = path.dirname(fileURLToPath(import.meta.url));
  while (!existsSync(path.join(directory, 'package.json'))) directory = path.dirname(directory);
  const { version } = JSON.parse(readFileSync(path.join(directory, 'package.json'), 'utf8')) as {
    readonly version: string;
  };
  return { directory, version };
}
