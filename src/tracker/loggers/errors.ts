/** The errors of logging: a destination that cannot be written, and a commit that not every destination took. */
import { type ErrorDetail, TensortallyError } from '../../errors.js';

/** A file that could not be opened, written or closed; the operating system's error is the `cause`. */
export class LogWriteError extends TensortallyError {
  readonly code = 'log_write';
  /** The file at fault. */
  readonly path: string;

  constructor(path: string, detail: ErrorDetail, options?: ErrorOptions) {
    super(detail, options);
    this.path = path;
  }
}

/** Destinations that failed while all of them were tried. The others have what they were given. */
export class CommitError extends TensortallyError {
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
  EISDIR: 'choose a path that is not a folder',
  ENOTDIR: 'choose a path whose parents are all folders',
  EPIPE: 'keep the reader of the pipe alive, or write to a file',
  EMFILE: 'raise the limit of open files (ulimit -n)',
};

/** The typed form of an error of the file system. */
export function logWriteError(where: string, path: string, error: unknown): LogWriteError {
  const { code, message } = error as NodeJS.ErrnoException;
  return new LogWriteError(
    path,
    {
      where,
      input: path,
      expected: 'a file that can be written',
      received: code ?? message,
      remedy: REMEDIES[code ?? ''] ?? 'check the path, or choose another one',
    },
    { cause: error },
  );
}
