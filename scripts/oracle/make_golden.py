#!/usr/bin/env python3
"""Trains the networks of golden_networks.py in PyTorch and writes tests/golden/<name>/:

  config.yaml          the experiment; its data section only declares what data.safetensors holds
  data.safetensors     inputs (N × features, or N × H × W × C in uint8) and targets (int32 classes or float32 N × 1)
  initial.safetensors  the parameters and running statistics before the first step
  final.safetensors    the same after the last
  frozen.safetensors   the parameters of the network that a feature loss applies, where there is one
  expected.json        loss, learning rate, gradient norm (before clipping) and samples of each step; loss, accuracy and
                       the first outputs over the whole dataset in evaluation mode after the last; `rounding`, how far
                       the same training in float64 ends from it, as the measure of a fair tolerance

Batches are consecutive samples of the dataset, the last one of an epoch smaller. usage: .venv/bin/python
scripts/oracle/make_golden.py [--fresh] [NAME…]. Data and initial weights that exist are kept unless --fresh is given.
"""
import argparse
import json
import math
import os
import pathlib

os.environ["OMP_NUM_THREADS"] = "2"
import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import safetensors_file  # noqa: E402
import torch_network  # noqa: E402
from golden_networks import NETWORKS  # noqa: E402

GOLDEN = pathlib.Path(__file__).resolve().parent.parent.parent / "tests" / "golden"
NUM_STEPS = 20


def build(network):
    return torch_network.build(network["layers"], network["data"]["shape"])


def state_arrays(model):
    return {name: value.detach().to(torch.float32).numpy().copy() for name, value in model.state_dict().items()
            if not name.endswith("num_batches_tracked")}


def make_initial(model, generator):
    """Uniform(±1/√fan_in) weights and biases; norms off their 1 and 0, so that a swapped pair shows."""
    arrays = state_arrays(model)
    bound = 1.0
    for name, array in arrays.items():
        values = generator.random(array.shape) * 2 - 1
        if name.endswith("running_mean") or name.endswith("running_var"):
            continue
        if name.endswith(".weight") and array.ndim > 1:
            bound = 1 / math.sqrt(array[0].size)
            array[...] = values * bound
        elif name.endswith(".weight"):
            array[...] = 1 + 0.2 * values
        else:
            array[...] = bound * values
    return arrays


def make_data(data, generator):
    """Noise around one random pattern a class (or a smooth function), so that there is something to learn."""
    count, shape = data["samples"], data["shape"]
    if "target_shape" in data:
        inputs = generator.integers(0, 256, (count, *shape), dtype=np.uint8)
        mixed = inputs.astype(np.float32) @ (generator.random((shape[-1], data["target_shape"][-1])) - 0.3)
        return {"inputs": inputs, "targets": (mixed / 255).astype(np.float32)}
    if data["classes"]:
        targets = generator.integers(0, data["classes"], count).astype(np.int32)
        patterns = generator.random((data["classes"], *shape)) * 2 - 1
        inputs = patterns[targets] + 0.7 * (generator.random((count, *shape)) * 2 - 1)
        if len(shape) == 3:
            return {"inputs": np.clip((inputs + 1.7) / 3.4 * 255, 0, 255).astype(np.uint8), "targets": targets}
        return {"inputs": inputs.astype(np.float32), "targets": targets}
    inputs = (generator.random((count, *shape)) * 2 - 1).astype(np.float32)
    score = np.sin(2 * inputs[:, :1]) + inputs[:, 1:2] * inputs[:, 2:3] + 0.3 * inputs.sum(axis=1, keepdims=True)
    targets = (score > 0) if data.get("binary") else score
    return {"inputs": inputs, "targets": targets.astype(np.float32)}


def device_inputs(network, inputs, dtype):
    """What the first layer sees: images normalised in float32 as (x/255 − mean)/std and laid out N, C, H, W."""
    if inputs.dtype != np.uint8:
        return torch.from_numpy(inputs).to(dtype)
    normalize = network["data"]["normalize"]
    pixels = torch.from_numpy(inputs).to(dtype) / 255
    pixels = (pixels - torch.tensor(normalize["mean"], dtype=dtype)) / torch.tensor(normalize["std"], dtype=dtype)
    return pixels.permute(0, 3, 1, 2).contiguous()


def feature_network(network):
    """(The loss, the network it applies); nothing where no loss does."""
    for loss in network["loss"] if isinstance(network["loss"], list) else []:
        if loss["type"] == "feature":
            return loss, torch_network.build(loss["network"]["layers"], network["data"]["target_shape"])
    return None, None


