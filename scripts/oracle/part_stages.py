"""Stages against PyTorch's requires_grad, param groups and schedulers: weights and losses of every step in f64, frozen batch
norms by all three rules, rates and weight decay by layer group, momentum that cycles, and the optimizer's state kept,
cleared, or begun for what is trained for the first time."""
import numpy as np
import torch
from torch import nn
from torch.optim import lr_scheduler

import part_networks
import part_optimizers
import rounding
import safetensors_file
import training

# By position in the layers of part_optimizers; the last layer of all is the last group.
GROUPS = {"image": {"stem": ["0", "1"], "body": ["3"], "head": "rest"},
          "features": {"stem": ["0", "1"], "body": ["3"], "head": "rest"}}
NORMS = (nn.BatchNorm2d, nn.LayerNorm)
FREEZES = [{"to": "head"}, {"to": "body"}, {"to": -1}, {"group": "stem"}, ["*", "!group:body"], ["batchnorm2d|layernorm", "0"]]


def group_of(name, groups):
    path = name.rsplit(".", 1)[0]
    for number, (_, layers) in enumerate(groups.items()):
        if layers != "rest" and any(path == layer or path.startswith(layer + ".") for layer in layers):
            return number
    return list(groups).index("head")


def rates_of(setting, groups):
    """fastai's slices, written anew."""
    names = list(groups)
    if not isinstance(setting, dict):
        return [setting] * len(names)
    if "slice" not in setting:
        return [setting[name] for name in names]
    ends = setting["slice"]
    if not isinstance(ends, list):
        return [ends / 10] * (len(names) - 1) + [ends]
    factor = (ends[1] / ends[0]) ** (1 / (len(names) - 1))
    return [ends[0] * factor**i for i in range(len(names))]


class Stage:
    """What a stage trains, by its own bookkeeping: `frozen` are names of parameters."""

    def __init__(self, keys, frozen, norms, optimizer, schedule, epochs, carry):
        self.keys, self.frozen, self.norms = keys, frozen, norms
        self.optimizer, self.schedule, self.epochs, self.carry = optimizer, schedule, epochs, carry


class Twin(part_networks.Twin):
    def __init__(self, layers, data, loss, weights, sets, updates, stages, groups):
        super().__init__(layers, data, loss, weights, sets, updates)
        self.stages, self.groups = stages, groups

    def optimizer_of(self, stage, model, former):
        """A new one, into which the state of `former` goes on for what was trained and still is."""
        options = dict(stage.optimizer)
        kind = options.pop("type")
        decays = rates_of(options.pop("weight_decay", 0.01 if kind == "adamw" else 0.0), self.groups)
        rates = rates_of(options.pop("lr"), self.groups)
        options = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
        param_groups = [{"params": [parameter], "lr": rates[group_of(name, self.groups)],
                         "weight_decay": decays[group_of(name, self.groups)] if parameter.ndim > 1 else 0.0}
                        for name, parameter in model.named_parameters() if parameter.requires_grad]
        maker = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[kind]
        made = maker(param_groups, foreach=False, **options)
        cleared = stage.carry if isinstance(stage.carry, list) else []
        if former is not None and stage.carry != "clear":
            for name, parameter in model.named_parameters():
                in_cleared = list(self.groups)[group_of(name, self.groups)] in cleared
                if parameter.requires_grad and parameter in former.state and not in_cleared:
                    made.state[parameter] = former.state[parameter]
        return made

    def compute(self, dtype, noise):
        model = training.model_of(self.layers, self.data["shape"], self.weights, dtype)
        if noise:
            noise.attach(model)
        inputs, targets = self.tensors("train", dtype, noise)
        found, step, optimizer = {}, 0, None
        for stage in self.stages:
            model.train()
            for name, parameter in model.named_parameters():
                parameter.requires_grad_(name not in stage.frozen)
                parameter.grad = None
            if stage.norms == "on":
                for path, module in model.named_modules():
                    if isinstance(module, NORMS) and f"{path}.weight" in stage.frozen:
                        module.eval()
            optimizer = self.optimizer_of(stage, model, optimizer)
            updates = self.updates * stage.epochs
            schedule = None
            if stage.schedule:
                low, high = stage.schedule["momentum"]
                schedule = lr_scheduler.OneCycleLR(
                    optimizer, max_lr=[group["lr"] for group in optimizer.param_groups], total_steps=len(updates),
                    pct_start=stage.schedule["warmup_fraction"], anneal_strategy="cos", div_factor=25,
                    final_div_factor=1e5 / 25, base_momentum=low, max_momentum=high)
            for number, update in enumerate(updates):
                step += 1
                optimizer.zero_grad(set_to_none=True)
                found[f"step {step} loss"] = np.array(training.accumulate(model, self.loss, inputs, targets, update))
                optimizer.step()
                if noise:
                    noise.of_tensors(model)
                if schedule and number + 1 < len(updates):
                    schedule.step()
                for name, array in training.state_arrays(model).items():
                    found[f"step {step} {name}"] = array
        return found


def draw_rate(random, lr, groups):
    kind = random.choice(["number", "slice", "end", "names"])
    if kind == "number":
        return lr
    if kind == "slice":
        return {"slice": [lr / random.choice([5, 20]), lr]}
    if kind == "end":
        return {"slice": lr}
    return {name: lr / (1 + 2 * i) for i, name in enumerate(groups)}


