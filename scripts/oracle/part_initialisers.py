"""How weights start: the distribution of every initialiser against torch.nn.init's, bounds exactly."""
import math

import numpy as np
import torch
from torch import nn

# The two-sided Kolmogorov-Smirnov test errs this seldom, so that thousands of tests let one seed in a thousand fail.
SIGNIFICANCE = 1e-7
NUM_SAMPLES = 12  # of PyTorch's, beside one of trainer's

INITS = {
    "pytorch": None,  # what the modules do themselves
    "kaiming_uniform": lambda w: nn.init.kaiming_uniform_(w, nonlinearity="relu"),
    "kaiming_normal": lambda w: nn.init.kaiming_normal_(w, nonlinearity="relu"),
    "xavier_uniform": nn.init.xavier_uniform_,
    "xavier_normal": nn.init.xavier_normal_,
    "normal": lambda w: nn.init.normal_(w, std=0.02),
    "zeros": nn.init.zeros_,
}
# name: the layer over 24 channels, and PyTorch's module.
LAYERS = {
    "wide": ({"linear": {"out": 150}}, lambda: nn.Linear(24, 150)),
    "conv": ({"conv2d": {"out": 48, "kernel": 3, "padding": 1}}, lambda: nn.Conv2d(24, 48, 3)),
    "grouped": ({"conv2d": {"out": 40, "kernel": [3, 2], "groups": 4}}, lambda: nn.Conv2d(24, 40, (3, 2), groups=4)),
    "narrow": ({"conv2d": {"out": 24, "kernel": 5, "padding": 2}}, lambda: nn.Conv2d(24, 24, 5)),
}


def kolmogorov_smirnov(one, other):
    """The largest distance between two samples' distribution functions, and what it may be."""
    one, other = np.sort(one), np.sort(other)
    both = np.concatenate([one, other])
    distance = np.abs(np.searchsorted(one, both, side="right") / len(one) -
                      np.searchsorted(other, both, side="right") / len(other)).max()
    most = math.sqrt(-math.log(SIGNIFICANCE / 2) / 2) * math.sqrt((len(one) + len(other)) / (len(one) * len(other)))
    return float(distance), most


def samples_of_pytorch(make, init, number):
    """(weights, biases) of several modules."""
    torch.manual_seed(number)
    weights, biases = [], []
    for _ in range(NUM_SAMPLES):
        module = make()
        if init:
            init(module.weight)
        weights.append(module.weight.detach().numpy().ravel())
        biases.append(module.bias.detach().numpy().ravel())
    return np.concatenate(weights), np.concatenate(biases)


def bound_of(make, kind):
    """Of the uniform ones, from the module's own fans; None for the others."""
    weight = make().weight
    fan_in, fan_out = nn.init._calculate_fan_in_and_fan_out(weight)
    return {"pytorch": math.sqrt(3) * nn.init.calculate_gain("leaky_relu", math.sqrt(5)) / math.sqrt(fan_in),
            "kaiming_uniform": math.sqrt(3) * nn.init.calculate_gain("relu") / math.sqrt(fan_in),
            "xavier_uniform": math.sqrt(6 / (fan_in + fan_out))}.get(kind)


def compare(findings, name, values, expected, bound):
    values, expected = values.ravel().astype(np.float64), expected.astype(np.float64)
    if not expected.any():
        findings.equal(f"{name} is zero", not values.any(), True)
        return
    distance, most = kolmogorov_smirnov(values, expected)
    findings.close(f"{name} distribution", distance, 0.0, most)
    deviation, count = expected.std(), len(values)
    # Of a mean, of a variance (kurtosis at most 3) and of a correlation: six standard deviations.
    findings.close(f"{name} mean", float(values.mean()), 0.0, 6 * deviation / math.sqrt(count))
    findings.close(f"{name} deviation", float(values.std()), float(deviation),
                   6 * deviation * math.sqrt(0.5 / count + 0.5 / len(expected)))
    findings.close(f"{name} neighbours", float(np.corrcoef(values[:-1], values[1:])[0, 1]), 0.0, 6 / math.sqrt(count))
    if bound:
        largest = float(np.abs(values).max())
        findings.holds(f"{name} within ±{bound:.6g}", largest <= bound * (1 + 2**-23), f"{largest}")
        # All of n uniform numbers lie below the share 1 − s of the bound with probability (1 − s)ⁿ.
        share = -math.log(SIGNIFICANCE) / count
        if share < 1:
            findings.holds(f"{name} fills ±{bound:.6g}", largest >= bound * (1 - share), f"{largest}")


