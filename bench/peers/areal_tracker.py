"""How AReaL's tracker records a step: masks and values are cloned and kept until the export, then reduced key by key.

Every average, minimum and maximum is its own reduction over each kept tensor, with a read at its end. Source of the
steps: AReaL, utils/stats_tracker.py.
"""

import torch


class Recording:
    def __init__(self, tensors, parameters):
        self.tensors = tensors
        self.calls = parameters["calls"]

    def run(self):
        masks, values, denominators, scalars = {}, {}, {}, {}
        for call in self.calls:
            scope = call["scope"]
            if call["kind"] == "denominators":
                for key, name in call["masks"].items():
                    masks.setdefault(f"{scope}/{key}", []).append(self.tensors[name].detach().clone())
            elif call["kind"] == "stats":
                for key, name in call["values"].items():
                    full = f"{scope}/{key}"
                    denominators[full] = f"{scope}/{call['denominator']}"
                    values.setdefault(full, []).append(self.tensors[name].detach().clone())
            else:
                for key, value in call["values"].items():
                    scalars.setdefault(f"{scope}/{key}", []).append(float(value))
        return export(masks, values, denominators, scalars)

    def numbers(self):
        return self.run()


def export(masks, values, denominators, scalars):
    result = {key: float(sum(mask.sum() for mask in kept)) for key, kept in masks.items()}
    for key, kept in values.items():
        pairs = list(zip(kept, masks[denominators[key]]))
        total = sum(torch.where(mask, x, 0.0).sum() for x, mask in pairs)
        count = sum(mask.sum() for _, mask in pairs)
        if count == 0:
            continue
        result[f"{key}/avg"] = float(total / count)
        result[f"{key}/min"] = float(min(torch.where(mask, x, float("inf")).min() for x, mask in pairs))
        result[f"{key}/max"] = float(max(torch.where(mask, x, -float("inf")).max() for x, mask in pairs))
    for key, kept in scalars.items():
        result[key] = sum(kept) / len(kept)
        result[f"{key}__count"] = len(kept)
    return result
