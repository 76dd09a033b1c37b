#!/usr/bin/env python3
"""Computes torchvision's networks in PyTorch and writes tests/golden/torchvision_<name>.json.

It has trainer's `model` section, the shapes of the input, every tensor of the state_dict by name and shape, whose values a formula makes
(torchvision_networks.py), and what PyTorch computes in f64: logits and loss in evaluation and in training mode, and for
each parameter and running statistic the L2 norm and a few elements, [norm, element…] with the places of the elements; each
with how far a good f32 may be from it (rounding.py).

usage: .venv/bin/python scripts/oracle/make_torchvision_golden.py [NAME…]
"""
import json
import os
import pathlib
import sys

os.environ["OMP_NUM_THREADS"] = "2"
import numpy as np  # noqa: E402
import torch  # noqa: E402
import torchvision  # noqa: E402

import rounding  # noqa: E402
import torchvision_networks  # noqa: E402
from torchvision_networks import NETWORKS, NUM_CLASSES  # noqa: E402

GOLDEN = pathlib.Path(__file__).resolve().parent.parent.parent / "tests" / "golden"
NUM_ELEMENTS = 3
# Logits of no more numbers are kept whole.
MOST_WHOLE = 64


def places(number, array):
    """Elements that a hash chooses, and the largest."""
    chosen = torchvision_networks.hashed(number + 7, NUM_ELEMENTS) % np.uint32(array.size)
    return [*map(int, chosen), int(np.argmax(np.abs(array)))]


def sampled(found, chosen):
    """Losses as they are, logits where they are few; of tensors the norm and the chosen elements."""
    result = {}
    for name, array in found.items():
        if name in chosen:
            flat = array.reshape(-1)
            result[name] = np.array([np.sqrt(np.sum(flat * flat)), *flat[chosen[name]]])
        else:
            result[name] = array
    return result


def golden_of(network):
    size = network.golden_size
    state = torchvision_networks.formula_state(network.model())
    chosen = {}

    def compute(dtype, noise):
        found = torchvision_networks.compute(network, size, state, dtype, noise)
        if not chosen:
            for number, (what, array) in enumerate(found.items()):
                if what.startswith(("gradient", "running")) or array.size > MOST_WHOLE:
                    chosen[what] = places(number, array)
        return sampled(found, chosen)

    reference = rounding.Reference(compute, seed=1, num_noisy=torchvision_networks.NUM_NOISY)
    shapes = torchvision_networks.state_shapes(network.model())
    targets = torchvision_networks.targets_of(network, size)
    return {
        "torch": torch.__version__, "torchvision": torchvision.__version__,
        "model": torchvision_networks.model_section(network),
        "images": [network.batch, size, size, 3], "targets": list(targets.shape[1:]), "classes": NUM_CLASSES,
        "tensors": [[name, list(shape)] for name, shape in shapes],
        "places": chosen,
        "exact": {name: np.asarray(value).reshape(-1).tolist() for name, value in reference.exact.items()},
        "allowed": reference.allowed,
    }


def short(value):
    """Numbers as f32 has them, and some more: nothing here is exact beyond."""
    if isinstance(value, float):
        return float(f"{value:.10g}")
    if isinstance(value, list):
        return [short(each) for each in value]
    if isinstance(value, dict):
        return {key: short(each) for key, each in value.items()}
    return value


def golden_text(golden):
    """A tensor a line."""
    parts = []
    for key, value in golden.items():
        if isinstance(value, dict):
            inner = ",\n".join(f"  {json.dumps(name)}: {json.dumps(each)}" for name, each in value.items())
            parts.append(f"{json.dumps(key)}: {{\n{inner}\n}}")
        elif key == "tensors":
            parts.append('"tensors": [\n' + ",\n".join("  " + json.dumps(each) for each in value) + "\n]")
        else:
            parts.append(f"{json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main(names):
    torch.set_num_threads(2)
    for name in names or [name for name, network in NETWORKS.items() if network.golden_size]:
        network = NETWORKS[name]
        (GOLDEN / f"torchvision_{name}.json").write_text(golden_text(short(golden_of(network))), encoding="utf-8")
        print(f"tests/golden/torchvision_{name}")


if __name__ == "__main__":
    main(sys.argv[1:])
