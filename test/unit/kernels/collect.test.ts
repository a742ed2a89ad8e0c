/** Pending results: read together, read once, freed either way, refusals reported once. */
import { describe, expect, test } from 'vitest';

import { ReleasedError } from '../../../src/errors.js';
import { type BlockReader, DeviceBlock, Pending, collect } from '../../../src/kernels/collect.js';

/** A device whose blocks hold one float64 each. */
class FakeDevice implements BlockReader<number> {
  readonly reads: number[][] = [];
  readonly released: number[] = [];
  failure: Error | undefined;

  read(handles: readonly number[]): Promise<ArrayBuffer[]> {
    this.reads.push([...handles]);
    if (this.failure !== undefined) return Promise.reject(this.failure);
    return Promise.resolve(handles.map((handle) => Float64Array.of(handle).buffer));
  }

  release(handle: number): void {
    this.released.push(handle);
  }

  pending(value: number): Pending<number> {
    return new Pending([new DeviceBlock(this, value)], ([bytes]) => new Float64Array(bytes!)[0]!);
  }
}

describe('a Pending', () => {
  test('reads nothing until it is awaited, then once', async () => {
    const device = new FakeDevice();
    const pending = device.pending(3);
    expect(device.reads).toEqual([]);
    expect(await pending).toBe(3);
    expect(await pending).toBe(3);
    expect(device.reads).toEqual([[3]]);
    expect(device.released).toEqual([3]);
  });

  test('is usable as a promise: then, catch, finally, Promise.all', async () => {
    const device = new FakeDevice();
    const both: [number, number] = await Promise.all([device.pending(1), device.pending(2)]);
    expect(both).toEqual([1, 2]);
    let ended = false;
    const same = device.pending(5).finally(() => {
      ended = true;
    });
    expect(await same).toBe(5);
    expect(ended).toBe(true);
    expect(await device.pending(7).catch(() => 0)).toBe(7);
  });

  test('maps without another read', async () => {
    const device = new FakeDevice();
    expect(await device.pending(4).map((x) => x * 2)).toBe(8);
    expect(device.reads).toEqual([[4]]);
  });

  test('hands out what is on the host without waiting, and only that', () => {
    const onHost = Pending.of(20).map((x) => x + 1);
    expect(onHost.onHost).toEqual({ value: 21 });
    expect(Pending.all<[number, number]>([onHost, Pending.of(1)]).onHost).toEqual({ value: [21, 1] });
    const device = new FakeDevice();
    expect(device.pending(1).onHost).toBeUndefined();
    expect(Pending.all<unknown[]>([onHost, device.pending(2)]).onHost).toBeUndefined();
    const refused = Pending.rejected<number>(new Error('no'));
    expect(refused.refusal).toBeDefined();
    expect(refused.onHost).toBeUndefined();
  });

  test('shares its blocks with what is made of it', async () => {
    const device = new FakeDevice();
    const pending = device.pending(4);
    const doubled = pending.map((x) => x * 2);
    expect([await pending, await doubled]).toEqual([4, 8]);
    expect(device.reads).toEqual([[4]]);
    expect(device.released).toEqual([4]);
  });

  test('frees its block when it is released, and then rejects', async () => {
    const device = new FakeDevice();
    const pending = device.pending(4);
    pending.release();
    pending.release();
    expect(device.released).toEqual([4]);
    await expect(pending).rejects.toThrow(ReleasedError);
    expect(device.reads).toEqual([]);
  });

  test('frees its block when the read fails, and rejects with the reason', async () => {
    const device = new FakeDevice();
    device.failure = new Error('device lost');
    await expect(device.pending(4)).rejects.toThrow('device lost');
    expect(device.released).toEqual([4]);
  });
});

