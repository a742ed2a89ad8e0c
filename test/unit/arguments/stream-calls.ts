/** The public functions and methods of streams, merged exports and rollout contexts. Not a test. */
import {
  InProcessTransport,
  MomentsTable,
  StreamEmitter,
  StreamIngest,
  type StreamTransport,
  aggregateExports,
  decodeDelta,
  encodeDelta,
  reportEpisode,
  rolloutKey,
  withRollout,
} from '../../../src/index.js';
import { liftRow } from '../../../src/rows/row.js';
import { body, clock, count, flag, name, options, record, type Rows } from './row.js';

const accepting = (): StreamTransport => ({
  delivery: 'direct',
  send: () => Promise.resolve({ status: 'accepted' }),
});

const emitter = (given: object = {}): StreamEmitter =>
  new StreamEmitter(accepting(), { workerId: 'w', ...given });

/** The bytes of a delta that has no keys. */
const bytes = encodeDelta(
  {
    ...{ workerId: 'w', epoch: 0, seq: 1, isFinal: false, fingerprint: 0, keyCount: 0, positions: [] },
    rows: new MomentsTable(0),
  },
  { definitions: false },
);

/** An option that a function is given and that may be left out. */
const number = { fits: 3, takes: ['undefined', 'number'] } as const;

export const streamCalls: Rows = {
  aggregateExports: () => ({
    parameters: [{ fits: [{ k: 1, k__count: 1 }], takes: ['array'] }, options()],
    call: aggregateExports,
  }),
  'aggregateExports{part}': () => ({
    parameters: [
      { fits: { k: 1, k__count: 1 }, takes: ['undefined', 'null', 'object'] },
      { fits: 1, takes: ['null', 'number'] },
      { fits: 1, takes: ['number'] },
      { fits: () => undefined, takes: ['undefined', 'function'] },
    ],
    call: (export_: Record<string, number>, k: number, k__count: number, onWithoutCount: () => void) =>
      aggregateExports([export_, { k, k__count }], { onWithoutCount }),
  }),
  withRollout: () => ({
    parameters: [{ fits: { isEval: true }, takes: [] }, body],
    call: withRollout,
  }),
  'withRollout{context}': () => ({
    parameters: [
      { fits: true, takes: ['boolean'] },
      { fits: 'a', takes: ['undefined', 'text', 'number'] },
    ],
    call: (isEval: boolean, taskId: string) => withRollout({ isEval, taskId }, () => 7),
  }),
  rolloutKey: () => ({ parameters: [name('reward')], call: rolloutKey }),
  reportEpisode: () => ({
    parameters: [
      { fits: emitter(), takes: [] },
      { fits: { outcome: 'failed' }, takes: [] },
    ],
    call: reportEpisode,
  }),
  'reportEpisode{episode}': () => ({
    parameters: [
      { fits: 'accepted', takes: [] },
      { fits: { reward: 1 }, takes: ['undefined', 'object'] },
      { fits: 1, takes: ['number', 'boolean'] },
    ],
    call: (outcome: 'accepted', values: Record<string, number>, reward: number) => {
      reportEpisode(emitter(), { outcome, values });
      reportEpisode(emitter(), { outcome, values: { reward } });
    },
  }),
  encodeDelta: () => ({
    parameters: [
      { fits: decodeDelta(bytes), takes: [] },
      { fits: { definitions: false }, takes: [] },
    ],
    call: encodeDelta,
  }),
  'encodeDelta{option}': () => ({
    parameters: [{ fits: false, takes: ['boolean'], spares: ['boolean', 'undefined'] }],
    call: (definitions: boolean) => encodeDelta(decodeDelta(bytes), { definitions }),
  }),
  decodeDelta: () => ({ parameters: [{ fits: bytes, takes: [] }], call: decodeDelta }),
  InProcessTransport: () => ({
    parameters: [{ fits: new StreamIngest(), takes: [] }],
    call: (ingest: StreamIngest) => new InProcessTransport(ingest),
  }),
  'InProcessTransport#send': () => ({
    parameters: [{ fits: bytes, takes: [] }],
    isAsync: true,
    call: (delta: Uint8Array) => new InProcessTransport(new StreamIngest()).send(delta),
  }),
  StreamEmitter: () => ({
    parameters: [
      { fits: accepting(), takes: [] },
      { fits: { workerId: 'w' }, takes: [] },
    ],
    call: (transport: StreamTransport, given: { workerId: string }) => new StreamEmitter(transport, given),
  }),
  'StreamEmitter{transport}': () => ({
    parameters: [
      { fits: 'stored', takes: [] },
      { fits: (): void => undefined, takes: ['function'] },
    ],
    call: (delivery: 'stored', send: StreamTransport['send']) =>
      new StreamEmitter({ delivery, send }, { workerId: 'w' }),
  }),
  'StreamEmitter{option}': () => ({
    parameters: [
      name('w'),
      count,
      count,
      count,
      count,
      count,
      { fits: () => undefined, takes: ['undefined', 'function'] },
    ],
    call: (
      workerId: string,
      epoch: number,
      sendTimeoutMs: number,
      maxKeys: number,
      maxKeyBytes: number,
      maxPolicyVersions: number,
      onError: () => void,
    ) => emitter({ workerId, epoch, sendTimeoutMs, maxKeys, maxKeyBytes, maxPolicyVersions, onError }),
  }),
  'StreamEmitter{flushIntervalMs}': () => ({
    parameters: [count],
    isAsync: true,
    call: async (flushIntervalMs: number) => emitter({ flushIntervalMs }).close(),
  }),
  'StreamEmitter#scalar': () => ({
    parameters: [record({ x: 1 }), options()],
    call: (values: Record<string, number>, given: object) => {
      emitter().scalar(values, given);
    },
  }),
  'StreamEmitter#scalar{part}': () => ({
    parameters: [{ fits: 1, takes: ['number', 'boolean'] }, number, { fits: 'max', takes: ['undefined'] }],
    call: (x: number, policyVersion: number, reduceType: 'max') => {
      emitter().scalar({ x }, { policyVersion, reduceType });
    },
  }),
  'StreamEmitter#counter': () => ({
    parameters: [record({ x: 1 }), options()],
    call: (values: Record<string, number>, given: object) => {
      emitter().counter(values, given);
    },
  }),
  'StreamEmitter#counter{part}': () => ({
    parameters: [{ fits: 1, takes: ['number', 'boolean'] }, number],
    call: (x: number, policyVersion: number) => {
      emitter().counter({ x }, { policyVersion });
    },
  }),
  'StreamEmitter#merge': () => ({
    parameters: [{ fits: [], takes: ['array'] }, options()],
    call: (rows: [], given: object) => {
      emitter().merge(rows, given);
    },
  }),
  'StreamEmitter#merge{part}': () => ({
    parameters: [
      { fits: { key: 'k', reduction: 'sum', row: liftRow(1) }, takes: [] },
      name('k'),
      { fits: 'sum', takes: [] },
      { fits: liftRow(1), takes: [] },
      number,
    ],
    call: (
      row: never,
      key: string,
      reduction: 'sum',
      moments: ReturnType<typeof liftRow>,
      policyVersion: number,
    ) => {
      emitter().merge([row, { key, reduction, row: moments }], { policyVersion });
    },
  }),
  StreamIngest: () => ({
    parameters: [options()],
    call: (given: object) => new StreamIngest(given),
  }),
  'StreamIngest{option}': () => ({
    parameters: [
      { fits: 3, takes: ['undefined', 'number', 'array'] },
      flag,
      count,
      count,
      count,
      count,
      count,
      count,
      clock,
    ],
    call: (
      expectedWorkers: number,
      joinsMidway: boolean,
      forgetAfterSeconds: number,
      maxKeys: number,
      maxKeyBytes: number,
      maxWorkers: number,
      maxSchemas: number,
      maxPolicyVersions: number,
      now: () => number,
    ) =>
      new StreamIngest({
        expectedWorkers,
        joinsMidway,
        forgetAfterSeconds,
        maxKeys,
        maxKeyBytes,
        maxWorkers,
        maxSchemas,
        maxPolicyVersions,
        clock: now,
      }),
  }),
  'StreamIngest#receive': () => ({
    parameters: [{ fits: bytes, takes: [] }, options()],
    call: (delta: Uint8Array, given: object) => new StreamIngest().receive(delta, given),
  }),
  'StreamIngest#receive{option}': () => ({
    parameters: [{ fits: 'w', takes: ['undefined', 'text'] }],
    call: (workerId: string) => new StreamIngest().receive(bytes, { workerId }),
  }),
  'StreamIngest#export': () => ({
    parameters: [options()],
    call: (given: object) => new StreamIngest().export(given),
  }),
  'StreamIngest#export{option}': () => ({
    parameters: [number, flag],
    call: (policyVersion: number, reset: boolean) => new StreamIngest().export({ policyVersion, reset }),
  }),
  'StreamIngest#rows': () => ({
    parameters: [options()],
    call: (given: object) => new StreamIngest().rows(given),
  }),
  'StreamIngest#forget': () => ({
    parameters: [name('w')],
    call: (workerId: string) => {
      new StreamIngest().forget(workerId);
    },
  }),
};
