"""torchvision's networks at full size: losses of both modes, gradients and running statistics, from files of its names; and
back: what trainer saves is loaded by load_state_dict. Also what PyTorch saves as a pickle: refused, with a line that
converts it. Needs torchvision; without it there is no case.
"""
import importlib.util
import json
import re
import subprocess
import sys

import numpy as np
import torch

import data_files
import rounding
import safetensors_file
from trainer_runs import gradient_probe

HAS_TORCHVISION = importlib.util.find_spec("torchvision") is not None
HAS_SAFETENSORS = importlib.util.find_spec("safetensors") is not None
if HAS_TORCHVISION:
    import torchvision_networks
    from torchvision_networks import NETWORKS, NORMALIZE

MOST_SHORT = ("resnet18",)
DATA_ERROR = 6


def networks(options):
    if options.short:
        return [name for name in NETWORKS if name in MOST_SHORT]
    return [name for name, network in NETWORKS.items() if network.full_size]


def write_images(folder, network, size):
    pixels = torchvision_networks.images(network.batch, size, size)
    labels = torchvision_networks.labels(network.batch).astype(np.uint8)
    for stem in ("train", "t10k"):
        data_files.write_idx(folder / f"{stem}-images-idx3-ubyte", pixels)
        data_files.write_idx(folder / f"{stem}-labels-idx1-ubyte", labels)
    return {"type": "idx", "root": str(folder), "classes": torchvision_networks.NUM_CLASSES, "shuffle": False,
            "normalize": NORMALIZE}


def config_of(network, section, weights, steps):
    return gradient_probe({"data": section, "model": torchvision_networks.model_section(network),
                           "weights": {"file": str(weights)},
                           "train": {"batch_size": network.batch, "steps": steps, "eval_every": 1000}})


def measured(trained, evaluated):
    found = {"train loss": trained.steps[0]["loss"], "eval loss": evaluated.evaluations[0]["loss"]}
    gradients, saved = trained.gradients(1), trained.weights(1)
    for row in trained.events[0]["weights"]["tensors"]:
        name = row["file_name"]
        if "running_" in name:
            found[f"running {name}"] = saved[row["name"]]
        else:
            found[f"gradient of {name}"] = gradients[row["name"]]
    return found


def compare_network(case, name):
    network = NETWORKS[name]
    size = network.golden_size if case.options.short else network.full_size
    case.title = f"{name} at {size}²"
    state = torchvision_networks.formula_state(network.model())
    weights = case.folder / "weights.safetensors"
    safetensors_file.write(weights, state)
    section = write_images(case.folder, network, size)
    trained = case.trainer.run(case.folder, config_of(network, section, weights, 1), name="trained")
    evaluated = case.trainer.run(case.folder, config_of(network, section, weights, 0), name="evaluated")

    def compute(dtype, noise):
        found = torchvision_networks.compute(network, size, state, dtype, noise)
        return {what: array for what, array in found.items() if "logits" not in what}

    reference = rounding.Reference(compute, case.number, num_noisy=torchvision_networks.NUM_NOISY,
                                   also=[rounding.OtherSides()])
    reference.compare(case.findings, measured(trained, evaluated))
    load_into_torchvision(case, network, trained, state)


def load_into_torchvision(case, network, trained, state):
    """By the names that the table gives: weights as they were, statistics as they have become."""
    saved = trained.weights(1)
    named = {row["file_name"]: torch.from_numpy(saved[row["name"]]) for row in trained.events[0]["weights"]["tensors"]}
    answer = network.model().load_state_dict(named, strict=False)
    case.findings.equal("names that torchvision does not know", list(answer.unexpected_keys), [])
    case.findings.equal("names that torchvision misses",
                        [name for name in answer.missing_keys if not name.endswith("num_batches_tracked")], [])
    case.findings.equal("weights that have changed", [
        name for name, array in state.items() if "running_" not in name and not np.array_equal(named[name], array)], [])


def convert_pickle(case):
    """The line that is printed makes a file with the same numbers, of tensors that share memory and of views too."""
    case.title = "a pickle, converted by the line it is refused with"
    network = NETWORKS["vgg16_narrow"]
    state = {name: torch.from_numpy(array) for name, array in torchvision_networks.formula_state(network.model()).items()}
    state["classifier.3.weight"] = state["classifier.3.weight"].t().contiguous().t()
    state["classifier.3.bias"] = state["classifier.0.bias"]
    for number, legacy in enumerate((False, True)):
        pickle = case.folder / f"it's {number}.pth"
        torch.save({"epoch": 3, "state_dict": state}, pickle, _use_new_zipfile_serialization=not legacy)
        section = write_images(case.folder, network, network.golden_size)
        config = case.folder / f"pickle{number}.yaml"
        config.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in
                                  config_of(network, section, pickle, 0).items()), encoding="utf-8")
        code, _, said = case.trainer.ask(case.folder, "check", config)
        case.findings.equal("exit code for a pickle", code, DATA_ERROR)
        line = re.search(r"^ *python3 (-c .*)$", said, re.MULTILINE)
        case.findings.holds("a line that converts it", line is not None, said)
        if not line or not HAS_SAFETENSORS:
            continue
        subprocess.run(f"'{sys.executable}' {line[1]}", shell=True, check=True, cwd=case.folder)
        converted = safetensors_file.read(pickle.with_suffix(".safetensors"))
        case.findings.equal("tensors of the converted file", sorted(converted), sorted(state))
        case.findings.equal("numbers that conversion changed",
                            [name for name, tensor in state.items() if not np.array_equal(converted[name], tensor)], [])


def run(case):
    names = networks(case.options)
    case.seen = set(names)
    if case.index < len(names):
        compare_network(case, names[case.index])
    else:
        convert_pickle(case)


def num_cases(options):
    if not HAS_TORCHVISION:
        print("  without torchvision: nothing is compared; scripts/python_env.sh installs it", file=sys.stderr)
        return 0
    return len(networks(options)) + 1
