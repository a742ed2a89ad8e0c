"""How verl's driver measures the variance of the gradient and how far off its rollouts are, in torch.

Every masked statistic selects into a full tensor first and multiplies by the mask afterwards; every number is read with
item(). The weights and the mask that a trainer goes on with are left out on both sides: the numbers alone are compared.
Source of the steps: verl, trainer/ppo/metric_utils.py and rollout_corr_helper.py (January 2026).
"""

import math

import torch

LIMIT = 20.0


def masked_sum(values, mask, axis=None):
    selected = torch.where(mask.bool(), values, 0.0) * mask
    return selected.sum(axis=axis)


def masked_mean(values, mask, axis=None):
    return masked_sum(values, mask, axis) / (mask.sum(axis=axis) + 1e-8)


def extremes(values, mask):
    outside = ~mask.bool()
    highest = values.masked_fill(outside, float("-inf")).max().item()
    lowest = values.masked_fill(outside, float("inf")).min().item()
    return highest, lowest


def spread(values, mask):
    mean = masked_mean(values, mask)
    variance = masked_mean(values.square(), mask) - mean.square()
    return torch.sqrt(torch.clamp(variance, min=0.0)).item()


def variance_proxies(batch, gradient_norm):
    mask = batch["response_mask"]
    weight = 1 - 2 * torch.exp(batch["old_log_probs"]) + batch["sum_pi_squared"]
    advantage = masked_mean(batch["advantages"], mask, -1)
    power = masked_sum(weight, mask, -1)
    total = (advantage**2 * torch.clamp(power, min=0.0)).mean()
    signal = gradient_norm**2
    noise = (total - signal) / (len(advantage) - 1)
    return {
        "variance_proxy/proxy1_signal_strength": signal,
        "variance_proxy/proxy2_total_power": total.item(),
        "variance_proxy/proxy3_pure_noise": max(0.0, noise.item()),
        "variance_proxy/expected_a_squared": (advantage**2).mean().item(),
        "variance_proxy/expected_w": power.mean().item(),
    }


def token_weights(log_ratio, mask, bound):
    weights = torch.exp(torch.clamp(log_ratio, -LIMIT, LIMIT)) * mask
    mask.any()  # an empty mask is refused there
    highest, lowest = extremes(weights, mask)
    metrics = {
        "rollout_is_mean": masked_mean(weights, mask).item(),
        "rollout_is_ratio_fraction_high": masked_mean((weights > bound).float(), mask).item(),
        "rollout_is_ratio_fraction_low": masked_mean((weights < 1 / bound).float(), mask).item(),
        "rollout_is_max": highest,
        "rollout_is_min": lowest,
    }
    mask.sum() > 1
    metrics["rollout_is_std"] = spread(weights.clamp(1 / bound, bound), mask)
    held = weights.clamp(1 / bound, bound)
    normalized = held / (masked_mean(held, mask) + 1e-8)
    metrics["rollout_is_eff_sample_size"] = 1.0 / masked_mean(normalized.square(), mask).item()
    rows = masked_mean(weights, mask, -1)
    return {
        **metrics,
        "rollout_is_seq_mean": rows.mean().item(),
        "rollout_is_seq_std": rows.std().item(),
        "rollout_is_seq_max": rows.max().item(),
        "rollout_is_seq_min": rows.min().item(),
        "rollout_is_seq_max_deviation": (rows - 1.0).abs().max().item(),
        "rollout_is_seq_fraction_high": (rows > bound).float().mean().item(),
        "rollout_is_seq_fraction_low": (rows < 1 / bound).float().mean().item(),
    }


def token_rejection(log_ratio, mask, ratios):
    low, high = map(math.log, ratios)
    held = torch.clamp(log_ratio, -LIMIT, LIMIT)
    # All three estimators are made, whichever are asked for.
    k1, _, _ = -held, 0.5 * held**2, torch.exp(held) - 1.0 - held
    selected = mask.bool()
    has_tokens = mask.sum(-1) > 0
    kept = (k1 >= low) & (k1 <= high)
    kept_float = kept.to(log_ratio.dtype)
    combined = torch.ones_like(mask, dtype=log_ratio.dtype) * kept_float
    row_is_kept = (~(~kept & selected)).all(-1)

    rows = masked_mean(k1, mask, -1)[has_tokens]
    highest, lowest = extremes(k1, mask)
    name = "rollout_rs_token_k1"
    metrics = {
        f"{name}_mean": masked_mean(k1, mask).item(),
        f"{name}_max": highest,
        f"{name}_min": lowest,
        f"{name}_fraction_high": masked_mean((k1 > high).float(), mask).item(),
        f"{name}_fraction_low": masked_mean((k1 < low).float(), mask).item(),
        f"{name}_std": spread(k1.clamp(low, high), mask),
        f"{name}_seq_mean": rows.mean().item(),
        f"{name}_seq_std": rows.std().item(),
        f"{name}_seq_max": rows.max().item(),
        f"{name}_seq_min": rows.min().item(),
        f"{name}_seq_max_deviation": rows.abs().max().item(),
        f"{name}_seq_fraction_high": (rows > high).float().mean().item(),
        f"{name}_seq_fraction_low": (rows < low).float().mean().item(),
        f"{name}_masked_fraction": masked_mean(1 - kept_float, mask).item(),
    }
    counted = has_tokens.float()
    lost = (1.0 - row_is_kept.to(log_ratio.dtype)) * counted
    metrics[f"{name}_seq_masked_fraction"] = (lost.sum() / counted.sum()).item()
    metrics["rollout_rs_masked_fraction"] = masked_mean(1 - combined, mask).item()
    left = (combined > 0.5) & selected
    metrics["rollout_rs_seq_masked_fraction"] = (~left & selected).any(-1).float().mean().item()
    return metrics


def divergence(old, rollout, mask):
    training = masked_mean(old, mask, -1)
    sampling = masked_mean(rollout, mask, -1)
    log_ratio = old - rollout
    difference = sampling - training
    squared = torch.exp(torch.clamp(log_ratio, -LIMIT, LIMIT)).square()
    sums = torch.clamp(masked_sum(log_ratio, mask, -1), -LIMIT, LIMIT)
    return {
        "training_ppl": torch.exp(-training).mean().item(),
        "training_log_ppl": (-training).mean().item(),
        "kl": masked_mean(rollout - old, mask).item(),
        "k3_kl": masked_mean(torch.exp(log_ratio) - log_ratio - 1, mask).item(),
        "rollout_ppl": torch.exp(-sampling).mean().item(),
        "rollout_log_ppl": (-sampling).mean().item(),
        "log_ppl_diff": difference.mean().item(),
        "log_ppl_abs_diff": difference.abs().mean().item(),
        "log_ppl_diff_max": difference.max().item(),
        "log_ppl_diff_min": difference.min().item(),
        "ppl_ratio": torch.exp(difference).mean().item(),
        "chi2_token": (masked_mean(squared, mask) - 1.0).item(),
        "chi2_seq": (torch.exp(2.0 * sums).mean() - 1.0).item(),
    }


def rollout_correction(batch, weight_bound, kept_ratios):
    old, rollout, mask = batch["old_log_probs"], batch["rollout_log_probs"], batch["response_mask"]
    log_ratio = old - rollout
    metrics = {
        **token_weights(log_ratio, mask, weight_bound),
        **token_rejection(log_ratio, mask, kept_ratios),
        **divergence(old, rollout, mask),
    }
    return {f"rollout_corr/{key}": value for key, value in metrics.items()}