def frozen_names(freeze, norms, names, norm_names, groups):
    """By hand, entry for entry, of the first stage's `freeze`."""
    order = list(groups)
    number = {name: group_of(name, groups) for name in names}
    if isinstance(freeze, dict) and "to" in freeze:
        to = freeze["to"]
        first = order.index(to) if isinstance(to, str) else to % len(order)
        frozen = {name for name in names if number[name] < first}
    elif isinstance(freeze, dict):
        frozen = {name for name in names if order[number[name]] == freeze["group"]}
    elif freeze[0] == "*":
        frozen = {name for name in names if order[number[name]] != "body"}
    else:
        frozen = {name for name in names if name in norm_names or name.startswith("0.")}
    return frozen - norm_names if norms == "off" else frozen


def run(case):
    random = case.random
    images = random.random() < 0.6
    groups = GROUPS["image" if images else "features"]
    data, layers, loss, section, sets, accumulation, updates = part_optimizers.draw_smooth_case(case, images)
    model = training.torch_network.build(layers, data["shape"])
    weights = training.random_weights(model, np.random.default_rng(case.number))
    names = [name for name, _ in model.named_parameters()]
    norm_names = {f"{path}.{role}" for path, module in model.named_modules() if isinstance(module, NORMS)
                  for role in ("weight", "bias")}
    kind = ["sgd", "adam", "adamw"][case.index % 3]
    base = {"type": kind, "lr": 0.05 if kind == "sgd" else 0.005}
    if kind == "sgd":
        base["momentum"] = 0.9
    if random.random() < 0.6:
        base["weight_decay"] = draw_rate(random, 0.1, groups) if random.random() < 0.5 else 0.1
    freeze = FREEZES[case.index % len(FREEZES)]
    if freeze[0:1] == ["batchnorm2d|layernorm"] if isinstance(freeze, list) else False:
        freeze = ["batchnorm2d" if images else "layernorm", "0"]
    norms = ["parameters", "on", "off"][(case.index // 2) % 3]
    frozen = frozen_names(freeze, norms, names, norm_names, groups)
    first = {"name": "first", "freeze": freeze, "freeze_norms": norms, "train": {"epochs": 1}}
    momentum = [0.8, 0.95]
    second_lr = draw_rate(random, base["lr"] / 2, groups)
    carry = random.choice([None, "keep", "clear"])
    second = {"name": "second", "unfreeze": "all", "optimizer": {"lr": second_lr},
              "schedule": {"type": "one_cycle", "warmup_fraction": 0.4, "momentum": momentum},
              "train": {"epochs": 3 if accumulation == 2 else 2}}
    if carry:
        second["optimizer"]["clear"] = carry == "clear"
    third_lr = draw_rate(random, base["lr"] / 3, groups)
    third = {"name": "third", "schedule": "constant", "optimizer": {"lr": third_lr}, "train": {"epochs": 1}}
    third_carry = random.choice(["keep", ["stem"], "clear"])
    if third_carry != "keep":
        third["optimizer"]["clear"] = True if third_carry == "clear" else third_carry
    stages = [Stage(first, frozen, norms, base, None, 1, "clear"),
              # fastai's default: what unfreezes clears.
              Stage(second, set(), norms, {**base, "lr": second_lr}, second["schedule"], second["train"]["epochs"],
                    carry or "clear"),
              Stage(third, set(), norms, {**base, "lr": third_lr}, None, 1, third_carry)]
    twin = Twin(layers, data, loss, weights, sets, updates, stages, groups)
    case.title = f"{kind}, freeze {freeze}, norms {norms}, {carry or 'as fastai'}, then {third_carry}"
    case.seen = {kind, f"norms {norms}", f"state {carry}"}
    file = case.folder / "weights.safetensors"
    safetensors_file.write(file, weights)
    config = {"data": section, "model": {"layers": layers, "groups": groups}, "loss": loss, "optimizer": base,
              "train": {"batch_size": data["batch"], "log_every": 1, "accumulation_steps": accumulation},
              "checkpoint": {"every": 1, "keep": 100000}, "stages": [first, second, third]}
    run_ = case.trainer.run(case.folder, config, "--weights", file, name="network")
    num_steps = len(updates) * sum(stage.epochs for stage in stages)
    case.findings.equal("stages of the steps", [event["stage"] for event in run_.steps],
                        [stage.keys["name"] for stage in stages for _ in range(len(updates) * stage.epochs)])
    found = {f"step {event['step']} loss": event["loss"] for event in run_.steps}
    for step in range(1, num_steps + 1):
        found.update({f"step {step} {name}": array for name, array in run_.weights(step).items()})
    rounding.Reference(twin.compute, case.number).compare(case.findings, found)
    for name in frozen:
        for step in range(1, len(updates) + 1):
            case.findings.holds(f"{name} is as it was behind step {step}",
                                np.array_equal(run_.weights(step)[name], weights[name]))


def num_cases(options):
    return 6 if options.short else 36


def everything(options):
    if options.short:
        return {"sgd", "adam", "adamw"}
    return {"sgd", "adam", "adamw", "norms parameters", "norms on", "norms off", "state None", "state keep", "state clear"}
