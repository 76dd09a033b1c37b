"""`trainer lr-find` beside the range test as fastai makes it, in PyTorch: losses of all steps in f64 on the same batches,
smoothed losses, where it ends, and what is suggested, by formulas that are written out here anew from fastai's
documentation and sources (fastai/callback/schedule.py, AvgSmoothLoss)."""
import math

import numpy as np
import torch

import part_networks
import part_optimizers
import rounding
import safetensors_file
import training
from trainer_runs import config_text

BETA = 0.98
KINDS = part_optimizers.KINDS
RANGES = [(1e-7, 10, 100), (1e-4, 1, 40), (1e-5, 1000, 64), (1e-3, 0.5, 25)]


def rate(test, index):
    start, end, steps = test
    return start * (end / start)**(index / steps)


def smoothed_losses(losses):
    """AvgSmoothLoss: a moving average, divided by what its zero start leaves of it."""
    value, result = 0.0, []
    for count, loss in enumerate(losses, 1):
        value = BETA * value + (1 - BETA) * loss
        result.append(value / (1 - BETA**count))
    return result


def kept(values, steps):
    return values[steps // 10:-5]


def valley(rates, losses):
    longest = [1] * len(losses)
    first = last = 0
    for i in range(1, len(losses)):
        for j in range(i):
            if losses[i] < losses[j] and longest[i] < longest[j] + 1:
                longest[i] = longest[j] + 1
            if longest[last] < longest[i]:
                last = i
                first = last - longest[last]
    if first == last:
        return None
    third = (last - first) / 3
    return rates[max(first + int(third) + int(third / 2), 0)]


def steepest(rates, losses):
    slopes = np.diff(losses) / np.diff(np.log(rates))
    return rates[int(np.argmin(slopes))] if len(slopes) and slopes.min() < 0 else None


def minimum(rates, losses):
    return rates[int(np.argmin(losses))] / 10


def suggestions(rates, losses, steps):
    rates, losses = kept(rates, steps), kept(losses, steps)
    if len(losses) < 2:
        return {"valley": None, "steepest": None, "minimum": None}
    return {"valley": valley(rates, losses), "steepest": steepest(rates, losses), "minimum": minimum(rates, losses)}


class Twin(part_optimizers.Twin):
    """The range test in PyTorch; the optimizer's rate is set before each update."""

    def __init__(self, *args, test, num_steps):
        super().__init__(*args)
        self.test, self.num_steps = test, num_steps

    def compute(self, dtype, noise):
        model = training.model_of(self.layers, self.data["shape"], self.weights, dtype)
        if noise:
            noise.attach(model)
        optimizer = training.make_optimizer(self.optimizer, model)
        inputs, targets = self.tensors("train", dtype, noise)
        found = {}
        model.train()
        for step in range(self.num_steps):
            optimizer.zero_grad(set_to_none=True)
            for group in optimizer.param_groups:
                group["lr"] = rate(self.test, step)
            update = self.updates[step % len(self.updates)]
            found[f"step {step + 1} loss"] = np.array(training.accumulate(model, self.loss, inputs, targets, update))
            training.clip(model, self.clip_norm)
            optimizer.step()
            if noise:
                noise.of_tensors(model)
        return found


def found_rates(case, config, test):
    (case.folder / "network.yaml").write_text(config_text(config), encoding="utf-8")
    before = sorted(path.name for path in case.folder.iterdir())
    start, end, steps = test
    told = case.trainer.range_test(case.folder, "network.yaml", "--weights", "weights.safetensors", "--from", start, "--to",
                                   end, "--steps", steps)
    case.findings.equal("files that it leaves", sorted(path.name for path in case.folder.iterdir()), before)
    return told


def run(case):
    random = case.random
    kind, test = KINDS[case.index % len(KINDS)], RANGES[case.index // len(KINDS) % len(RANGES)]
    images = random.random() < 0.5
    data = {"form": "idx" if images else "csv", "shape": [6, 7, 2] if images else [7], "batch": 6, "samples": 22,
            "validation": 5, "outputs": 4, "loss": "cross_entropy"}
    layers = [*(part_optimizers.IMAGE_LAYERS if images else part_optimizers.FEATURE_LAYERS),
              {"linear": {"out": data["outputs"]}}]
    optimizer = part_optimizers.draw_optimizer(random, kind)
    loss = part_networks.draw_loss(random, data, set())
    accumulation = random.choice([1, 1, 2])
    section, sets = part_networks.write_data(case.folder, data, np.random.default_rng(case.number), random)
    updates = training.updates_of(data["samples"], data["batch"], accumulation)
    weights = training.random_weights(training.torch_network.build(layers, data["shape"]),
                                      np.random.default_rng(case.number))
    safetensors_file.write(case.folder / "weights.safetensors", weights)
    config = {"name": "network", "device": {"type": "cpu", "threads": 1}, "data": section, "model": {"layers": layers},
              "loss": loss, "optimizer": optimizer, "schedule": {"type": "one_cycle"},
              "train": {"batch_size": data["batch"], "accumulation_steps": accumulation, "epochs": 1}}
    clip_norm = random.choice([0, 0, 0.5])
    if clip_norm:
        config["train"]["clip_norm"] = clip_norm
    case.title = f"{kind}, {test[0]:g} to {test[1]:g} in {test[2]} steps of {accumulation}"
    case.seen = {kind, f"{test[0]:g}"}

    told = found_rates(case, config, test)
    count, steps = len(told["lrs"]), test[2]
    rates = [rate(test, index) for index in range(count)]
    case.findings.close("learning rates", told["lrs"], rates, 1e-12 * test[1])
    # Their logarithms are what counts, and the first ones are far below the last.
    case.findings.close("logarithms of learning rates", np.log(told["lrs"]), np.log(rates), 1e-12)
    case.findings.close("smoothed losses", told["losses"], smoothed_losses(told["step_losses"]), 1e-9)
    # By its own numbers, exactly: each formula, and where the test ends.
    expected = suggestions(told["lrs"], told["losses"], steps)
    for name, value in expected.items():
        case.findings.equal(f"{name} of its own losses", told["suggestions"][name], value)
    lowest = np.minimum.accumulate(told["losses"])
    rose = [loss > 4 * low for loss, low in zip(told["losses"], lowest)]
    case.findings.holds("nothing rises before the end", not any(rose[:-1]))
    case.findings.equal("it rose", told["ended"] == "rose", rose[-1])
    case.findings.holds("it ended at the end, or before", count == steps or told["ended"] in ("rose", "not_finite"),
                        f"{count} of {steps}, {told['ended']}")

    # By PyTorch's: what the last steps lose is noise where the rates are so high that nothing is learned any more.
    twin = Twin(layers, data, loss, weights, sets, updates, optimizer, clip_norm, test=test, num_steps=count)
    rounding.Reference(twin.compute, case.number).compare(
        case.findings, {f"step {step} loss": value for step, value in enumerate(told["step_losses"], 1)})
    exact = [float(value) for value in twin.compute(torch.float64, None).values()]
    theirs = suggestions(rates, smoothed_losses(exact), steps)
    a_step = math.log(test[1] / test[0]) / steps
    for name, value in theirs.items():
        case.findings.holds(f"{name} is suggested", (value is None) == (told["suggestions"][name] is None))
        if value is not None and told["suggestions"][name] is not None:
            case.findings.close(f"{name} in steps", math.log(told["suggestions"][name]) / a_step, math.log(value) / a_step, 1.01)


def num_cases(options):
    return len(KINDS) if options.short else len(KINDS) * len(RANGES)


def everything(options):
    return {*KINDS} if options.short else {*KINDS, *[f"{test[0]:g}" for test in RANGES]}
