/** The public functions and methods of trackers. Not a test. */
import * as tf from '@tensorflow/tfjs-core';
import {
  StatsTracker,
  TrackerRegistry,
  child,
  counter,
  defineMetrics,
  denominator,
  derive,
  disableScope,
  exportAll,
  getTracker,
  perplexity,
  ratio,
  recordTiming,
  scalar,
  scope,
  stat,
  timing,
} from '../../../src/index.js';
import { mask } from './batch.js';
import { body, clock, count, flag, name, options, optionalName, record, type Rows } from './row.js';

/** A tracker that knows a denominator `m`. */
function tracker(): StatsTracker {
  const made = new StatsTracker();
  made.denominator({ m: mask() });
  return made;
}

const value = (): Record<string, tf.Tensor> => ({ v: tf.tidy(() => tf.keep(tf.tensor1d([1, 2]))) });
export const trackerCalls: Rows = {
  counter: () => ({ parameters: [record({})], call: counter }),
  child: () => ({ parameters: [name('a')], call: child }),
  disableScope: () => ({ parameters: [body], call: disableScope }),
  derive: () => ({ parameters: [{ fits: ['a'], takes: [] }, body], call: derive }),
  ratio: () => ({ parameters: [name('a'), name('b')], call: ratio }),
  perplexity: () => ({ parameters: [name('a')], call: perplexity }),
  'DenominatorHandle#stat': () => ({
    parameters: [record(value()), options()],
    call: (values: Record<string, tf.Tensor>, given: object) => {
      tracker().denominator('n', mask()).stat(values, given);
    },
  }),
  StatsTracker: () => ({
    parameters: [optionalName, options()],
    call: (first: string, given: object) => new StatsTracker(first, given),
  }),
  'StatsTracker{clock}': () => ({
    parameters: [clock],
    call: (given: () => number) => new StatsTracker('', { clock: given }),
  }),
  'StatsTracker{option}': () => ({
    parameters: [
      { fits: 'parity', takes: ['undefined'] },
      { fits: ['step', 'epoch'], takes: ['undefined'] },
      { fits: 'ignore', takes: ['undefined'] },
      { fits: {}, takes: ['undefined', 'object'] },
      count,
      count,
    ],
    call: (
      mode: 'parity',
      windows: string[],
      nonFinite: 'ignore',
      derived: Record<string, never>,
      maxKeys: number,
      exportReminder: number,
    ) => new StatsTracker('', { mode, windows, nonFinite, derived, maxKeys, exportReminder }),
  }),
  'StatsTracker#rows': () => ({
    parameters: [options()],
    isAsync: true,
    call: (given: object) => tracker().rows(given),
  }),
  defineMetrics: () => ({ parameters: [record({ n: 'denominator' })], call: defineMetrics }),
  'MetricSchema#on': () => ({
    parameters: [{ fits: tracker(), takes: [] }],
    call: (given: StatsTracker) => defineMetrics({ a: 'scalar' }).on(given),
  }),
  'DefinedMetrics#denominator': () => ({
    parameters: [record({ n: mask() })],
    call: (given: { n: tf.Tensor }) => {
      defineMetrics({ n: 'denominator' }).on(tracker()).denominator(given);
    },
  }),
  'DefinedMetrics#stat': () => ({
    parameters: [{ fits: 'm', takes: [] }, record(value())],
    call: (of: 'm', given: { v: tf.Tensor }) => {
      defineMetrics({ m: 'denominator', v: { denominator: 'm' } })
        .on(tracker())
        .stat(of, given);
    },
  }),
  'DefinedMetrics#scalar': () => ({
    parameters: [record({ x: 1 })],
    call: (given: { x: number }) => {
      defineMetrics({ x: 'scalar' }).on(tracker()).scalar(given);
    },
  }),
  'DefinedMetrics#counter': () => ({
    parameters: [record({ x: 1 })],
    call: (given: { x: number }) => {
      defineMetrics({ x: 'counter' }).on(tracker()).counter(given);
    },
  }),
  'StatsTracker#export': () => ({
    parameters: [options()],
    isAsync: true,
    call: (given: object) => tracker().export(given),
  }),
  'StatsTracker#export{option}': () => ({
    parameters: [{ fits: 'm', takes: ['undefined', 'text'] }, flag],
    isAsync: true,
    call: (key: string, reset: boolean) => tracker().export({ key, reset }),
  }),
  'StatsTracker#export{which}': () => ({
    parameters: [
      { fits: 'default', takes: ['undefined'] },
      { fits: 'ignore', takes: ['undefined'] },
    ],
    isAsync: true,
    call: (window: string, nonFinite: 'ignore') => tracker().export({ window, nonFinite }),
  }),
  'TrackerHandle#scope': () => ({
    parameters: [name('a'), body],
    call: (first: string, fn: () => number) => tracker().scope(first, fn),
  }),
  'TrackerHandle#disableScope': () => ({
    parameters: [body],
    call: (fn: () => number) => tracker().disableScope(fn),
  }),
  'TrackerHandle#child': () => ({
    parameters: [name('a')],
    call: (first: string) => tracker().child(first),
  }),
  'TrackerHandle#denominator': () => ({
    parameters: [record({ n: mask() })],
    call: (masks: Record<string, tf.Tensor>) => {
      tracker().denominator(masks);
    },
  }),
  'TrackerHandle#denominator{mask}': () => ({
    parameters: [{ fits: mask(), takes: [] }],
    call: (given: tf.Tensor) => {
      tracker().denominator({ n: given });
    },
  }),
  'TrackerHandle#denominator{name}': () => ({
    parameters: [
      { fits: 'n', takes: ['text'] },
      { fits: mask(), takes: [] },
    ],
    call: (named: string, given: tf.Tensor) => tracker().denominator(named, given),
  }),
  'TrackerHandle#stat': () => ({
    parameters: [record(value()), { fits: { denominator: 'm' }, takes: [] }],
    call: (values: Record<string, tf.Tensor>, given: { denominator: string }) => {
      tracker().stat(values, given);
    },
  }),
  'TrackerHandle#stat{option}': () => ({
    parameters: [
      { fits: 'm', takes: [] },
      { fits: 'sum', takes: ['undefined', 'object'] },
      { fits: value().v, takes: [] },
      { fits: 'error', takes: ['undefined'] },
    ],
    call: (denominator: string, reduceType: 'sum', v: tf.Tensor, nonFinite: 'error') => {
      tracker().stat({ v }, { denominator, reduceType, nonFinite });
    },
  }),
  'TrackerHandle#scalar': () => ({
    parameters: [record({ x: 1 }), options()],
    call: (values: Record<string, number>, given: object) => {
      tracker().scalar(values, given);
    },
  }),
  'TrackerHandle#scalar{option}': () => ({
    parameters: [
      { fits: 'scalar', takes: ['undefined', 'object'] },
      count,
      { fits: 'propagate', takes: ['undefined'] },
    ],
    call: (reduceType: 'scalar', weight: number, nonFinite: 'propagate') => {
      tracker().scalar({ x: 1 }, { reduceType, weight, nonFinite });
    },
  }),
  'TrackerHandle#counter': () => ({
    parameters: [record({ x: 1 })],
    call: (values: Record<string, number>) => {
      tracker().counter(values);
    },
  }),
  'TrackerHandle#counter{value}': () => ({
    parameters: [{ fits: 1, takes: ['number', 'boolean'] }],
    call: (x: number) => {
      tracker().counter({ x });
    },
  }),
  'TrackerHandle#scalar{value}': () => ({
    parameters: [{ fits: 1, takes: ['number', 'boolean'] }],
    call: (x: number) => {
      tracker().scalar({ x });
    },
  }),
  'TrackerHandle#timing': () => ({
    parameters: [name('a')],
    call: (key: string) => tracker().timing(key),
  }),
  'TrackerHandle#recordTiming': () => ({
    parameters: [name('a'), body],
    call: (key: string, fn: () => number) => tracker().recordTiming(key, fn),
  }),
  TrackerRegistry: () => ({
    parameters: [options()],
    call: (given: object) => new TrackerRegistry(given),
  }),
  'TrackerRegistry{clock}': () => ({
    parameters: [clock],
    call: (given: () => number) => new TrackerRegistry({ clock: given }),
  }),
  'TrackerRegistry#get': () => ({
    parameters: [name('a')],
    call: (first: string) => new TrackerRegistry().get(first),
  }),
  'TrackerRegistry#exportAll': () => ({
    parameters: [options()],
    isAsync: true,
    call: (given: object) => new TrackerRegistry().exportAll(given),
  }),
  'TrackerRegistry#exportAll{reset}': () => ({
    parameters: [flag],
    isAsync: true,
    call: (reset: boolean) => new TrackerRegistry().exportAll({ reset }),
  }),
  'TrackerRegistry#exportAll{which}': () => ({
    parameters: [
      { fits: 'default', takes: ['undefined'] },
      { fits: 'ignore', takes: ['undefined'] },
    ],
    isAsync: true,
    call: (window: string, nonFinite: 'ignore') => {
      const registry = new TrackerRegistry();
      registry.get('').scalar({ x: 1 });
      return registry.exportAll({ window, nonFinite });
    },
  }),
  getTracker: () => ({ parameters: [optionalName], call: getTracker }),
  exportAll: () => ({ parameters: [options()], isAsync: true, call: exportAll }),
  denominator: () => ({
    parameters: [record({})],
    call: (masks: Record<string, tf.Tensor>) => {
      denominator(masks);
    },
  }),
  stat: () => ({
    // Without a denominator nothing fits, so everything is refused.
    parameters: [
      { fits: {}, takes: [] },
      { fits: {}, takes: [] },
    ],
    call: stat,
  }),
  scalar: () => ({ parameters: [record({}), options()], call: scalar }),
  scope: () => ({ parameters: [name('a'), body], call: scope }),
  timing: () => ({ parameters: [name('a')], call: timing }),
  recordTiming: () => ({ parameters: [name('a'), body], call: recordTiming }),
};
