/**
 * The shape of the code base, asserted: which folder may import which, no cycles, small files, honest names.
 *
 * Imports are read by the TypeScript parser (static, re-exported, type-only and dynamic ones alike), not by patterns.
 */

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

import ts from 'typescript';
import { describe, expect, test } from 'vitest';

const ROOT = path.resolve(import.meta.dirname, '..');
const MAX_LINES = 400;

/** Paths of all TypeScript and JavaScript files under `folders`, relative to the root, with forward slashes. */
function sourcesUnder(...folders: readonly string[]): string[] {
  return folders
    .filter((folder) => existsSync(path.join(ROOT, folder)))
    .flatMap((folder) =>
      readdirSync(path.join(ROOT, folder), { recursive: true, encoding: 'utf8' })
        .filter((file) => /\.[cm]?[jt]s$/.test(file))
        .map((file) => path.posix.join(folder, file.split(path.sep).join('/'))),
    )
    .sort();
}

function textOf(file: string): string {
  return readFileSync(path.join(ROOT, file), 'utf8');
}

interface Import {
  readonly from: string;
  /** A package name, or the path of a file relative to the root. */
  readonly to: string;
  readonly isStatic: boolean;
}

function importsOf(file: string): Import[] {
  const source = ts.createSourceFile(file, textOf(file), ts.ScriptTarget.ESNext, true);
  const found: Import[] = [];
  const add = (specifier: ts.Node | undefined, isStatic: boolean): void => {
    if (specifier === undefined || !ts.isStringLiteralLike(specifier)) return;
    const to = specifier.text.startsWith('.')
      ? path.posix.join(path.posix.dirname(file), specifier.text).replace(/\.js$/, '.ts')
      : specifier.text;
    found.push({ from: file, to, isStatic });
  };
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) add(node.moduleSpecifier, true);
    if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) add(node.argument.literal, true);
    if (ts.isCallExpression(node)) {
      const isDynamic = node.expression.kind === ts.SyntaxKind.ImportKeyword;
      const isRequire = ts.isIdentifier(node.expression) && /require/i.test(node.expression.text);
      if (isDynamic || isRequire) add(node.arguments[0], false);
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

const sources = sourcesUnder('src');
const imports = sources.flatMap(importsOf);

/** The part of the design that a source file belongs to: a folder of src, or a file directly in it. */
function areaOf(file: string): string {
  const [, area] = file.split('/');
  return (area ?? file).replace(/\.ts$/, '');
}

/** Files that everything stands on: errors, checks of arguments, and what messages and the process need. */
const BASE = [
  'errors',
  'arguments',
  'printable',
  'promises',
  'warning',
  'meant-name',
  'process-wide',
  'own-package',
];

/** What each area may import from, besides itself. The cli is glue and may import anything. */
const ARROWS: Readonly<Record<string, readonly string[]>> = {
  printable: [],
  promises: [],
  'make-folder': [],
  'meant-name': [],
  'process-wide': [],
  'own-package': [],
  warning: ['printable'],
  errors: ['printable', 'promises'],
  arguments: ['errors', 'promises', 'meant-name'],
  rows: BASE,
  kernels: ['rows', ...BASE],
  metrics: ['kernels', 'rows', ...BASE],
  tracker: ['kernels', 'rows', ...BASE, 'make-folder'],
  index: ['kernels', 'metrics', 'tracker', 'errors'],
};

describe('imports', () => {
  test('the parser sees the imports of every kind', () => {
    expect(sources).toContain('src/errors.ts');
    expect(imports.length).toBeGreaterThan(sources.length);
    expect(imports).toContainEqual({
      from: 'src/kernels/moments/reference.ts',
      to: 'src/rows/index.ts',
      isStatic: true,
    });
  });

  test('run one way: cli → tracker | metrics → kernels → rows → errors', () => {
    const against = imports.filter(({ from, to }) => {
      const allowed = ARROWS[areaOf(from)];
      if (allowed === undefined || !to.startsWith('src/')) return false;
      return areaOf(to) !== areaOf(from) && !allowed.includes(areaOf(to));
    });
    expect(against).toEqual([]);
  });

  test('every area of src has its place in the arrows', () => {
    const placed = [...Object.keys(ARROWS), 'cli'];
    expect(sources.filter((file) => !placed.includes(areaOf(file)))).toEqual([]);
  });

  test('enter rows by its door', () => {
    const past = imports.filter(({ from, to }) => areaOf(to) === 'rows' && areaOf(from) !== 'rows');
    expect([...new Set(past.map(({ to }) => to))]).toEqual(['src/rows/index.ts']);
  });

  test.each(['src/rows/index.ts', 'src/tracker/stream/index.ts', 'src/tracker/loggers/index.ts'])(
    'of %s lead neither to tfjs nor to kernels',
    (entry) => {
      const reached = new Set([entry]);
      for (const file of reached) {
        for (const { from, to } of imports) if (from === file && sources.includes(to)) reached.add(to);
      }
      const loaded = imports.filter(({ from }) => reached.has(from)).map(({ to }) => to);
      expect(loaded.filter((to) => to.startsWith('@tensorflow') || to.startsWith('src/kernels'))).toEqual([]);
      expect(reached.size).toBeGreaterThan(5);
    },
  );

  test('only the cli reaches outside src', () => {
    const outside = imports.filter(
      ({ from, to }) => /^(bench|test|examples)\//.test(to) && areaOf(from) !== 'cli',
    );
    expect(outside).toEqual([]);
  });

  test('reach the bench from the cli alone, and only when it is asked for', () => {
    const reaching = imports.filter(({ to }) => to.startsWith('bench/'));
    expect(reaching).not.toEqual([]);
    expect(reaching.filter(({ from, isStatic }) => areaOf(from) !== 'cli' || isStatic)).toEqual([]);
  });

  test('of the bench stay in what is published: src and bench', () => {
    const benchImports = sourcesUnder('bench').flatMap(importsOf);
    expect(benchImports).not.toEqual([]);
    expect(benchImports.filter(({ to }) => /^(test|examples)\//.test(to))).toEqual([]);
  });

  test('relative imports name files that exist', () => {
    const missing = imports.filter(({ to }) => to.startsWith('src/') && !existsSync(path.join(ROOT, to)));
    expect(missing).toEqual([]);
  });

  test('form no cycles', () => {
    const graph = new Map(
      sources.map((file) => [file, imports.filter(({ from }) => from === file).map(({ to }) => to)]),
    );
    const done = new Set<string>();
    const cycles: string[] = [];
    const walk = (file: string, trail: readonly string[]): void => {
      if (trail.includes(file)) {
        cycles.push([...trail.slice(trail.indexOf(file)), file].join(' → '));
        return;
      }
      if (done.has(file)) return;
      for (const next of graph.get(file) ?? []) walk(next, [...trail, file]);
      done.add(file);
    };
    for (const file of sources) walk(file, []);
    expect(cycles).toEqual([]);
  });

  test('never name a node package statically: importing one switches the global backend', () => {
    const eager = imports.filter(({ to, isStatic }) => isStatic && to.startsWith('@tensorflow/tfjs-node'));
    expect(eager).toEqual([]);
  });

  test('load backends only when they are asked for', () => {
    const eager = imports.filter(
      ({ to, isStatic }) => isStatic && (to === 'webgpu' || to.startsWith('@tensorflow/tfjs-backend-')),
    );
    const runtime = eager.filter(({ from, to }) => importsValues(from, to));
    expect(runtime).toEqual([]);
  });

  test('take tfjs-core, never the tfjs union', () => {
    expect(imports.filter(({ to }) => to === '@tensorflow/tfjs')).toEqual([]);
    const kernels = imports.filter(
      ({ from, to }) => areaOf(from) === 'kernels' && to.startsWith('@tensorflow/'),
    );
    expect(kernels.filter(({ to }) => to === '@tensorflow/tfjs-core')).not.toEqual([]);
  });
});

/** Whether a static import of `to` in `file` survives compilation: anything but `import type`. */
function importsValues(file: string, to: string): boolean {
  const source = ts.createSourceFile(file, textOf(file), ts.ScriptTarget.ESNext, true);
  return source.statements.some(
    (statement) =>
      ts.isImportDeclaration(statement) &&
      ts.isStringLiteral(statement.moduleSpecifier) &&
      statement.moduleSpecifier.text === to &&
      statement.importClause?.phaseModifier !== ts.SyntaxKind.TypeKeyword,
  );
}

describe('files', () => {
  const files = sourcesUnder('src', 'bench', 'examples', 'test');

  test(`have at most ${MAX_LINES} lines`, () => {
    const long = files
      .map((file) => ({ file, lines: textOf(file).trimEnd().split('\n').length }))
      .filter(({ lines }) => lines > MAX_LINES);
    expect(long).toEqual([]);
  });

  test('are at most a dozen in a folder of src', () => {
    const folders = [...new Set(sources.map((file) => path.posix.dirname(file)))];
    const filesIn = (folder: string): number =>
      sources.filter((file) => path.posix.dirname(file) === folder).length;
    expect(folders.filter((folder) => filesIn(folder) > 12)).toEqual([]);
  });

  test('say what they are in a header comment', () => {
    // The files in examples/docs are the blocks of a document, which says what they are.
    const own = files.filter((file) => !file.startsWith('examples/docs/'));
    const mute = own.filter((file) => !/^(#!.*\n)?\s*\/\*\*/.test(textOf(file)));
    expect(mute).toEqual([]);
  });

  test('have kebab-case names', () => {
    // Golden tests carry the name of their suite.
    const ours = files.filter((file) => !file.startsWith('test/golden/'));
    const odd = ours.filter((file) => !/^[a-z0-9-]+(\.[a-z0-9-]+)*$/.test(path.posix.basename(file)));
    expect(odd).toEqual([]);
  });

  test('are no drawers', () => {
    const drawer = /^(utils?|helpers?|common|misc|managers?|shared|stuff)$/;
    const named = files.filter((file) => file.split(/[/.-]/).some((word) => drawer.test(word)));
    expect(named).toEqual([]);
  });
});
