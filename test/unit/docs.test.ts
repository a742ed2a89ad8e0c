/** The documents hold: their code runs as written, prints what they say, and names what is there. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { initBackend } from '../../src/kernels/index.js';
import {
  ROOT,
  anchorsOf,
  claimsOf,
  documents,
  exampleOf,
  holds,
  programOf,
  relativeLinksOf,
} from '../support/documents.js';

const all = documents();
const withCode = all.filter((document) => programOf(document) !== '');

describe('the code of the documents', () => {
  let folder: string;
  const home = process.cwd();

  beforeEach(async () => {
    await initBackend('cpu');
    folder = mkdtempSync(path.join(tmpdir(), 'tensortally-docs-'));
    process.chdir(folder); // documents write to `runs/`
  });
  afterEach(() => {
    vi.restoreAllMocks();
    process.chdir(home);
    rmSync(folder, { recursive: true });
  });

  test('is in README.md and docs/tracker.md, at least', () => {
    expect(withCode.map(({ path }) => path)).toEqual(
      expect.arrayContaining(['README.md', 'docs/tracker.md']),
    );
  });

  test.each(withCode.map((document) => [document.path, document] as const))(
    'of %s is a file in examples/docs, as a user would import it',
    (file, document) => {
      const example = readFileSync(path.join(ROOT, exampleOf(file)), 'utf8');
      expect(programOf(document)).toBe(example.replaceAll('../../src/index.js', 'tensortally'));
    },
  );

  test('has no example whose document is gone', () => {
    const examples = readdirSync(path.join(ROOT, 'examples/docs')).map((file) => `examples/docs/${file}`);
    expect(examples.sort()).toEqual(withCode.map(({ path }) => exampleOf(path)).sort());
  });

  test.each(withCode.map((document) => [document.path, document] as const))(
    'of %s runs to its end and prints what its comments say',
    async (file, document) => {
      const printed: unknown[] = [];
      vi.spyOn(console, 'log').mockImplementation((value: unknown) => {
        printed.push(value);
      });
      vi.spyOn(process.stdout, 'write').mockImplementation((...args: unknown[]) => {
        const written = args.at(-1); // tables of loggers
        if (typeof written === 'function') (written as () => void)();
        return true;
      });
      await import(`../../examples/docs/${path.posix.basename(exampleOf(file), '.ts')}.ts`);
      vi.restoreAllMocks();
      const claims = claimsOf(programOf(document));
      expect(printed).toHaveLength(claims.length);
      const untrue = claims.flatMap((claim, i) =>
        holds(claim, printed[i]) ? [] : [{ said: claim, printed: printed[i] }],
      );
      expect(untrue).toEqual([]);
    },
  );

  test('comments that are literals are held, prose is not', () => {
    const program =
      "console.log(a); // { 'k/avg': 0.33, … }\nconsole.log(\n  b,\n); // about 3\nconsole.log(c);\n// [1, …]\n";
    const [record, prose, list] = claimsOf(program);
    expect(holds(record, { 'k/avg': 1 / 3, more: 1 })).toBe(true);
    expect(holds(record, { 'k/avg': 0.34 })).toBe(false);
    expect(holds(record, { more: 1 })).toBe(false);
    expect(prose).toBeUndefined();
    expect(holds(list, [1])).toBe(false);
    expect(holds(claimsOf('console.log(x); // 3\n')[0], 3.001)).toBe(false);
    expect(holds(claimsOf('console.log(x); // 0.9\n')[0], 0.95)).toBe(false);
    expect(holds(claimsOf('console.log(x); // 0.95\n')[0], 0.95)).toBe(true);
    expect(holds(claimsOf('console.log(x); // { a: 1 }\n')[0], { a: 1, b: 2 })).toBe(false);
  });
});

describe('commands that documents name', () => {
  const { scripts } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>;
  };
  // Commands stand in shell blocks and in backticks.
  const shell = all
    .filter(({ path }) => path !== 'CHANGELOG.md')
    .flatMap(({ path, text, blocks }) => [
      ...blocks.filter(({ language }) => language === 'sh').map(({ code }) => ({ path, code })),
      ...[...text.matchAll(/`([^`\n]+)`/g)].map(([, code]) => ({ path, code: code! })),
    ]);

  test('with npm run are scripts of package.json', () => {
    const named = shell.flatMap(({ code }) => [...code.matchAll(/npm run (?:--silent )?([\w:]+)/g)]);
    expect(named.length).toBeGreaterThan(0);
    for (const [, script] of named) expect(scripts).toHaveProperty([script!]);
  });

  test('of tensortally are commands that it has', () => {
    const source = readFileSync(path.join(ROOT, 'src/cli/run-cli.ts'), 'utf8');
    const commands = /const commandNames = \[(.*?)\]/s.exec(source)![1]!.match(/[\w-]+/g)!;
    const named = shell.flatMap(({ code }) => [
      ...code.matchAll(/(?:^|npx |run )tensortally (?:-- )?([a-z][\w-]*)/gm),
      ...code.matchAll(/cli\/index\.js ([a-z][\w-]*)/g),
    ]);
    expect(named.length).toBeGreaterThan(0);
    expect(named.map(([, command]) => command!).filter((command) => !commands.includes(command))).toEqual([]);
  });

  test('have the options that are given with them', () => {
    const given = shell.flatMap(({ path: file, code }) =>
      [
        ...code.replaceAll('\\\n', ' ').matchAll(/(?:tensortally (?:-- )?|cli\/index\.js )([a-z-]+)(.*)/g),
      ].flatMap(([, command, rest]) =>
        [...rest!.replace(/[#|>].*/, '').matchAll(/ --([a-z][\w-]*)/g)].map(([, option]) => ({
          file,
          command: command!,
          option: option!,
        })),
      ),
    );
    expect(given.length).toBeGreaterThan(3);
    const unknown = given.filter(({ command, option }) => {
      const source = readFileSync(path.join(ROOT, `src/cli/${command}.ts`), 'utf8');
      return !new RegExp(`\\b'?${option}'?: \\{|\\('${option}'`).test(source);
    });
    expect(unknown).toEqual([]);
  });
});

