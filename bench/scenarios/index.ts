/** The table of scenarios: a new one is a file beside this and a line here. */
import type { Scenario } from '../scenario.js';
import { data } from './data.js';
import { journal } from './journal.js';
import { logits } from './logits.js';
import { moments } from './moments.js';
import { oneStep } from './one-step.js';
import { scalars } from './scalars.js';
import { scaling } from './scaling.js';
import { step } from './step.js';
import { stream } from './stream.js';
import { tracker } from './tracker.js';
import { validation } from './validation.js';

export const scenarios: readonly Scenario[] = [
  moments,
  scaling,
  data,
  step,
  oneStep,
  logits,
  tracker,
  scalars,
  journal,
  stream,
  validation,
];

/** The scenario of this name. */
export function scenarioNamed(name: string): Scenario | undefined {
  return scenarios.find((scenario) => scenario.name === name);
}
