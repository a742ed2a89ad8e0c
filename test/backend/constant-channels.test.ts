/** Channels of constants alone, which no tensor reaches. */
import { expect, test } from 'vitest';

import * as e from '../../src/kernels/expression.js';
import { channelMoments } from '../../src/kernels/index.js';
import { testBackend } from '../support/backend.js';
import { deviceTensor } from '../support/tensors.js';

await testBackend();

test('constants that are infinite or NaN, with a mask and without', async () => {
  const x = deviceTensor({ shape: [4], values: [1, 2, 3, 4] });
  const channels = {
    up: e.divide(1, 0),
    down: e.divide(1, -0),
    chosen: e.divide(1, e.select('x', 0, 0)),
    log: e.log(0),
    none: e.log(-1),
  };
  for (const mask of [undefined, x]) {
    const found = await channelMoments(channels, { x }, mask);
    expect(found.up).toMatchObject({ mean: Infinity, min: Infinity });
    expect(found.down).toMatchObject({ mean: -Infinity, max: -Infinity });
    expect(found.chosen).toMatchObject({ mean: Infinity, min: Infinity });
    expect(found.log).toMatchObject({ mean: -Infinity, max: -Infinity });
    expect(found.none.mean).toBeNaN();
  }
  const { sum } = await channelMoments({ ...channels, sum: e.add('x', e.divide(1, 0)) }, { x });
  expect(sum).toMatchObject({ mean: Infinity, posInf: 4 });
  x.dispose();
});
