"""verl's three eager functions of logits: log-probability of the label, entropy, sum of squared probabilities.

Source of the steps: verl, utils/torch_functional.py, in the forms that run without flash attention or a compiler.
"""

import torch


def label_log_probs(logits, labels):
    picked = torch.gather(logits, -1, labels.unsqueeze(-1)).squeeze(-1)
    # Row by row, so that no second tensor of the size of the logits is needed.
    return picked - torch.stack([torch.logsumexp(row, -1) for row in logits])


def entropy(logits):
    probabilities = torch.softmax(logits, -1)
    return torch.logsumexp(logits, -1) - torch.sum(probabilities * logits, -1)


def sum_pi_squared(logits):
    return torch.exp(torch.logsumexp(2.0 * logits, -1) - 2.0 * torch.logsumexp(logits, -1))


class Logits:
    def __init__(self, tensors, parameters):
        self.logits = tensors["logits"]
        self.labels = tensors["labels"].long()

    def run(self):
        return {
            "logProbs": label_log_probs(self.logits, self.labels),
            "entropy": entropy(self.logits),
            "sumPiSquared": sum_pi_squared(self.logits),
        }

    def numbers(self):
        return {
            f"{name}/{row}": value
            for name, values in self.run().items()
            for row, value in enumerate(values.tolist())
        }
