/** The table on the terminal: order, width, numbers, colour. */
import { EventEmitter } from 'node:events';
import { Writable } from 'node:stream';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { CaughtWarnings } from '../warnings.js';
import { ConsoleWriter, formatTable } from '../../../../src/tracker/index.js';
import { formatNumber } from '../../../../src/tracker/loggers/table.js';

const five = { e: 5, a: 1, c: 0.25, b: 1234567, d__count: 3, d: NaN };

describe('formatTable', () => {
  it('is sorted down the columns, aligned, without counts', () => {
    expect(formatTable(five, { columns: 2 })).toBe(
      [
        '┌────────────┬────────┐',
        '│ a        1 │ d  NaN │',
        '│ b  1234567 │ e    5 │',
        '│ c  0.25000 │        │',
        '└────────────┴────────┘',
        '',
      ].join('\n'),
    );
  });

  it('has four columns where they fit, fewer on a narrow terminal, and one always', () => {
    const lines = (width: number) => formatTable(five, { width }).split('\n');
    const full = lines(1000);
    expect(full[0]!.split('┬')).toHaveLength(3); // five names in rows of two
    expect(lines(full[0]!.length)).toEqual(full);
    expect(lines(full[0]!.length - 1)[0]!.split('┬')).toHaveLength(2);
    expect(lines(5)[0]!.split('┬')).toHaveLength(1);
    for (const line of lines(25).slice(0, -1)) expect(line).toHaveLength(lines(25)[0]!.length);
    expect(lines(25)[0]!.length).toBeLessThanOrEqual(25);
  });

  it('says so when there is nothing', () => {
    expect(formatTable({ x__count: 1 })).toBe('(no statistics)\n');
  });
});

describe('formatNumber', () => {
  it.each([
    [0, '0'],
    [-3, '-3'],
    [16777217, '16777217'],
    [1e300, '1.000e+300'],
    [2 / 3, '0.66667'],
    [-0.012345678, '-0.012346'],
    [1234.56789, '1234.6'],
    [123456.789, '123457'],
    [9999999.5, '10000000'],
    [1.23456e8 + 0.5, '1.235e+8'],
    [0.00099, '9.900e-4'],
    [123456789012, '1.235e+11'],
    [-1.5e-300, '-1.500e-300'],
    [NaN, 'NaN'],
    [-Infinity, '-Infinity'],
  ])('writes %s as %s', (value, text) => {
    expect(formatNumber(value)).toBe(text);
  });
});

