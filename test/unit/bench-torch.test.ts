/** The conversation with the torch peer, played by a program that is neither Python nor torch. */
import { chmodSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { TorchPeer, assertTorch, hostTensors } from '../../bench/peers/torch.js';
import { BackendError } from '../../src/errors.js';
import type { TorchWork } from '../../bench/scenario.js';
import { temporaryFolder } from './cli/fake-installation.js';

/** An executable that answers each line with what `answer(question)` says; it is told the tensors' raw bytes too. */
function interpreter(answer: string): string {
  const file = path.join(temporaryFolder(), 'python3');
  writeFileSync(
    file,
    `#!${process.execPath}
const { readFileSync, existsSync } = require('node:fs');
const answer = ${answer};
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const question = JSON.parse(line);
  for (const tensor of Object.values(question.tensors ?? {})) tensor.bytes = [...readFileSync(tensor.file)];
  console.log(JSON.stringify(answer(question, existsSync)));
});
`,
  );
  chmodSync(file, 0o755);
  return file;
}

const work: TorchWork = {
  task: 'data',
  tensors: hostTensors({ mask: Uint8Array.of(1, 0), x: Float32Array.of(1.5, -2) }, { mask: [2], x: [1, 2] }),
  parameters: { gpus: 8 },
  expected: {},
  closeness: { relative: 0, absolute: 0 },
};

afterEach(() => {
  vi.unstubAllEnvs();
});

describe('a Python for torch', () => {
  test('that is not there is refused before anything is measured', async () => {
    for (const none of ['', 'a\0b']) {
      await expect(assertTorch(none)).rejects.toThrow(BackendError);
      await expect(TorchPeer.start({ python: none, threads: 1 }, work)).rejects.toThrow(BackendError);
    }
    await expect(assertTorch(`${import.meta.dirname}/no-python`)).rejects.toThrow(
      /bench: --torch: expected .*torch.*ENOENT/,
    );
  });

  test('without torch is refused with its last words', async () => {
    const python = interpreter(
      `(console.error("ModuleNotFoundError: No module named 'torch'"), process.exit(1))`,
    );
    await expect(assertTorch(python)).rejects.toThrow("No module named 'torch'");
  });

  test('never runs what lies in the working directory', async () => {
    const folder = temporaryFolder();
    const python = path.join(folder, 'python3');
    // The words that Python is given take the working directory off its path before they import anything, and no
    // empty entry of PYTHONPATH puts it there again.
    vi.stubEnv('PYTHONPATH', ':/elsewhere');
    writeFileSync(
      python,
      `#!/bin/sh\n[ "$PYTHONPATH" = /elsewhere ] || exit 4\ncase "$3" in "import sys; del sys.path[0]; import "*) exit 0;; esac\nexit 3\n`,
    );
    chmodSync(python, 0o755);
    await expect(assertTorch(python)).resolves.toBeUndefined();
  });
});

describe('the torch peer', () => {
  test('hands over the work as raw numbers, once', async () => {
    const python = interpreter(`(() => {
      let loaded;
      return (question, exists) => {
        if (question.op !== 'load') return { numbers: { left: exists(loaded.tensors.x.file), ...flat(loaded) } };
        loaded = question;
        return { torch: '9.9' };
      };
      function flat({ task, threads, tensors, parameters: { gpus } }) {
        const { mask, x } = tensors;
        const values = new Float32Array(Uint8Array.from(x.bytes).buffer);
        return { threads, gpus, first: values[0], second: values[1], rank: x.shape.length, mask: mask.bytes.join(''),
          known: task === 'data' && mask.kind === 'mask' && x.kind === 'float32' };
      }
    })()`);
    const peer = await TorchPeer.start({ python, threads: 3 }, work);
    expect(peer.version).toBe('9.9');
    const told = { threads: 3, gpus: 8, first: 1.5, second: -2, rank: 2, mask: 10, known: 1 };
    expect(await peer.numbers()).toEqual({ ...told, left: 0 }); // the files are gone
    peer.stop();
  });

  test('times itself, and spells what JSON cannot say', async () => {
    const python = interpreter(
      `({ op, repeats }) => op === 'time' ? { ms: 2.5 * repeats } : { torch: '', numbers: { a: 'NaN', b: 'Infinity', c: '-Infinity', d: 1 } }`,
    );
    const peer = await TorchPeer.start({ python, threads: 1 }, work);
    expect(await peer.time(4)).toBe(10);
    expect(await peer.numbers()).toEqual({ a: NaN, b: Infinity, c: -Infinity, d: 1 });
    peer.stop();
  });

  test('that ends is a refusal with its last words', async () => {
    const python = interpreter(`() => { console.error("No module named 'torch'"); process.exit(1); }`);
    await expect(TorchPeer.start({ python, threads: 1 }, work)).rejects.toThrow(
      /bench: --torch: .*No module named 'torch'; name one with --torch/,
    );
  });
});
