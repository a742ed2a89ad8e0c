/** What the demo prints: bars, sparklines, and lines that suit a terminal or a file. */
import { describe, expect, it } from 'vitest';
import { Progress, bar, sparkline } from '../../../examples/ppo/progress.js';

const report = {
  step: 7,
  metrics: { 'critic/score/mean': 0.5, 'val-core/sort/reward/mean@4': 0.25 },
  stepSeconds: 2,
  statisticsSeconds: 0.05,
};

function printed(isTTY: boolean): string {
  const texts: string[] = [];
  const progress = new Progress({ write: (text) => texts.push(text), isTTY });
  progress.start();
  progress.phase(7, 9, 'gen');
  progress.step(report);
  return texts.join('');
}

describe('Progress', () => {
  it('writes plain lines where there is no terminal', () => {
    const text = printed(false);
    expect(text).not.toContain('\u001b');
    expect(text).not.toContain('sampling');
    expect(text.split('\n')[1]).toMatch(/^ +7 +0\.500 +████████ +.* 2\.00 +2\.5%$/);
    expect(text).toContain('mean@4 0.250');
  });

  it('shows the phase on a terminal and clears it before the next line', () => {
    const text = printed(true);
    expect(text).toContain('step 7/9: sampling responses');
    expect(text.indexOf('\r\u001b[2K')).toBeGreaterThan(text.indexOf('sampling'));
  });

  it('shows a metric that is missing as a dash', () => {
    expect(printed(false).split('\n')[1]).toContain(' - ');
  });
});

describe('bar', () => {
  it('fills in eighths and keeps its width', () => {
    expect(bar(0, 4)).toBe('    ');
    expect(bar(1, 4)).toBe('████');
    expect(bar(0.5, 4)).toBe('██  ');
    expect(bar(1 / 32, 4)).toBe('▏   ');
    expect(bar(7, 2)).toBe('██');
    expect(bar(NaN, 2)).toBe('  ');
  });
});

describe('sparkline', () => {
  it('shows as many levels as it has places', () => {
    expect(sparkline([0, 0.5, 1], 10)).toBe('▁▅█');
    expect(sparkline([0, 0, 1, 1], 2)).toBe('▁█');
    expect(sparkline([], 10)).toBe('');
  });
});
