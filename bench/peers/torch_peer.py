"""The torch side of the benchmark: reads one JSON line, answers with one, until its input ends.

load     reads the tensors (raw numbers in files), makes what the task works on, sets the threads
time     runs the task so many times and answers with the milliseconds that it took
numbers  runs it once and answers with its results

The tasks do what the trainers named in their files do each step, operation by operation, in this project's own words.
"""

import json
import math
import sys
import time

import numpy
import torch

import areal_controller
import areal_tracker
import verl_logits
import verl_metrics

TASKS = {
    "data": verl_metrics.Data,
    "step": verl_metrics.Step,
    "logits": verl_logits.Logits,
    "tracker": areal_tracker.Recording,
    "scalars": areal_tracker.Scalars,
    "stream": areal_controller.Controller,
}
KINDS = {"float32": numpy.float32, "int32": numpy.int32, "mask": numpy.uint8}


def load(spec):
    values = torch.from_numpy(numpy.fromfile(spec["file"], KINDS[spec["kind"]])).reshape(spec["shape"])
    return values.bool() if spec["kind"] == "mask" else values


def plain(value):
    """JSON has no word for these; the reader takes JavaScript's."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def answer(question, task):
    if question["op"] == "load":
        torch.set_num_threads(question["threads"])
        torch.set_grad_enabled(False)
        tensors = {name: load(spec) for name, spec in question["tensors"].items()}
        task = TASKS[question["task"]](tensors, question["parameters"])
        return {"torch": torch.__version__, "threads": torch.get_num_threads()}, task
    if question["op"] == "time":
        start = time.perf_counter()
        for _ in range(question["repeats"]):
            task.run()
        return {"ms": (time.perf_counter() - start) * 1000}, task
    return {"numbers": {key: plain(value) for key, value in task.numbers().items()}}, task


def main():
    task = None
    for line in sys.stdin:
        reply, task = answer(json.loads(line), task)
        print(json.dumps(reply), flush=True)


main()
