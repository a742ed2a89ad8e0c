/** The table on the terminal: order, width, numbers, colour. */
import { Writable } from 'node:stream';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { ConsoleWriter, formatTable } from '../../../../src/tracker/index.js';
import { formatNumber } from '../../../../src/tracker/loggers/console.js';

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
    writer.close();
    return text;
  }

  it('heads the table with the step, and uses no colour off a terminal', async () => {
    expect(await print({})).toBe(`step 12 (epoch 1, step 3)\n${formatTable(five)}`);
  });

  it('keeps to the width of the terminal and colours there, unless NO_COLOR is set', async () => {
    vi.stubEnv('NO_COLOR', undefined);
    const coloured = await print({ isTTY: true, columns: 25 });
    expect(coloured).toContain('\x1b[31m');
    vi.stubEnv('NO_COLOR', '1');
    const plain = await print({ isTTY: true, columns: 25 });
    expect(plain).toBe(`step 12 (epoch 1, step 3)\n${formatTable(five, { width: 25 })}`);
    // eslint-disable-next-line no-control-regex -- colour is made of control characters
    expect(coloured.replace(/\x1b\[\d+m/g, '')).toBe(plain);
  });

  it('reports a broken stream to whoever writes, and to nobody else', async () => {
    const broken = new Writable({
      write: (_chunk, _encoding, done) => {
        done(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }));
      },
    });
    const written = new ConsoleWriter({ stream: broken }).write(1, five);
    // An error event without a listener would end the process.
    await expect(written).rejects.toMatchObject({ code: 'log_write', received: 'EPIPE' });
    await new Promise((resolve) => setImmediate(resolve));
  });
});