def run(case):
    kind = list(INITS)[case.index // 2]
    by_layer = case.index % 2 == 1  # written at the layers instead of at the model
    case.title, case.seen = f"{kind}{', by layer' if by_layer else ''}", {kind}
    layers = [{"conv2d": {"out": 24, "kernel": 1, "name": "first"}}, {"batchnorm2d": {"name": "batchnorm"}}]
    for name in ("conv", "grouped", "narrow", "wide"):
        layer, _ = LAYERS[name]
        (layer_kind, arguments), = layer.items()
        if name == "grouped":  # which leaves other channels behind, so it ends a branch of its own
            layers += ["relu", {"conv2d": {"out": 24, "kernel": 1, "name": "between"}}]
        if name == "wide":
            layers += [{"conv2d": {"out": 24, "kernel": 1, "name": "before"}}, "global_avgpool",
                       {"layernorm": {"name": "layernorm"}}]
        layers.append({layer_kind: {**arguments, "name": name, **({"init": kind} if by_layer else {})}})
        if name in ("conv", "grouped"):
            layers.append({"conv2d": {"out": 24, "kernel": 1, "name": f"behind_{name}"}})
    config = {"data": {"type": "synthetic", "shape": [8, 8, 3], "classes": 150, "samples": 8},
              "model": {"layers": layers, **({} if by_layer else {"init": kind})}, "train": {"steps": 0, "batch_size": 4}}
    weights = {}
    for name, seed in (("one", case.number), ("again", case.number), ("other", case.number + 1)):
        weights[name] = case.trainer.run(case.folder, {**config, "seed": seed}, name=name).weights(0)
    for name, (_, make) in LAYERS.items():
        expected_weights, expected_biases = samples_of_pytorch(make, INITS[kind], case.number)
        compare(case.findings, f"{name}.weight", weights["one"][f"{name}.weight"], expected_weights, bound_of(make, kind))
        bias = weights["one"][f"{name}.bias"]
        case.findings.equal(f"{name}.weight shape", weights["one"][f"{name}.weight"].shape, tuple(make().weight.shape))
        if kind == "pytorch":
            fan_in, _ = nn.init._calculate_fan_in_and_fan_out(make().weight)
            compare(case.findings, f"{name}.bias", bias, expected_biases, 1 / math.sqrt(fan_in))
        else:  # torch.nn.init says nothing of biases
            case.findings.equal(f"{name}.bias is zero", not bias.any(), True)
        if kind != "zeros":
            case.findings.holds(f"{name} of another seed differs",
                                (weights["one"][f"{name}.weight"] != weights["other"][f"{name}.weight"]).mean() > 0.99)
    one = weights["one"]
    if kind != "zeros" and not by_layer:
        correlation = np.corrcoef(one["between.weight"].ravel(), one["before.weight"].ravel())[0, 1]
        case.findings.close("layers of one shape start apart", float(correlation), 0.0, 6 / 24)
    case.findings.equal("the seed decides", all(np.array_equal(one[name], weights["again"][name]) for name in one), True)
    for norm in ("batchnorm", "layernorm"):
        case.findings.equal(f"{norm} starts at 1 and 0", (np.unique(one[f"{norm}.weight"]).tolist(),
                                                          np.unique(one[f"{norm}.bias"]).tolist()), ([1.0], [0.0]))
    case.findings.equal("running statistics start at 0 and 1", (
        np.unique(one["batchnorm.running_mean"]).tolist(), np.unique(one["batchnorm.running_var"]).tolist()), ([0.0], [1.0]))


def num_cases(_options):
    return 2 * len(INITS)


def everything(_options):
    return set(INITS)
