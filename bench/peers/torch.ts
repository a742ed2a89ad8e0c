/**
 * The torch peer: the same work in a Python process that answers one JSON line with another.
 *
 * Inputs go through files of raw numbers, so that both sides compute from the same bits and their results can be
 * compared. The peer times itself; what its pipe takes is not counted.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { lastWords, trustedEnvironment } from '../../src/cli/link/run-command.js';
import { ownPackage } from '../../src/own-package.js';
import { BackendError } from '../../src/errors.js';
import type { Numbers } from '../agreement.js';
import type { TimedWay } from '../measure/interleaved.js';
import type { HostTensor, HostTensors, TorchWork } from '../scenario.js';

/** Arrays with the shapes that belong to them. */
export function hostTensors<K extends string>(
  arrays: Readonly<Record<K, HostTensor['values']>>,
  shapes: Readonly<Record<K, readonly number[]>>,
): HostTensors {
  const names = Object.keys(shapes) as K[];
  return Object.fromEntries(names.map((name) => [name, { values: arrays[name], shape: shapes[name] }]));
}

/** What `TorchPeer.start` needs. */
export interface TorchOptions {
  /** A Python in which `import torch` works. */
  readonly python: string;
  readonly threads: number;
}

type Answer = Readonly<Record<string, unknown>>;

/** A running peer that has loaded its work. */
export class TorchPeer implements TimedWay {
  /** Version of torch, as it says itself. */
  readonly version: string;
  readonly #child: ChildProcess;
  readonly #ask: (question: object) => Promise<Answer>;

  private constructor(version: string, child: ChildProcess, ask: (question: object) => Promise<Answer>) {
    this.version = version;
    this.#child = child;
    this.#ask = ask;
  }

  /**
   * Starts Python and hands the work over.
   *
   * @throws BackendError if that Python or its torch does not start, or the peer's script is not there
   */
  static async start({ python, threads }: TorchOptions, work: TorchWork): Promise<TorchPeer> {
    const script = path.join(ownPackage().directory, 'bench', 'peers', 'torch_peer.py');
    if (!existsSync(script)) throw refusal(`${script} to exist`, 'no such file', 'run it from a clone');
    const folder = await mkdtemp(path.join(tmpdir(), 'tensortally-bench-'));
    let child: ChildProcess | undefined;
    try {
      child = startedBy(() =>
        spawn(python, ['-B', script], {
          stdio: ['pipe', 'pipe', 'pipe'],
          env: trustedEnvironment(process.env),
        }),
      );
      const ask = conversation(child);
      const tensors: Record<string, object> = {};
      for (const [name, { values, shape }] of Object.entries(work.tensors)) {
        const file = path.join(folder, `${Object.keys(tensors).length}.raw`);
        await writeFile(file, values);
        const kind =
          values instanceof Float32Array ? 'float32' : values instanceof Int32Array ? 'int32' : 'mask';
        tensors[name] = { file, shape, kind };
      }
      const { task, parameters } = work;
      const { torch } = await ask({ op: 'load', task, threads, tensors, parameters });
      return new TorchPeer(String(torch), child, ask);
    } catch (error) {
      child?.kill();
      throw error;
    } finally {
      await rm(folder, { recursive: true, force: true }); // loaded, or never will be
    }
  }

  async time(repeats: number): Promise<number> {
    const { ms } = await this.#ask({ op: 'time', repeats });
    return Number(ms);
  }

  /** The results of one run. */
  async numbers(): Promise<Numbers> {
    const { numbers } = await this.#ask({ op: 'numbers' });
    // JSON has no NaN and no infinities: the peer spells them.
    return Object.fromEntries(Object.entries(numbers as object).map(([key, value]) => [key, Number(value)]));
  }

  stop(): void {
    this.#child.kill();
  }
}

/**
 * Refuses a Python that cannot import torch, before anything is measured.
 *
 * @throws BackendError with what that Python said
 */
export async function assertTorch(python: string): Promise<void> {
  if (python === '') throw refusal('a Python that has torch', 'an empty name', 'name one with --torch');
  // With -c the first entry of the path is the working directory, whose files are not to be run.
  const child = startedBy(() =>
    spawn(python, ['-B', '-c', 'import sys; del sys.path[0]; import torch'], {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: trustedEnvironment(process.env),
    }),
  );
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said = (said + text).slice(-4000)));
  let received: string;
  try {
    const [status] = (await once(child, 'close')) as [number | null];
    if (status === 0) return;
    received = lastWords(said) || `exit status ${String(status)}`;
  } catch (error) {
    received = (error as Error).message;
  }
  throw refusal('a Python that has torch', received, 'name one with --torch');
}

/** A child process; what `spawn` throws at once, for a name that no program can have, is a refusal as well. */
function startedBy<T>(start: () => T): T {
  try {
    return start();
  } catch (error) {
    throw refusal('a Python that has torch', (error as Error).message, 'name one with --torch');
  }
}

/** Questions and answers, one line each; after the peer's end every question rejects with what it said last. */
function conversation(child: ChildProcess): (question: object) => Promise<Answer> {
  let said = '';
  let ended: Error | undefined;
  const waiting: { resolve: (answer: Answer) => void; reject: (error: Error) => void }[] = [];
  const end = (received: string): void => {
    ended ??= refusal('a Python process with torch that answers', received, 'name one with --torch');
    for (const { reject } of waiting.splice(0)) reject(ended);
  };
  child.stderr!.setEncoding('utf8').on('data', (text: string) => (said = (said + text).slice(-4000)));
  child.stdin!.on('error', () => undefined); // its end is heard below
  child.on('error', ({ message }) => {
    end(message);
  });
  child.on('close', (status) => {
    end(lastWords(said) === '' ? `exit status ${String(status)}` : lastWords(said));
  });
  createInterface({ input: child.stdout! }).on('line', (line) => {
    waiting.shift()?.resolve(JSON.parse(line) as Answer);
  });
  return (question) =>
    new Promise((resolve, reject) => {
      if (ended !== undefined) {
        reject(ended);
        return;
      }
      waiting.push({ resolve, reject });
      child.stdin!.write(`${JSON.stringify(question)}\n`);
    });
}

function refusal(expected: string, received: string, remedy: string): BackendError {
  return new BackendError({ where: 'bench', input: '--torch', expected, received, remedy });
}
