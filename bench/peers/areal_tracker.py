"""How AReaL's tracker records and exports: masks and values are cloned and kept until the export, numbers are kept in
lists, and then key by key everything is reduced.

Every average, minimum and maximum is its own reduction over each kept tensor, with a read at its end. Every value is
compared with its mask when it is recorded, and so are all values of its key before it. Source of the steps: AReaL,
utils/stats_tracker.py.
"""

import threading
from collections import defaultdict

import torch


class Tracker:
    def __init__(self):
        self.lock = threading.Lock()
        self.kept = defaultdict(list)
        self.numbers = defaultdict(list)
        self.denominators = {}

    def denominator(self, scope, masks):
        with self.lock:
            for key, mask in masks.items():
                assert mask.dtype == torch.bool and mask.numel() > 0, key
                self.kept[f"{scope}/{key}"].append(mask.detach().clone())

    def stat(self, scope, values, denominator):
        with self.lock:
            masks = f"{scope}/{denominator}"
            for key, x in values.items():
                assert x.dtype == torch.float32 and x.numel() > 0, key
                full = f"{scope}/{key}"
                for mask, value in zip(self.kept[masks], self.kept[full] + [x]):
                    assert mask.shape == value.shape, full
                self.denominators[full] = masks
                self.kept[full].append(x.detach().clone())

    def scalar(self, scope, values):
        with self.lock:
            for key, value in values.items():
                self.numbers[f"{scope}/{key}"].append(float(value))

    def kept_bytes(self):
        return sum(x.numel() * x.element_size() for tensors in self.kept.values() for x in tensors)

    def export(self):
        with self.lock:
            result = {}
            for key, tensors in self.kept.items():
                if key in self.denominators:
                    result.update(statistics(key, list(zip(tensors, self.kept[self.denominators[key]]))))
                else:
                    result[key] = float(sum(mask.sum() for mask in tensors))
            for key, values in self.numbers.items():
                total = torch.tensor(sum(values), dtype=torch.float32)
                count = torch.tensor(len(values), dtype=torch.float32)
                result[key] = float(total / count)
                result[f"{key}__count"] = int(count)
            return result


def statistics(key, pairs):
    """Average, minimum and maximum; what nothing was selected for, or is infinite, is left out."""
    result = {}
    total = sum([torch.where(mask, x, 0.0).sum() for x, mask in pairs])
    count = sum([mask.sum() for _, mask in pairs])
    if not count == 0:
        result[f"{key}/avg"] = (total / count).cpu().item()
    least = min([torch.where(mask, x, float("inf")).min() for x, mask in pairs])
    if not torch.isinf(least):
        result[f"{key}/min"] = float(least)
    most = max([torch.where(mask, x, -float("inf")).max() for x, mask in pairs])
    if not torch.isinf(most):
        result[f"{key}/max"] = float(most)
    return result


class Recording:
    """All calls of a step, then the export."""

    def __init__(self, tensors, parameters):
        self.tensors = tensors
        self.calls = parameters["calls"]

    def record(self):
        tracker = Tracker()
        for call in self.calls:
            scope = call["scope"]
            if call["kind"] == "denominators":
                tracker.denominator(scope, self.named(call["masks"]))
            elif call["kind"] == "stats":
                tracker.stat(scope, self.named(call["values"]), call["denominator"])
            else:
                tracker.scalar(scope, call["values"])
        return tracker

    def named(self, names):
        return {key: self.tensors[name] for key, name in names.items()}

    def run(self):
        return self.record().export()

    def numbers(self):
        tracker = self.record()
        return {"kept bytes": tracker.kept_bytes(), **tracker.export()}


class Scalars:
    """One number per call, then the export."""

    def __init__(self, tensors, parameters):
        self.names = parameters["names"]
        self.values = tensors["values"].tolist()

    def run(self):
        tracker = Tracker()
        names, every = self.names, len(self.names)
        for i, value in enumerate(self.values):
            tracker.scalar("rollout", {names[i % every]: value})
        return tracker.export()

    def numbers(self):
        return self.run()
