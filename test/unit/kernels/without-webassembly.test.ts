/** Machines whose WebAssembly lacks memory, SIMD or everything: what runs there, and what is refused with which remedy. */
import { beforeAll, expect, test } from 'vitest';

import { type NodeRun, compiledPackage, runNode } from '../../support/compiled.js';

interface Told {
  readonly report?: {
    readonly backend: string;
    readonly kernels: Record<string, string>;
    readonly plain?: { readonly reason: string; readonly remedy: string };
  };
  readonly error?: { readonly name: string; readonly message: string; readonly remedy: string };
  readonly mean?: number;
  readonly logProb?: number;
  readonly median?: number;
  readonly masked?: number;
}

/** Starts backends in a process of its own and uses every operation where one starts. */
function start(backends: readonly string[], run: NodeRun): Told[] {
  const { stdout, stderr } = runNode(
    `
      import * as tf from '@tensorflow/tfjs-core';
      import { initBackend, maskedMoments, maskedHistograms, logitsStatistics, compactMask } from 'tensortally/kernels';
      const all = [];
      for (const backend of ${JSON.stringify(backends)}) {
        const told = {};
        all.push(told);
        try {
          told.report = await initBackend(backend);
          const x = tf.tensor1d([1, 2, 3, NaN]);
          const mask = compactMask(tf.tensor1d([1, 1, 1, 0], 'bool'));
          told.mean = (await maskedMoments(x, mask)).mean;
          told.masked = (await maskedMoments(x, tf.tensor1d([0, 1, 1, 0]))).sum;
          const { logProbs } = logitsStatistics(tf.tensor2d([[0, 0]]), tf.tensor1d([1], 'int32'));
          told.logProb = (await logProbs.data())[0];
          told.median = (await maskedHistograms({ x }, mask)).x.quantile(0.5);
        } catch (error) {
          const { name, message, remedy } = error;
          told.error = { name, message, remedy };
        }
      }
      console.log(JSON.stringify(all));
      process.exit();
    `,
    run,
  );
  const line = stdout.trim().split('\n').at(-1) ?? '';
  if (!line.startsWith('[')) throw new Error(`${stdout}\n${stderr}`);
  return JSON.parse(line) as Told[];
}

/** A process takes a second, and many times that on a machine that is busy. */
const SOON = 90_000;

beforeAll(() => {
  compiledPackage();
}, SOON);

const LACKS: readonly (readonly [string, NodeRun, reason: RegExp, remedy: RegExp])[] = [
  [
    'addresses for a WebAssembly memory',
    { addresses: 6_000_000 },
    /memory for WebAssembly.*could not allocate/,
    /--disable-wasm-trap-handler/,
  ],
  ['WebAssembly', { flags: ['--jitless'] }, /one without.*--jitless/, /without that flag/],
  ['WebAssembly by another flag', { flags: ['--no-expose-wasm'] }, /one without/, /without that flag/],
  ['SIMD', { flags: ['--no-enable-sse4-1'] }, /WebAssembly with SIMD/, /SSE4\.1/],
  [
    'pages',
    { flags: ['--wasm-max-mem-pages=1'] },
    /memory for WebAssembly/,
    /without --wasm-max-mem-pages=1/,
  ],
];

test.each(LACKS)(
  'without %s cpu runs by plain loops and wasm is refused, both with the remedy',
  (_what, run, reason, remedy) => {
    const [cpu, wasm, again] = start(['cpu', 'wasm', 'wasm'], run) as [Told, Told, Told];
    expect(cpu.error).toBeUndefined();
    expect(cpu).toMatchObject({ mean: 2, masked: 5, report: { backend: 'cpu' } });
    expect(cpu.logProb).toBeCloseTo(-Math.LN2, 6);
    expect(cpu.median).toBeCloseTo(2, 1);
    expect(cpu.report!.kernels).toEqual({ moments: 'plain', logits: 'plain', histograms: 'native' });
    expect(cpu.report!.plain!.reason).toMatch(reason);
    expect(cpu.report!.plain!.remedy).toMatch(remedy);
    for (const { error } of [wasm, again]) {
      expect(error).toMatchObject({ name: 'BackendError' });
      expect(error!.message).toMatch(reason);
      expect(error!.remedy).toMatch(remedy);
      expect(error!.remedy).toMatch(/initBackend\('cpu'\)/);
    }
  },
  SOON,
);

test(
  'the remedy for a lack of addresses cures it, on wasm too',
  () => {
    const run = { addresses: 6_000_000, flags: ['--disable-wasm-trap-handler'] };
    for (const told of start(['cpu', 'wasm'], run)) {
      expect(told.error).toBeUndefined();
      expect(told).toMatchObject({ mean: 2, report: { kernels: { moments: 'native' } } });
      expect(told.report).not.toHaveProperty('plain');
    }
  },
  SOON,
);
