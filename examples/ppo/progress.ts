/**
 * What a person sees while the demo runs: one line per step, and on a terminal the phase that is running. Text only.
 */
import { styleText } from 'node:util';
import type { StepReport } from './statistics.js';
import type { Phase } from './trainer.js';

/** Where progress goes; `process.stdout` fits. */
export interface Output {
  write(text: string): unknown;
  readonly isTTY?: boolean;
}

/** The columns of a step: title, width, and the text of a cell. */
const COLUMNS: readonly { title: string; width: number; cell: (report: StepReport) => string }[] = [
  { title: 'step', width: 4, cell: ({ step }) => String(step) },
  { title: 'reward', width: 6, cell: metric('critic/score/mean', 3) },
  { title: '', width: 16, cell: ({ metrics }) => bar(metrics['critic/score/mean'] ?? NaN, 16) },
  { title: 'length', width: 6, cell: metric('response_length/mean', 2) },
  { title: 'entropy', width: 7, cell: metric('ppo_actor/update/entropy/avg', 3) },
  { title: 'expl.var', width: 8, cell: metric('critic/vf_explained_var', 3) },
  { title: 'kl', width: 7, cell: metric('ppo_actor/update/approx_kl/avg', 4) },
  { title: 's/step', width: 6, cell: ({ stepSeconds }) => stepSeconds.toFixed(2) },
  { title: 'stats', width: 6, cell: (report) => percent(report.statisticsSeconds / report.stepSeconds) },
];

const PHASES: Readonly<Record<Phase, string>> = {
  gen: 'sampling responses',
  reward: 'scoring',
  old_log_prob: 'log-probabilities',
  values: 'values',
  adv: 'advantages',
  update_critic: 'updating the critic',
  update_actor: 'updating the actor',
  testing: 'validating',
};

/** Prints the progress of a run. */
export class Progress {
  private isLineOpen = false;

  constructor(private readonly output: Output = process.stdout) {}

  /** The head of the table. */
  start(): void {
    this.line(
      COLUMNS.map(({ title, width }) => (title === '' ? ' '.repeat(width) : title.padStart(width))).join(
        '  ',
      ),
      'bold',
    );
  }

  /** The running part of a step; shown on a terminal only, and replaced by what comes next. */
  phase(step: number, steps: number, phase: Phase): void {
    if (this.output.isTTY !== true) return;
    this.clear();
    this.output.write(styleText('dim', `step ${step}/${steps}: ${PHASES[phase]} …`));
    this.isLineOpen = true;
  }

  /** A finished step, with its validation if it had one. */
  step(report: StepReport): void {
    this.line(COLUMNS.map(({ width, cell }) => cell(report).padStart(width)).join('  '));
    const validation = Object.entries(report.metrics).filter(([key]) =>
      /^val-core\/.*(@\d+|\/mean)$/.test(key),
    );
    if (validation.length === 0) return;
    const shown = validation.map(
      // `val-core/sort/reward/best@4/mean`: the source and the variable are the same in all of them.
      ([key, value]) => `${key.split('/').slice(3).join('/')} ${value.toFixed(3)}`,
    );
    this.line(`      validation: ${shown.join(', ')}`, 'cyan');
  }

  /** A line of text. */
  line(text: string, style?: 'bold' | 'cyan'): void {
    this.clear();
    const shown = style !== undefined && this.output.isTTY === true ? styleText(style, text) : text;
    this.output.write(`${shown}\n`);
  }

  private clear(): void {
    if (this.isLineOpen) this.output.write('\r\u001b[2K');
    this.isLineOpen = false;
  }
}

/** `value` in [0, 1] as a bar of `width` characters, in steps of an eighth of one. */
export function bar(value: number, width: number): string {
  if (!Number.isFinite(value)) return ' '.repeat(width);
  const eighths = Math.round(Math.min(1, Math.max(0, value)) * width * 8);
  const full = Math.floor(eighths / 8);
  const rest = eighths % 8 === 0 ? '' : String.fromCodePoint(0x2590 - (eighths % 8));
  return ('█'.repeat(full) + rest).padEnd(width);
}

/** Numbers in [0, 1] as a line of at most `width` characters, each the mean of its share of the numbers. */
export function sparkline(values: readonly number[], width: number): string {
  const places = Math.min(width, values.length);
  return Array.from({ length: places }, (_, place) => {
    const from = Math.floor((place * values.length) / places);
    const to = Math.floor(((place + 1) * values.length) / places);
    const share = values.slice(from, to);
    const mean = share.reduce((sum, value) => sum + value, 0) / share.length;
    const level = Math.round(Math.min(1, Math.max(0, mean)) * 7);
    return Number.isNaN(level) ? ' ' : String.fromCodePoint(0x2581 + level);
  }).join('');
}

/** A share as text: `1.7%`. */
export function percent(share: number): string {
  return `${(100 * share).toFixed(1)}%`;
}

function metric(key: string, digits: number): (report: StepReport) => string {
  return ({ metrics }) => metrics[key]?.toFixed(digits) ?? '-';
}