def feature_loss(loss, frozen, outputs, targets):
    """As it is written in PyTorch: over what the network's layers give for both images."""
    distance = {"l1": F.l1_loss, "mse": F.mse_loss}[loss["distance"]]
    _, of_outputs = frozen.run(outputs, ())
    with torch.no_grad():
        _, of_targets = frozen.run(targets, ())
    return sum(weight * distance(of_outputs[name], of_targets[name])
               for name, weight in zip(loss["layers"], loss["layer_weights"]))


def loss_of(network, outputs, targets, reduction="mean"):
    loss = network["loss"]
    if isinstance(loss, list):
        images = targets.to(outputs.dtype).permute(0, 3, 1, 2)
        kinds = {"mse": lambda term: F.mse_loss(outputs, images),
                 "feature": lambda term: feature_loss(term, network["frozen"].to(outputs.dtype), outputs, images)}
        return sum(term.get("weight", 1.0) * kinds[term["type"]](term) for term in loss)
    if loss["type"] == "mse":
        return F.mse_loss(outputs, targets.to(outputs.dtype), reduction=reduction)
    if loss["type"] == "bce_with_logits":
        return F.binary_cross_entropy_with_logits(outputs, targets.to(outputs.dtype), reduction=reduction)
    weights = torch.tensor(loss["class_weights"], dtype=outputs.dtype) if "class_weights" in loss else None
    return F.cross_entropy(outputs, targets.long(), weight=weights, label_smoothing=loss.get("label_smoothing", 0.0),
                           reduction=reduction)


def make_optimizer(network, model):
    options = dict(network["optimizer"])
    kind = options.pop("type")
    decay = options.pop("weight_decay", 0.0)
    decay_all = options.pop("decay_norms_and_biases", False)
    groups = [{"params": [p for p in model.parameters() if p.ndim > 1 or decay_all], "weight_decay": decay},
              {"params": [p for p in model.parameters() if not (p.ndim > 1 or decay_all)], "weight_decay": 0.0}]
    groups = [group for group in groups if group["params"]]
    maker = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[kind]
    return maker(groups, foreach=False, **options)


def make_schedule(network, optimizer):
    schedule = network.get("schedule", {"type": "constant"})
    if schedule["type"] == "cosine":
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=NUM_STEPS)
    if schedule["type"] == "step":
        return torch.optim.lr_scheduler.StepLR(optimizer, schedule["every"], schedule["gamma"])
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)


def updates_of(network):
    """For each update the (begin, end) of its micro-batches; none reaches over the end of an epoch."""
    train, samples = network["train"], network["data"]["samples"]
    batch, group = train["batch_size"], train.get("accumulation_steps", 1)
    batches = [(begin, min(begin + batch, samples)) for begin in range(0, samples, batch)]
    epoch = [batches[first:first + group] for first in range(0, len(batches), group)]
    return [epoch[step % len(epoch)] for step in range(NUM_STEPS)]


def train(network, initial, data, dtype):
    """(expected values, final arrays) of NUM_STEPS updates in `dtype`."""
    model = build(network)
    model.load_state_dict({name: torch.from_numpy(array) for name, array in initial.items()}, strict=False)
    model = model.to(dtype)
    model.train()
    optimizer = make_optimizer(network, model)
    schedule = make_schedule(network, optimizer)
    inputs = device_inputs(network, data["inputs"], dtype)
    targets = torch.from_numpy(data["targets"])

    expected = {"losses": [], "learning_rates": [], "gradient_norms": [], "samples": []}
    for update in updates_of(network):
        samples = sum(end - begin for begin, end in update)
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for begin, end in update:
            loss = loss_of(network, model(inputs[begin:end]), targets[begin:end])
            # The loss is a mean over the micro-batch; the update's is the mean over all its samples.
            share = (end - begin) / samples
            (loss if share == 1 else loss * share).backward()
            total += loss.item() * share
        limit = network["train"].get("clip_norm", math.inf)
        norm = nn.utils.clip_grad_norm_(model.parameters(), limit, foreach=False)
        expected["losses"].append(total)
        expected["learning_rates"].append(optimizer.param_groups[0]["lr"])
        expected["gradient_norms"].append(norm.item())
        expected["samples"].append(samples)
        optimizer.step()
        schedule.step()

    model.eval()
    with torch.no_grad():
        outputs = model(inputs)
        expected["evaluation"] = {"loss": loss_of(network, outputs, targets).item(),
                                  "first_outputs": outputs[:3].tolist()}
        if isinstance(network["loss"], list):
            expected["evaluation"].pop("first_outputs")
        elif network["loss"]["type"] == "cross_entropy":
            expected["evaluation"]["accuracy"] = (outputs.argmax(1) == targets).double().mean().item()
        elif network["loss"]["type"] == "bce_with_logits":
            expected["evaluation"]["accuracy"] = ((outputs > 0) == (targets > 0.5)).double().mean().item()
    return expected, state_arrays(model)


