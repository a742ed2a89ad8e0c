"""How AReaL's controller merges what its rollout workers export: JSON in, means weighted by their counts out.

What the network takes is left out. Source of the steps: AReaL, infra/controller/rollout_controller.py.
"""

import json
from collections import defaultdict


class Controller:
    def __init__(self, tensors, parameters):
        self.exports = parameters["exports"]

    def run(self):
        totals, counts = defaultdict(float), defaultdict(int)
        for text in self.exports:
            export = json.loads(text)
            for key, value in export.items():
                if key.endswith("__count"):
                    counts[key.removesuffix("__count")] += value
                else:
                    totals[key] += value * export.get(f"{key}__count", 0)
        return {key: total / counts[key] for key, total in totals.items() if counts[key] > 0}

    def numbers(self):
        return self.run()
