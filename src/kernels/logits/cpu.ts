/** Logits on tfjs' `cpu` backend: rows are copied tile by tile to where the SIMD module can sum them. */
import { cpuArray } from '../host-arrays.js';
import { ownWorkspace } from '../simd/workspace.js';
import { STATE_BYTES, hostStatistics } from './host.js';
import type { LogitsKernel } from './request.js';

/** Logits that are copied at once: 16 KiB, which stay in the first-level cache until they are summed. */
const TILE = 4096;

export const cpuLogits: LogitsKernel = (request) => {
  const { backend, cols } = request;
  const logits = cpuArray(backend, request.logits);
  const labels = cpuArray(backend, request.labels);
  const workspace = ownWorkspace();
  const { simd } = workspace;
  const state = workspace.scratch(STATE_BYTES + TILE * Float32Array.BYTES_PER_ELEMENT);
  const address = state + STATE_BYTES;
  const tile = new Float32Array(workspace.bytes.buffer, address, TILE);
  /** Rows that fit a tile together: copying costs by the call. */
  const together = Math.max(1, Math.floor(TILE / cols));

  const fold = (row: number, factor: number): void => {
    const start = row * cols;
    if (cols <= TILE) {
      const place = row % together;
      // A tensor that was cast from int32 still holds integers here; `set` converts them.
      if (place === 0) tile.set(logits.subarray(start, start + together * cols));
      simd.foldLogits(address + place * cols * Float32Array.BYTES_PER_ELEMENT, cols, factor, state);
      return;
    }
    for (let done = 0; done < cols; done += TILE) {
      const length = Math.min(TILE, cols - done);
      tile.set(logits.subarray(start + done, start + done + length));
      simd.foldLogits(address, length, factor, state);
    }
  };
  return hostStatistics(request, { logits, labels, workspace, state, fold });
};