describe('links of the documents', () => {
  /** Every file of the tarball; what the build makes is in `dist`, and no document links there. */
  const packed = packedFiles();
  const linking = documents({ generated: true }).filter(({ path }) => packed.has(path));

  test('the tarball has README, CHANGELOG, SECURITY, LICENSE and the documents', () => {
    expect([...packed]).toEqual(
      expect.arrayContaining(['README.md', 'CHANGELOG.md', 'SECURITY.md', 'LICENSE', 'docs/tracker.md']),
    );
  });

  test('end at files of the tarball, and at headings that are there', () => {
    const anchorsIn = new Map<string, Set<string>>();
    const hasAnchor = (file: string, anchor: string): boolean => {
      const known = anchorsIn.get(file) ?? new Set(anchorsOf(readFileSync(path.join(ROOT, file), 'utf8')));
      anchorsIn.set(file, known);
      return known.has(anchor);
    };
    const broken = linking.flatMap(({ path: from, text }) =>
      relativeLinksOf(text).flatMap((link) => {
        const [target, anchor] = link.split('#') as [string, string | undefined];
        const file = target === '' ? from : path.posix.join(path.posix.dirname(from), decodeURI(target));
        const isFolder = [...packed].some((one) => one.startsWith(`${file.replace(/\/$/, '')}/`));
        if (!packed.has(file) && !isFolder) return [`${from}: ${link}`];
        if (anchor === undefined || !file.endsWith('.md')) return [];
        return hasAnchor(file, anchor) ? [] : [`${from}: ${link}`];
      }),
    );
    expect(broken).toEqual([]);
  });

  test('of README lead to every page of docs/ that has no other way in', () => {
    const linked = new Set(
      linking.flatMap(({ path: from, text }) =>
        relativeLinksOf(text).map((link) =>
          path.posix.join(path.posix.dirname(from), link.split('#')[0]!).replace(/\/$/, ''),
        ),
      ),
    );
    const pages = all.map(({ path }) => path).filter((file) => /^docs\/[^/]+\.md$|^SECURITY/.test(file));
    expect(pages.filter((file) => !linked.has(file))).toEqual([]);
  });
});

test('docs/coming-from-areal.md meets every defect of its tracker', () => {
  const { text } = all.find(({ path }) => path === 'docs/coming-from-areal.md')!;
  const numbers = [...text.matchAll(/\(D(\d+)\)/g)].map(([, number]) => Number(number));
  expect(numbers).toEqual(Array.from({ length: 29 }, (_, i) => i + 1));
});

describe('SECURITY.md', () => {
  const { text } = all.find(({ path }) => path === 'SECURITY.md')!;
  const promises = text.split('\n').filter((line) => /^\| (?!it cannot|-)/.test(line));

  test('names a test for each of its promises', () => {
    expect(promises.length).toBeGreaterThan(15);
    expect(promises.filter((line) => !/\| test\/\S+\.test\.ts/.test(line))).toEqual([]);
  });

  test('names tests that are there', () => {
    const named = [...text.matchAll(/test\/[\w/.-]+\.test\.ts/g)].map(([file]) => file);
    expect(named.filter((file) => !existsSync(path.join(ROOT, file)))).toEqual([]);
  });
});

function packedFiles(): Set<string> {
  const [{ files }] = JSON.parse(
    execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
      cwd: ROOT,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }),
  ) as [{ files: { path: string }[] }];
  return new Set(files.map(({ path }) => path).filter((file) => existsSync(path.join(ROOT, file))));
}