describe('ConsoleWriter', () => {
  afterEach(() => {
    vi.unstubAllEnvs();
  });

  async function print(stream: { isTTY?: boolean; columns?: number }): Promise<string> {
    let text = '';
    const writer = new ConsoleWriter({
      stream: {
        ...stream,
        write: (chunk: string) => {
          text += chunk;
        },
      },
    });
    await writer.write(12, five, { epoch: 1, step: 3 });
    await writer.close();
    return text;
  }

  it('heads the table with the step, and uses no colour off a terminal', async () => {
    expect(await print({})).toBe(`step 12 (epoch 1, step 3)\n${formatTable(five, { numberWidth: 11 })}`);
  });

  it('keeps to the width of the terminal and colours there, unless NO_COLOR is set', async () => {
    vi.stubEnv('NO_COLOR', undefined);
    const coloured = await print({ isTTY: true, columns: 25 });
    expect(coloured).toContain('\x1b[31m');
    vi.stubEnv('NO_COLOR', '1');
    const plain = await print({ isTTY: true, columns: 25 });
    expect(plain).toBe(`step 12 (epoch 1, step 3)\n${formatTable(five, { width: 25, numberWidth: 11 })}`);
    // eslint-disable-next-line no-control-regex -- colour is made of control characters
    expect(coloured.replace(/\x1b\[\d+m/g, '')).toBe(plain);
  });

  /** Steps as lines of text, and the tables' lines. */
  async function printed(
    steps: readonly Readonly<Record<string, number>>[],
    options: { width?: number; columns?: number } = {},
  ): Promise<string[][]> {
    const texts: string[] = [];
    const writer = new ConsoleWriter({ stream: { write: (text: string) => texts.push(text) }, ...options });
    for (const [step, data] of steps.entries()) await writer.write(step, data);
    return texts.map((text) => text.trimEnd().split('\n').slice(1));
  }

  /** What is left of a table without its numbers. */
  const shape = (lines: readonly string[]): string[] =>
    lines.map((line) =>
      line.replace(/(?:-?\d[\d.e+-]*|NaN|-?Infinity)(?= │)/g, (number) => ' '.repeat(number.length)),
    );

  it('keeps its shape from step to step, whatever the numbers are', async () => {
    const numbers = [0, 0.5, -1.2345e-300, 123456789, -9999999999, NaN, -Infinity, 1e308, -0.00123, 2 ** 53];
    const steps = numbers.map((number) => ({ 'actor/loss': number, 'critic/loss': -number, lr: 1e-6 }));
    const tables = await printed(steps);
    for (const table of tables) expect(shape(table)).toEqual(shape(tables[0]!));
  });

  it('keeps the rows of names that come and go', async () => {
    const often = { 'actor/loss': 1, 'critic/loss': 2 };
    const [, second, third, fourth] = await printed([often, { ...often, 'b/val': 3 }, often, { 'b/val': 4 }]);
    expect(shape(third!)).toEqual(shape(second!));
    expect(shape(fourth!)).toEqual(shape(second!));
    expect(third!.join('\n')).not.toMatch(/b\/val +3/);
    expect(fourth!.join('\n')).toMatch(/b\/val +4/);
  });

  it('stays within 80 columns, also with long and wide names, and as many as a narrow terminal has', async () => {
    const names = [
      'a',
      'x/'.repeat(60),
      `${'漢字'.repeat(30)}/avg`,
      'ppo_actor/update/importance_weight/avg',
      '🎯',
    ];
    const data = Object.fromEntries(names.map((name) => [name, -1.2345e-300]));
    const columnsOf = (line: string): number =>
      Array.from(line).reduce((n, c) => n + (/[漢字🎯]/u.test(c) ? 2 : 1), 0);
    for (const width of [undefined, 80, 40]) {
      const [table] = await printed([data], width === undefined ? {} : { width });
      const widths = new Set(table!.map(columnsOf));
      expect(widths.size).toBe(1);
      expect([...widths][0]).toBeLessThanOrEqual(width ?? 80);
    }
    const [table] = await printed([data]);
    expect(table!.join('\n')).toMatch(/│ x\/x\/.*….*\/x\/ /); // a shortened name keeps its ends
  });

  it.each([
    ['Tangut', '\u{17000}'],
    ['the end of the Tangut supplement', '\u{18d08}'],
    ['Khitan', '\u{18b00}'],
    ['a mark of ideographs', '\u{16fe0}'],
    ['a tone mark of Kana', '\u{1aff0}'],
    ['Kana supplement', '\u{1b000}'],
    ['Nushu', '\u{1b170}'],
    ['a squared ideograph', '\u{1f210}'],
    ['a rounded symbol', '\u{1f265}'],
    ['an enclosed ideograph', '\u{1f240}'],
    ['a vertical form', '\ufe10'],
    ['a bracket', '\u2329'],
    ['a trigram', '\u2630'],
    ['a counting rod', '\u{1d360}'],
  ])('counts %s as two columns', (_, wide) => {
    const name = wide.repeat(5);
    const lines = formatTable({ abcdefghij: 1, [name]: 2 }, { columns: 1 }).split('\n');
    expect([lines[0]!.length, lines[1], lines[2]]).toEqual([17, '│ abcdefghij  1 │', `│ ${name}  2 │`]);
    const [border, row] = formatTable({ [wide.repeat(100)]: 1 }, { width: 80 }).split('\n');
    expect(border!.length).toBeLessThanOrEqual(80);
    expect(row!.split(wide).length - 1).toBeLessThanOrEqual(37);
  });

  it('spells out control characters in names, which forge no row', async () => {
    const forged = 'loss\u001b[2J\n│ reward 1 │\u009d0;t\u0007\u202e\u200b';
    const [table] = await printed([{ [forged]: 1 }]);
    expect(table).toHaveLength(3);
    expect(table![1]).toContain('loss\\u001b[2J\\n│ reward 1 │\\u009d0;t\\u0007\\u202e\\u200b');
    // eslint-disable-next-line no-control-regex -- none of these may be left
    expect(table!.join('')).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u202e\u200b]/);
  });

  describe('with a stream that breaks', () => {
    const broken = (options: object = {}): Writable =>
      new Writable({
        write: (_chunk, _encoding, done) => {
          done(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }));
        },
        ...options,
      });
    const warnings: string[] = [];
    const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

    async function printTo(
      stream: Writable | (EventEmitter & { write: () => boolean }),
      times = 20,
    ): Promise<void> {
      warnings.length = 0;
      const spy = vi
        .spyOn(process, 'emitWarning')
        .mockImplementation((text) => void warnings.push(String(text)));
      const writer = new ConsoleWriter({ stream });
      for (let step = 0; step < times; step++) await writer.write(step, five);
      await turn();
      spy.mockRestore();
    }

    it('never fails, and warns once', async () => {
      await printTo(broken());
      expect(warnings).toEqual([expect.stringContaining('EPIPE')]);
    });

    it.each([
      ['destroyed by it', {}],
      ['not destroyed', { autoDestroy: false }],
      [
        'that tells it late',
        { destroy: (error: Error, done: (error: Error) => void) => void setTimeout(done, 5, error) },
      ],
    ])('collects no listeners on a stream that is %s', async (_, options) => {
      const stream = broken(options);
      await printTo(stream);
      expect(stream.listenerCount('error')).toBeLessThanOrEqual(1);
      const others = new ConsoleWriter({ stream });
      await others.write(1, five);
      expect(stream.listenerCount('error')).toBeLessThanOrEqual(1);
      await new Promise((resolve) => setTimeout(resolve, 10)); // an event without a listener would end the process
    });

    it('leaves no listener on one that works', async () => {
      const stream = new Writable({ write: (_chunk, _encoding, done) => setImmediate(done) });
      const writer = new ConsoleWriter({ stream });
      await Promise.all(Array.from({ length: 20 }, (_, step) => writer.write(step, five)));
      expect(stream.listenerCount('error')).toBe(0);
    });

    it.each([null, undefined, 'gone', 7])(
      'goes on with one that throws, tells or emits %j',
      async (reason) => {
        const thrower = Object.assign(new EventEmitter(), {
          write: (): boolean => {
            // eslint-disable-next-line @typescript-eslint/only-throw-error -- what a stream of somebody else may do
            throw reason;
          },
        });
        await printTo(thrower);
        expect(warnings).toEqual([expect.stringContaining(String(reason))]);
        const emitter = Object.assign(new EventEmitter(), {
          write(): boolean {
            queueMicrotask(() => emitter.emit('error', reason));
            return false;
          },
        });
        await printTo(emitter, 1);
        expect(warnings).toEqual([expect.stringContaining(String(reason))]);
        if (reason === null || reason === undefined) return; // a callback says with these that all went well
        const teller = Object.assign(new EventEmitter(), {
          write: (_text: string, done: (error: unknown) => void): boolean => {
            done(reason);
            return true;
          },
        });
        await printTo(teller as never);
        expect(warnings).toEqual([expect.stringContaining(String(reason))]);
      },
    );

    it('closes a second after the last table where it does not answer, and warns of it', async () => {
      vi.useFakeTimers();
      const caught = new CaughtWarnings();
      try {
        const writer = new ConsoleWriter({ stream: new Writable({ write: () => undefined }) });
        void writer.write(0, five);
        let isClosed = false;
        const closing = writer.close().then(() => (isClosed = true));
        await vi.advanceTimersByTimeAsync(999);
        expect(isClosed).toBe(false);
        await vi.advanceTimersByTimeAsync(2);
        await closing;
        expect(caught.of('TENSORTALLY_CONSOLE')).toEqual([expect.stringContaining('does not answer')]);
        expect(vi.getTimerCount()).toBe(0);
      } finally {
        caught.stop();
        vi.useRealTimers();
      }
    });

    it('keeps no commit waiting for more than a second, and gets no further table until it answers', async () => {
      vi.useFakeTimers();
      const caught = new CaughtWarnings();
      const taken: string[] = [];
      let answer: (() => void) | undefined;
      try {
        const write = (text: string, done: () => void): void => {
          taken.push(text);
          answer = done;
        };
        const writer = new ConsoleWriter({ stream: Object.assign(new EventEmitter(), { write }) });
        const settled = vi.fn();
        const first = writer.write(0, five).then(settled);
        await vi.advanceTimersByTimeAsync(999);
        expect(settled).not.toHaveBeenCalled();
        await vi.advanceTimersByTimeAsync(2);
        await first;
        await writer.write(1, five); // no timer has to run for it
        expect(taken).toHaveLength(1);
        answer!();
        await Promise.resolve();
        await vi.advanceTimersByTimeAsync(0);
        const third = writer.write(2, five);
        answer!();
        await third;
        expect(taken.map((text) => text.split('\n')[0])).toEqual(['step 0', 'step 2']);
        expect(caught.of('TENSORTALLY_CONSOLE')).toEqual([expect.stringContaining('does not answer')]);
        await writer.close();
        expect(vi.getTimerCount()).toBe(0);
      } finally {
        caught.stop();
        vi.useRealTimers();
      }
    });

    it('is not given up for what a loop that never yields has kept from answering', async () => {
      vi.useFakeTimers();
      const caught = new CaughtWarnings();
      try {
        const write = (_text: string, done: () => void): void => {
          setTimeout(setTimeout, 1000, done, 0); // in the turn in which the time is over
        };
        const writer = new ConsoleWriter({ stream: Object.assign(new EventEmitter(), { write }) });
        const written = writer.write(0, five);
        await vi.advanceTimersByTimeAsync(1002);
        await written;
        expect(caught.of('TENSORTALLY_CONSOLE')).toEqual([]);
      } finally {
        caught.stop();
        vi.useRealTimers();
      }
    });

    it('closes as soon as the last table is written, and leaves no timer', async () => {
      vi.useFakeTimers();
      try {
        const writer = new ConsoleWriter({
          stream: new Writable({
            write: (_text, _encoding, done) => {
              done();
            },
          }),
        });
        void writer.write(0, five);
        await writer.close();
        expect(vi.getTimerCount()).toBe(0);
      } finally {
        vi.useRealTimers();
      }
    });

    it('goes on with one that throws, or only emits', async () => {
      const thrower = Object.assign(new EventEmitter(), {
        write: (): boolean => {
          throw new Error('closed');
        },
      });
      await printTo(thrower);
      expect(warnings).toHaveLength(1);
      const emitter = Object.assign(new EventEmitter(), {
        write(): boolean {
          queueMicrotask(() => emitter.emit('error', new Error('gone')));
          return false;
        },
      });
      await printTo(emitter);
      expect(warnings).toHaveLength(1);
      expect(emitter.listenerCount('error')).toBeLessThanOrEqual(1);
    });
  });
});
