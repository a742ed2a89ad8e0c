/** The window over sequence numbers against a model that remembers all of them. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { SEQUENCE_WINDOW, SequenceWindow } from '../../../../src/tracker/stream/workers/sequence-window.js';

/** What has come, and what the window can still tell apart. */
class Model {
  readonly #come = new Set<number>();
  #top = 0;

  judge(seq: number): string {
    if (seq <= this.#top - SEQUENCE_WINDOW) return 'stale';
    return seq < 1 || this.#come.has(seq) ? 'duplicate' : 'new';
  }

  mark(seq: number): void {
    this.#come.add(seq);
    this.#top = Math.max(this.#top, seq);
  }

  /** Numbers up to the highest that have not come, and are inside or outside of the window. */
  absent(isInside: boolean): number {
    let absent = 0;
    for (let seq = 1; seq <= this.#top; seq++) {
      if (!this.#come.has(seq) && seq > this.#top - SEQUENCE_WINDOW === isInside) absent++;
    }
    return absent;
  }
}

describe('a sequence window', () => {
  test('tells new numbers from old ones, and counts what is missing and lost, as if it remembered everything', () => {
    const step = fc.oneof(
      { weight: 6, arbitrary: fc.integer({ min: -5, max: 3 }) },
      { weight: 2, arbitrary: fc.integer({ min: -40, max: 40 }) },
      { weight: 1, arbitrary: fc.integer({ min: 25, max: 300 }) },
    );
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 80 }), (steps) => {
        const window = new SequenceWindow(1);
        const model = new Model();
        let seq = 0;
        let lost = 0;
        for (const by of steps) {
          seq = Math.max(1, seq + by);
          const verdict = model.judge(seq);
          expect(window.judge(seq)).toBe(verdict);
          if (verdict !== 'new') continue;
          lost += window.mark(seq);
          model.mark(seq);
          expect(lost).toBe(model.absent(false));
          expect(window.missing).toBe(model.absent(true));
        }
      }),
      { numRuns: 500 },
    );
  });

  test('takes any order of as many numbers as it is wide', () => {
    const numbers = Array.from({ length: SEQUENCE_WINDOW }, (_, i) => i + 1);
    fc.assert(
      fc.property(fc.shuffledSubarray(numbers, { minLength: numbers.length }), (shuffled) => {
        const window = new SequenceWindow(1);
        for (const seq of shuffled) {
          expect(window.judge(seq)).toBe('new');
          expect(window.mark(seq)).toBe(0);
        }
        expect(window.missing).toBe(0);
        for (const seq of shuffled) expect(window.judge(seq)).toBe('duplicate');
      }),
    );
  });

  test('that begins midway takes what came before as seen', () => {
    const window = new SequenceWindow(5000);
    expect(window.judge(4999)).toBe('duplicate');
    expect(window.mark(5000)).toBe(0);
    expect(window.missing).toBe(0);
    expect(window.mark(2 ** 52)).toBe(2 ** 52 - 5000 - SEQUENCE_WINDOW);
  });
});
