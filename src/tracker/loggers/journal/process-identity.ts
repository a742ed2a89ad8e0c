/**
 * Who holds a lock: a process, named so that it is not taken for another one that got its number later, on another
 * machine or in another container.
 */
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { basename } from 'node:path';

export interface ProcessIdentity {
  readonly pid: number;
  readonly host: string;
  /** The boot of the machine; Linux only, as the next two. */
  readonly boot?: string | undefined;
  /** The container: process ids mean something inside their namespace only. */
  readonly namespace?: string | undefined;
  /** Clock ticks from the boot to the start of the process: a number that is used again has another start. */
  readonly started?: string | undefined;
  /** The thread of the process that holds the lock: one that is terminated gives nothing back, and its process lives on. */
  readonly task?: { readonly id: number; readonly started: string } | undefined;
}

export function ownIdentity(): ProcessIdentity {
  return {
    pid: process.pid,
    host: hostname(),
    boot: bootId(),
    namespace: pidNamespace(),
    started: statusOf('self')?.started,
    task: ownTask(),
  };
}

export function isSame(a: ProcessIdentity, b: ProcessIdentity): boolean {
  const parts = ['pid', 'host', 'boot', 'namespace', 'started'] as const;
  return parts.every((part) => a[part] === b[part]);
}

/**
 * Whether a process, and its thread that holds the lock, still run, as far as it can be known from here.
 *
 * `unknown` on another host and in another container of the same boot. A host that has booted since has none of its
 * processes left.
 */
export function fateOf(holder: ProcessIdentity): 'running' | 'dead' | 'unknown' {
  const own = ownIdentity();
  if (holder.host !== own.host) return 'unknown';
  if (isKnown(holder.boot, own.boot) && holder.boot !== own.boot) return 'dead';
  if (isKnown(holder.namespace, own.namespace) && holder.namespace !== own.namespace) return 'unknown';
  if (!exists(holder.pid)) return 'dead';
  const found = statusOf(holder.pid);
  if (found === undefined) return 'running';
  if (found.isGone || (holder.started !== undefined && found.started !== holder.started)) return 'dead';
  if (holder.task === undefined || holder.started === undefined) return 'running';
  const task = statusOf(`${String(holder.pid)}/task/${String(holder.task.id)}`);
  return task === undefined || task.isGone || task.started !== holder.task.started ? 'dead' : 'running';
}

function isKnown(theirs: string | undefined, ours: string | undefined): boolean {
  return theirs !== undefined && ours !== undefined;
}

function exists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // A process of another user exists, too.
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}

/** The thread that this runs in, as the system numbers it; undefined where /proc does not tell. */
function ownTask(): ProcessIdentity['task'] {
  let id: number;
  try {
    id = Number(basename(readlinkSync('/proc/thread-self')));
  } catch {
    return undefined;
  }
  const started = statusOf('thread-self')?.started;
  return started === undefined ? undefined : { id, started };
}

/** From /proc/<process>/stat, also of <pid>/task/<thread>; undefined where there is no such file. */
function statusOf(
  process: number | string,
): { readonly started: string; readonly isGone: boolean } | undefined {
  const text = textOf(`/proc/${String(process)}/stat`);
  if (text === undefined) return undefined;
  // The second field is the name of the program in parentheses, which may hold blanks and parentheses itself.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const [state = '', started = ''] = [fields[0], fields[19]];
  // A zombie has ended; only its parent has not looked yet.
  return { started, isGone: state === 'Z' || state === 'X' };
}

function bootId(): string | undefined {
  return textOf('/proc/sys/kernel/random/boot_id')?.trim();
}

function pidNamespace(): string | undefined {
  try {
    return readlinkSync('/proc/self/ns/pid');
  } catch {
    return undefined;
  }
}

function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}
