"""How far the losses of two runs are apart."""
import math


def largest_difference(losses, expected):
    """Of the larger of 1 and the loss; infinite where there are none, or not as many, or one is no number."""
    if len(losses) != len(expected) or not losses or not all(map(is_number, losses)):
        return math.inf
    return max(abs(a - b) / max(1, abs(b)) for a, b in zip(losses, expected))


def is_number(loss):
    return isinstance(loss, (int, float)) and math.isfinite(loss)
