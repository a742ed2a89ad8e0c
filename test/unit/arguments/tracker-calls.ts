/** The public functions and methods of trackers. Not a test. */
import * as tf from '@tensorflow/tfjs-core';
import {
  StatsTracker,
  TrackerRegistry,
  denominator,
  exportAll,
  getTracker,
  recordTiming,
  scalar,
  scope,
  stat,
  timing,
} from '../../../src/index.js';
import { mask } from './batch.js';
import { body, clock, flag, name, options, optionalName, record, type Rows } from './row.js';

/** A tracker that knows a denominator `m`. */
function tracker(): StatsTracker {
  const made = new StatsTracker();
  made.denominator({ m: mask() });
  return made;
}

const value = (): Record<string, tf.Tensor> => ({ v: tf.tidy(() => tf.keep(tf.tensor1d([1, 2]))) });
export const trackerCalls: Rows = {
  StatsTracker: () => ({
    parameters: [optionalName, options()],
    call: (first: string, given: object) => new StatsTracker(first, given),
  }),
  'StatsTracker{clock}': () => ({
    parameters: [clock],
    call: (given: () => number) => new StatsTracker('', { clock: given }),
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
  'TrackerHandle#stat': () => ({
    parameters: [record(value()), { fits: { denominator: 'm' }, takes: [] }],
    call: (values: Record<string, tf.Tensor>, given: { denominator: string }) => {
      tracker().stat(values, given);
    },
  }),
  'TrackerHandle#stat{option}': () => ({
    parameters: [
      { fits: 'm', takes: [] },
      { fits: 'sum', takes: ['undefined'] },
      { fits: value().v, takes: [] },
    ],
    call: (denominator: string, reduceType: 'sum', v: tf.Tensor) => {
      tracker().stat({ v }, { denominator, reduceType });
    },
  }),
  'TrackerHandle#scalar': () => ({
    parameters: [record({ x: 1 })],
    call: (values: Record<string, number>) => {
      tracker().scalar(values);
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
  getTracker: () => ({ parameters: [optionalName], call: getTracker }),
  exportAll: () => ({ parameters: [options()], isAsync: true, call: exportAll }),
  denominator: () => ({ parameters: [record({})], call: denominator }),
  stat: () => ({
    // Without a denominator nothing fits, so everything is refused.
    parameters: [
      { fits: {}, takes: [] },
      { fits: {}, takes: [] },
    ],
    call: stat,
  }),
  scalar: () => ({ parameters: [record({})], call: scalar }),
  scope: () => ({ parameters: [name('a'), body], call: scope }),
  timing: () => ({ parameters: [name('a')], call: timing }),
  recordTiming: () => ({ parameters: [name('a'), body], call: recordTiming }),
};
