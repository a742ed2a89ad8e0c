/** The errors of logging: a destination that cannot be written, and a commit that not every destination took. */
import { kindOf, messageOf } from '../../arguments.js';
import { type ErrorDetail, TensortallyError, ValueError } from '../../errors.js';

/** A file that could not be opened, written or closed; the operating system's error is the `cause`. */
export class LogWriteError extends TensortallyError {
  static override readonly kind: string = 'log_write';
  readonly code: string = 'log_write';
  /** The file at fault. */
  readonly path: string;

  constructor(path: string, detail: ErrorDetail, options?: ErrorOptions) {
    super(detail, options);
    this.path = path;
  }
}

/** A journal that another writer has open: two at once would mix their lines. */
export class JournalHeldError extends LogWriteError {
  static override readonly kind: string = 'journal_held';
  override readonly code = 'journal_held';
  /** The process that writes it; undefined if its lock does not say. */
  readonly holder: { readonly pid: number; readonly host: string } | undefined;

  constructor(path: string, detail: ErrorDetail, holder: JournalHeldError['holder']) {
    super(path, detail);
    this.holder = holder;
  }
}

/** A journal that could not be read; the operating system's error is the `cause`. */
export class LogReadError extends TensortallyError {
  static override readonly kind: string = 'log_read';
  readonly code = 'log_read';
  readonly path: string;

  constructor(path: string, detail: ErrorDetail, options?: ErrorOptions) {
    super(detail, options);
    this.path = path;
  }
}

/** Destinations that failed while all of them were tried. The others have what they were given. */
export class CommitError extends TensortallyError {
  static override readonly kind: string = 'commit';
  readonly code = 'commit';
  /** What each failing destination threw. */
  readonly errors: readonly Error[];

  constructor(detail: ErrorDetail, errors: readonly Error[]) {
    super(detail, { cause: errors[0] });
    this.errors = errors;
  }
}

/** Errno codes that people meet, and what they can do. */
const REMEDIES: Readonly<Record<string, string>> = {
  ENOSPC: 'free space on the disk, or log to another one',
  EDQUOT: 'free space in your quota, or log to another disk',
  EACCES: 'make the folder writable for this user, or choose another one',
  EPERM: 'make the folder writable for this user, or choose another one',
  EROFS: 'choose a folder on a writable file system',
  ENOENT: 'a folder of the path could not be made: choose a path on a file system that takes new folders',
  EISDIR: 'choose a path that is not a folder',
  ENOTDIR: 'choose a path whose parents are all folders',
  ELOOP: 'choose a path without symbolic links',
  EPIPE: 'keep the reader of the pipe alive, or write to a file',
  EMFILE: 'raise the limit of open files (ulimit -n)',
};

/** The code of an error of the system; whatever was thrown. */
export function codeOf(thrown: unknown): string | undefined {
  const code = (thrown as { readonly code?: unknown } | null | undefined)?.code;
  return typeof code === 'string' ? code : undefined;
}

/** The typed form of an error of the file system; one that is typed stays as it is. */
export function logWriteError(where: string, path: string, error: unknown): LogWriteError {
  if (error instanceof LogWriteError) return error;
  const code = codeOf(error);
  return new LogWriteError(
    path,
    {
      where,
      input: path,
      expected: 'a file that can be written',
      received: code ?? messageOf(error),
      remedy: REMEDIES[code ?? ''] ?? 'check the path, or choose another one',
    },
    { cause: error },
  );
}

export function logReadError(where: string, path: string, error: unknown): LogReadError {
  const code = codeOf(error);
  return new LogReadError(
    path,
    {
      where,
      input: path,
      expected: 'a file that can be read',
      received: code ?? messageOf(error),
      remedy: 'check the path, and that this user may read it',
    },
    { cause: error },
  );
}

/** @throws ValueError for anything that cannot be the path of a file */
export function assertPath(where: string, path: string): void {
  if (typeof path === 'string' && path !== '') return;
  throw new ValueError({
    where,
    input: 'path',
    expected: 'the path of a file',
    received: kindOf(path),
    remedy: "name one, e.g. 'logs/metrics.jsonl'",
  });
}