describe('Pendings that share a block', () => {
  test('free it once, whichever of them are released', async () => {
    const device = new FakeDevice();
    const pending = device.pending(4);
    const doubled = pending.map((x) => x * 2);
    pending.release();
    doubled.release();
    expect(device.released).toEqual([4]);
    await expect(doubled).rejects.toThrow(ReleasedError);
  });

  test('do not lose it to the release of another one once it is being read, or was', async () => {
    const device = new FakeDevice();
    const pending = device.pending(4);
    const [during, after] = [pending.map((x) => x * 2), pending.map((x) => x * 3)];
    const reading = pending.then();
    during.release();
    expect(device.released).toEqual([]);
    expect(await reading).toBe(4);
    after.release();
    expect(device.released).toEqual([4]);
  });

  test('are all refused when it was released before it was read', async () => {
    const device = new FakeDevice();
    const pending = device.pending(4);
    pending.map((x) => x * 2).release();
    await expect(pending).rejects.toThrow(ReleasedError);
    expect(device.reads).toEqual([]);
    expect(device.released).toEqual([4]);
  });
});

describe('launchAll', () => {
  test('joins what was launched, in order, in one read', async () => {
    const device = new FakeDevice();
    const all = Pending.launchAll<number[]>([1, 2, 3].map((value) => () => device.pending(value)));
    expect(await all).toEqual([1, 2, 3]);
    expect(device.reads).toEqual([[1, 2, 3]]);
  });

  test('frees what was launched before a launch that throws, and launches nothing behind it', () => {
    const device = new FakeDevice();
    let isLate = false;
    const launches = [
      () => device.pending(1),
      () => device.pending(2),
      (): Pending<number> => {
        throw new RangeError('no');
      },
      () => {
        isLate = true;
        return device.pending(3);
      },
    ];
    expect(() => Pending.launchAll<number[]>(launches)).toThrow(RangeError);
    expect(device.released).toEqual([1, 2]);
    expect(isLate).toBe(false);
  });

  test('frees all of it when one launch is refused', async () => {
    const device = new FakeDevice();
    const refused = Pending.launchAll<number[]>([
      () => device.pending(1),
      () => Pending.rejected<number>(new RangeError('no')),
    ]);
    await expect(refused).rejects.toThrow(RangeError);
    expect(device.released).toEqual([1]);
  });
});

describe('collect', () => {
  test('reads everything on one device at once, in order', async () => {
    const device = new FakeDevice();
    expect(await collect(device.pending(1), Pending.of('here'), device.pending(2))).toEqual([1, 'here', 2]);
    expect(device.reads).toEqual([[1, 2]]);
  });

  test('reads each of several devices once', async () => {
    const [a, b] = [new FakeDevice(), new FakeDevice()];
    expect(await collect(a.pending(1), b.pending(2), a.pending(3))).toEqual([1, 2, 3]);
    expect([a.reads, b.reads]).toEqual([[[1, 3]], [[2]]]);
  });

  test('of nothing is nothing', async () => {
    expect(await collect()).toEqual([]);
  });

  test('refuses with the first refusal and frees the rest', async () => {
    const device = new FakeDevice();
    const refused = Pending.rejected<number>(new RangeError('no'));
    await expect(collect(device.pending(1), refused, device.pending(2))).rejects.toThrow(RangeError);
    expect(device.reads).toEqual([]);
    expect(device.released).toEqual([1, 2]);
  });
});

describe('a refusal', () => {
  test('is what attempt makes of a throw', async () => {
    const refused = Pending.attempt<number>(() => {
      throw new TypeError('bad');
    });
    await expect(refused).rejects.toThrow(TypeError);
  });

  test('that is asked for is no unhandled rejection', async () => {
    const unhandled: unknown[] = [];
    const note = (reason: unknown): void => {
      unhandled.push(reason);
    };
    process.on('unhandledRejection', note);
    const { refusal } = Pending.rejected(new TypeError('bad')).map((x) => x);
    await new Promise((resolve) => setImmediate(resolve));
    process.off('unhandledRejection', note);
    expect(refusal).toBeInstanceOf(TypeError);
    expect(unhandled).toEqual([]);
  });
});

test('a result that is on the host already can be released too', async () => {
  const pending = Pending.of(3);
  pending.release();
  await expect(pending).rejects.toThrow(ReleasedError);
});
