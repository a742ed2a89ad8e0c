"""What verl's driver computes from a batch after every step, in torch, with a read per number.

Masks are int64 there, as tokenizers make them; selections are gathered, every statistic is its own operation, and every
number is read with item(). Source of the steps: verl, trainer/ppo/metric_utils.py.
"""

import torch

import verl_correction

TOKEN_STAGES = ("ref", "values", "adv", "update_critic", "update_actor")


def mean_max_min(prefix, values):
    return {
        f"{prefix}/mean": torch.mean(values).item(),
        f"{prefix}/max": torch.max(values).item(),
        f"{prefix}/min": torch.min(values).item(),
    }


def lengths(batch):
    width = batch["response_mask"].size(-1)
    attention = batch["attention_mask"]
    prompt = attention[:, :-width].sum(-1).float()
    response = attention[:, -width:].sum(-1).float()
    return prompt, response, attention.size(-1) - width, width


def data_metrics(batch):
    score = batch["token_level_scores"].sum(-1)
    reward = batch["token_level_rewards"].sum(-1)
    mask = batch["response_mask"].bool()
    prompt, response, prompt_width, width = lengths(batch)
    batch["attention_mask"][:, :prompt_width].bool()  # made there as well, though only its width is used
    answered = ~(response == 0)
    answers = response[answered]

    selected = {key: torch.masked_select(batch[key], mask) for key in ("advantages", "returns", "values")}
    errors = selected["returns"] - selected["values"]
    explained = 1.0 - torch.var(errors) / (torch.var(selected["returns"]) + 1e-5)

    def clipped(values, cap):
        return torch.mean(torch.eq(values, cap).float()).item()

    return {
        **mean_max_min("critic/score", score[answered]),
        **mean_max_min("critic/rewards", reward[answered]),
        **mean_max_min("critic/advantages", selected["advantages"]),
        **mean_max_min("critic/returns", selected["returns"]),
        **mean_max_min("critic/values", selected["values"]),
        "critic/vf_explained_var": explained.item(),
        **mean_max_min("response_length", response),
        "response_length/clip_ratio": clipped(response, width),
        **mean_max_min("response_length_non_aborted", answers),
        "response_length_non_aborted/clip_ratio": clipped(answers, width),
        "response/aborted_ratio": torch.mean((~answered).float()).item(),
        **mean_max_min("prompt_length", prompt),
        "prompt_length/clip_ratio": clipped(prompt, prompt_width),
    }


def time_metrics(batch, timings, gpus):
    prompt, response, _, _ = lengths(batch)
    answered = torch.sum(response).item()
    tokens = torch.sum(prompt).item() + answered
    counts = {"gen": answered, **dict.fromkeys(TOKEN_STAGES, tokens)}
    return {
        **{f"timing_s/{stage}": seconds for stage, seconds in timings.items()},
        **{
            f"timing_per_token_ms/{stage}": timings[stage] * 1000 / count
            for stage, count in counts.items()
            if stage in timings
        },
        "perf/total_num_tokens": tokens,
        "perf/time_per_step": timings["step"],
        "perf/throughput": tokens / timings["step"] / gpus,
    }


class Data:
    def __init__(self, tensors, parameters):
        self.batch = {name: x.long() if x.dtype == torch.bool else x for name, x in tensors.items()}

    def run(self):
        return data_metrics(self.batch)

    def numbers(self):
        return self.run()


class Step(Data):
    def __init__(self, tensors, parameters):
        super().__init__(tensors, parameters)
        self.parameters = parameters

    def run(self):
        given = self.parameters
        return {
            **verl_correction.rollout_correction(self.batch, given["weight_bound"], given["kept_ratios"]),
            **data_metrics(self.batch),
            **time_metrics(self.batch, given["timings"], given["gpus"]),
            **verl_correction.variance_proxies(self.batch, given["gradient_norm"]),
        }