def yaml_value(value):
    """Flow style, which is what these configurations read best in."""
    if isinstance(value, tuple):
        return yaml_value({value[0]: value[1]})
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {yaml_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(yaml_value(item) for item in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def yaml_layers(layers, indent):
    lines = []
    for layer in layers:
        kind, arguments = torch_network.kind_and_arguments(layer)
        if "layers" not in arguments:
            lines.append(f"{indent}- {kind}: {yaml_value(arguments)}" if arguments else f"{indent}- {kind}")
            continue
        lines.append(f"{indent}- {kind}:")
        for key, value in arguments.items():
            if key in ("layers", "shortcut"):
                lines += [f"{indent}    {key}:", *yaml_layers(value, indent + "      ")]
            else:
                lines.append(f"{indent}    {key}: {yaml_value(value)}")
    return lines


def config_text(name, network):
    data = {"type": "synthetic", **network["data"], "shuffle": False}
    data.pop("binary", None)
    if not data["classes"]:
        data["target_type"] = "numeric"
        del data["classes"]
    lines = ["# Written by scripts/oracle/make_golden.py; trained on data.safetensors, in order.",
             f"name: golden-{name}", "seed: 1", f"data: {yaml_value(data)}", "model:", "  layers:",
             *yaml_layers(network["layers"], "    "), f"loss: {yaml_value(network['loss'])}",
             f"optimizer: {yaml_value(network['optimizer'])}"]
    if "schedule" in network:
        lines.append(f"schedule: {yaml_value(network['schedule'])}")
    lines.append(f"train: {yaml_value({**network['train'], 'epochs': NUM_STEPS, 'steps': NUM_STEPS})}")
    return "\n".join(lines) + "\n"


def make(name, fresh):
    network, folder = NETWORKS[name], GOLDEN / name
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.Generator(np.random.PCG64(sorted(NETWORKS).index(name) + 1))
    for file, maker in (("initial", lambda: make_initial(build(network), generator)),
                        ("data", lambda: make_data(network["data"], generator))):
        if fresh or not (folder / f"{file}.safetensors").exists():
            safetensors_file.write(folder / f"{file}.safetensors", maker())
    loss, frozen = feature_network(network)
    if frozen is not None:
        file = folder / loss["network"]["weights"]["file"]
        if fresh or not file.exists():
            arrays = make_initial(frozen, generator)
            for key, array in arrays.items():  # which it evaluates with
                if "running_" in key:
                    array[...] = (1 if key.endswith("var") else 0) + 0.3 * (generator.random(array.shape) * 2 - 1)
            safetensors_file.write(file, arrays)
        frozen.load_state_dict({key: torch.from_numpy(array) for key, array in safetensors_file.read(file).items()},
                               strict=False)
        network = {**network, "frozen": frozen.eval().requires_grad_(False)}
    initial = safetensors_file.read(folder / "initial.safetensors")
    data = safetensors_file.read(folder / "data.safetensors")

    expected, final = train(network, initial, data, torch.float32)
    exact, exact_final = train(network, initial, data, torch.float64)
    expected["rounding"] = {
        "loss": max(abs(a - b) for a, b in zip(expected["losses"], exact["losses"])),
        "weight": max(float(np.abs(final[key] - exact_final[key]).max()) for key in final)}
    if "clip_norm" in network["train"]:
        clipped = [norm > network["train"]["clip_norm"] for norm in expected["gradient_norms"]]
        assert any(clipped) and not all(clipped), "clip_norm must matter in some steps and not in others"

    (folder / "config.yaml").write_text(config_text(name, network), encoding="utf-8")
    safetensors_file.write(folder / "final.safetensors", final)
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")
    print(f"{name}: loss {expected['losses'][0]:.6f} -> {expected['losses'][-1]:.6f}, "
          f"accuracy {expected['evaluation'].get('accuracy', float('nan')):.3f}, gradient norm "
          f"{min(expected['gradient_norms']):.2f}..{max(expected['gradient_norms']):.2f}, rounding: "
          f"loss {expected['rounding']['loss']:.1e}, weight {expected['rounding']['weight']:.1e}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fresh", action="store_true", help="make data and initial weights anew")
    parser.add_argument("names", nargs="*", metavar="NAME", help="networks to make; all where none is named")
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    torch.use_deterministic_algorithms(True)
    for name in arguments.names or NETWORKS:
        make(name, arguments.fresh)


if __name__ == "__main__":
    main()
