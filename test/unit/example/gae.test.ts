/** Generalised advantage estimation and whitening against numbers worked out by hand. */
import { describe, expect, it } from 'vitest';
import { estimateAdvantages, whiten } from '../../../examples/ppo/gae.js';

describe('estimateAdvantages', () => {
  it('agrees with a case worked out by hand', () => {
    // γ = ½, λ = ½. Row 1: δ₃ = 1 − 0.5 = 0.5; δ₂ = ½·0.5 − 0.25 = 0; δ₁ = ½·0.25 − 0.5 = −0.375.
    // A₃ = 0.5; A₂ = 0 + ¼·0.5 = 0.125; A₁ = −0.375 + ¼·0.125 = −0.34375.
    // Row 2 ends after its first token: A = 0.75 − 0.25 = 0.5.
    const rewards = Float32Array.of(0, 0, 1, 0.75, 0, 0);
    const values = Float32Array.of(0.5, 0.25, 0.5, 0.25, 9, 9);
    const mask = Float32Array.of(1, 1, 1, 1, 0, 0);
    const { advantages, returns } = estimateAdvantages(rewards, values, mask, 3, { gamma: 0.5, lambda: 0.5 });
    expect([...advantages]).toEqual([-0.34375, 0.125, 0.5, 0.5, 0, 0]);
    expect([...returns]).toEqual([0.15625, 0.375, 1, 0.75, 0, 0]);
  });

  it('is return minus value for γ = λ = 1', () => {
    const values = Float32Array.of(0.25, 0.5, 0.75, 0);
    const { advantages } = estimateAdvantages(
      Float32Array.of(0, 0, 1, 0),
      values,
      Float32Array.of(1, 1, 1, 0),
      4,
      { gamma: 1, lambda: 1 },
    );
    expect([...advantages]).toEqual([0.75, 0.5, 0.25, 0]);
  });
});

describe('whiten', () => {
  it('gives masked entries mean 0 and variance 1, and the others 0', () => {
    // Selected: 1, 3, 5: mean 3, variance 4.
    const whitened = whiten(Float32Array.of(1, 3, 100, 5), Float32Array.of(1, 1, 0, 1));
    expect([...whitened]).toEqual([-1, 0, 0, 1]);
  });

  it('only centres what has no spread', () => {
    expect([...whiten(Float32Array.of(2, 2), Float32Array.of(1, 1))]).toEqual([0, 0]);
    expect([...whiten(Float32Array.of(2, 7), Float32Array.of(1, 0))]).toEqual([0, 0]);
  });
});
