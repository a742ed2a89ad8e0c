/** The documents of the package: their code, their links, and what their comments say that code prints. */
import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { runInNewContext } from 'node:vm';

export const ROOT = path.resolve(import.meta.dirname, '../..');

export interface CodeBlock {
  readonly language: string;
  readonly code: string;
}

export interface Document {
  /** Relative to the root, with forward slashes. */
  readonly path: string;
  readonly text: string;
  readonly blocks: readonly CodeBlock[];
}

/** README, CHANGELOG, SECURITY and everything in docs/; not what typedoc writes unless asked for. */
export function documents({ generated = false } = {}): Document[] {
  const inDocs = readdirSync(path.join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' })
    .map((file) => path.posix.join('docs', file.split(path.sep).join('/')))
    .filter((file) => file.endsWith('.md') && (generated || !file.startsWith('docs/api/')))
    .sort();
  return ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md', 'bench/gpu.md', ...inDocs].map(
    (file) => {
      const text = readFileSync(path.join(ROOT, file), 'utf8');
      return { path: file, text, blocks: blocksOf(text) };
    },
  );
}

function blocksOf(text: string): CodeBlock[] {
  return [...text.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)].map(([, language, code]) => ({
    language: language!,
    code: code!,
  }));
}

/** Where the code of a document is kept as a file that is compiled, linted and run. */
export function exampleOf(document: string): string {
  return `examples/docs/${path.posix.basename(document, '.md').toLowerCase()}.ts`;
}

/** The TypeScript of a document as one module, in order. */
export function programOf({ blocks }: Document): string {
  return blocks
    .filter(({ language }) => language === 'ts')
    .map(({ code }) => code)
    .join('\n');
}

/** What links name a place of a page by: anchors in HTML, and those that GitHub makes of headings. */
export function anchorsOf(text: string): string[] {
  const prose = text.replaceAll(/^```[\s\S]*?^```$/gm, '');
  const seen = new Map<string, number>();
  const written = [...prose.matchAll(/<a id="([^"]+)">/g)].map(([, id]) => id!);
  const ofHeadings = [...prose.matchAll(/^#+ (.*)$/gm)].map(([, heading]) => {
    const anchor = heading!
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-');
    const before = seen.get(anchor) ?? 0;
    seen.set(anchor, before + 1);
    return before === 0 ? anchor : `${anchor}-${before}`;
  });
  return [...written, ...ofHeadings];
}

/** Targets of the links of a document to other files of the package, and to headings. */
export function relativeLinksOf(text: string): string[] {
  const prose = text.replaceAll(/^```[\s\S]*?^```$/gm, '').replaceAll(/`[^`\n]*`/g, '');
  return [...prose.matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, target]) => target!)
    .filter((target) => !/^[a-z]+:/.test(target));
}

/** Stands for any value in what a comment says. */
const ANYTHING = Symbol('…');
/** Is a member of an object of which a comment shows a part. */
const AND_MORE = '…';

/**
 * What the comments behind the `console.log(…)` of a program say it prints, in order: a literal in which `…` stands for
 * any value, or as the last member for further ones. Undefined where the comment is prose, or is not there.
 */
export function claimsOf(program: string): unknown[] {
  return [...program.matchAll(/console\.log\([\s\S]*?\);(?: *\n? *\/\/ (.*)((?:\n *\/\/ .*)*))?/g)].map(
    ([, first, further]) => {
      if (first === undefined) return undefined;
      return literalOf(
        [first, ...further!.split('\n').map((line) => line.replace(/^ *\/\/ /, ''))].join(' '),
      );
    },
  );
}

/** The value that a comment writes as a literal; undefined for prose. */
export function literalOf(comment: string): unknown {
  if (!/^[[{'"\d-]|^(NaN|Infinity|true|false|null)\b/.test(comment)) return undefined;
  const literal = comment
    .replaceAll(/([:[,]) *…(?! *\})/g, '$1 ANYTHING')
    .replaceAll(/… *\}/g, `${JSON.stringify(AND_MORE)}: true }`);
  return runInNewContext(`(${literal})`, { ANYTHING }) as unknown;
}

/** Decimals that a shortened number has at least; one that shows fewer has to be what is printed, but for float32. */
const SHORTENED_DECIMALS = 2;

/** Whether a printed value is what a comment says: numbers to the digits that are shown, those with fewer than two decimals exactly. */
export function holds(claim: unknown, printed: unknown): boolean {
  if (claim === ANYTHING || claim === undefined) return true;
  if (typeof claim === 'number' && typeof printed === 'number') {
    const digits = /\.(\d+)$/.exec(String(claim))?.[1]?.length ?? 0;
    const tolerance =
      digits === 0 ? 0 : digits < SHORTENED_DECIMALS ? 2 ** -22 * Math.abs(claim) : 0.5000001 * 10 ** -digits;
    return Object.is(claim, printed) || Math.abs(claim - printed) <= tolerance;
  }
  if (typeof claim !== 'object' || claim === null) return Object.is(claim, printed);
  if (typeof printed !== 'object' || printed === null) return false;
  const members = Object.keys(claim).filter((name) => name !== AND_MORE);
  if (!(AND_MORE in claim) && members.length !== Object.keys(printed).length) return false;
  return members.every(
    (name) =>
      Object.hasOwn(printed, name) &&
      holds((claim as Record<string, unknown>)[name], (printed as Record<string, unknown>)[name]),
  );
}
