"""Averages of weights against torch.optim.swa_utils in f64: what every checkpoint holds as its model, the weights that are
trained on beside it, the loss of every evaluation, and what the next stage begins with."""
import numpy as np
import torch
from torch.optim import swa_utils

import part_networks
import part_optimizers
import rounding
import safetensors_file
import training


def counts_of(average, num_steps, steps_per_epoch):
    """The steps whose weights enter the average, by number from 1."""
    def steps(value):
        return int(str(value).removesuffix("ep")) * (steps_per_epoch if str(value).endswith("ep") else 1)
    first, every = steps(average.get("after", 0)), steps(average.get("every", "1ep" if average["type"] == "swa" else 1))
    return [step for step in range(1, num_steps + 1) if step > first and (step - first) % every == 0]


class Twin(part_networks.Twin):
    def __init__(self, layers, data, loss, weights, sets, updates, optimizer, average, epochs):
        super().__init__(layers, data, loss, weights, sets, updates)
        self.optimizer, self.average, self.epochs = optimizer, average, epochs

    def averaged_model(self, dtype, noise):
        """Of a model of its own: what is copied is what the first step that counts leaves."""
        decay = self.average.get("decay", 0.999)
        # Not the functions of many tensors, which do not take the counts among the buffers.
        mean = swa_utils.get_swa_avg_fn() if self.average["type"] == "swa" else swa_utils.get_ema_avg_fn(decay)
        averaged = swa_utils.AveragedModel(training.model_of(self.layers, self.data["shape"], self.weights, dtype),
                                           avg_fn=mean, use_buffers=True)
        if noise:
            noise.attach(averaged.module)
        return averaged

    def evaluate(self, model, dtype, noise):
        inputs, targets = self.tensors("validation", dtype, noise)
        model.eval()
        with torch.no_grad():
            return np.array(training.loss_of(self.loss, model(inputs), targets).item())

    def compute(self, dtype, noise):
        model = training.model_of(self.layers, self.data["shape"], self.weights, dtype)
        if noise:
            noise.attach(model)
        averaged = self.averaged_model(dtype, noise)
        optimizer = training.make_optimizer(self.optimizer, model)
        inputs, targets = self.tensors("train", dtype, noise)
        found = {}
        updates = self.updates * self.epochs
        counts = set(counts_of(self.average, len(updates), len(self.updates)))
        for step, update in enumerate(updates, 1):
            model.train()
            optimizer.zero_grad(set_to_none=True)
            found[f"step {step} loss"] = np.array(training.accumulate(model, self.loss, inputs, targets, update))
            optimizer.step()
            if noise:
                noise.of_tensors(model)
            if step in counts:
                averaged.update_parameters(model)
            shown = averaged.module if averaged.n_averaged > 0 else model
            for name, array in training.state_arrays(shown).items():
                found[f"step {step} {name}"] = array
            for name, array in training.state_arrays(model).items():
                found[f"step {step} {name}.unaveraged"] = array
            if step % len(self.updates) == 0:
                found[f"evaluation after step {step}"] = self.evaluate(shown, dtype, noise)
        # The next stage trains what was averaged.
        model.load_state_dict(shown.state_dict())
        model.train()
        optimizer.zero_grad(set_to_none=True)
        found["first loss of the next stage"] = np.array(
            training.accumulate(model, self.loss, inputs, targets, self.updates[0]))
        return found


def draw_average(random, kind):
    average = {"type": kind}
    if kind == "ema":
        average["decay"] = random.choice([0.5, 0.9, 0.99])
    if random.random() < 0.5:
        average["after"] = random.choice([1, 3, "1ep"])
    if random.random() < 0.6:
        average["every"] = random.choice([1, 2, 3, "1ep"])
    return average


def run(case):
    random = case.random
    kind = ["ema", "swa"][case.index % 2]
    images = random.random() < 0.6
    data, layers, loss, section, sets, accumulation, updates = part_optimizers.draw_smooth_case(case, images)
    optimizer = part_optimizers.draw_optimizer(random, random.choice(part_optimizers.KINDS))
    average, epochs = draw_average(random, kind), random.choice([2, 3])
    memory = random.choice([{}, {"allocator": "planned"}] + ([{"update": "in_backward"}] if accumulation == 1 else []))
    model = training.torch_network.build(layers, data["shape"])
    weights = training.random_weights(model, np.random.default_rng(case.number))
    twin = Twin(layers, data, loss, weights, sets, updates, optimizer, average, epochs)
    case.title = f"{optimizer['type']}, {average}, {epochs} epochs of {len(updates)}"
    case.seen = {kind, f"images {images}"}
    file = case.folder / "weights.safetensors"
    safetensors_file.write(file, weights)
    config = {"data": section, "model": {"layers": layers}, "loss": loss, "optimizer": optimizer, "memory": memory,
              "train": {"batch_size": data["batch"], "log_every": 1, "accumulation_steps": accumulation},
              "checkpoint": {"every": 1, "keep": 100000},
              "stages": [{"name": "averaged", "average": average, "train": {"epochs": epochs}},
                         {"name": "next", "average": "off", "train": {"epochs": 1}}]}
    run_ = case.trainer.run(case.folder, config, "--weights", file, name="network")
    num_steps = len(updates) * epochs
    found = {f"step {event['step']} loss": event["loss"] for event in run_.steps if event["step"] <= num_steps}
    found["first loss of the next stage"] = run_.steps[num_steps]["loss"]
    for event in run_.evaluations:
        if event["step"] <= num_steps:
            found[f"evaluation after step {event['step']}"] = event["loss"]
        case.findings.equal(f"averaged, after step {event['step']}", event["averaged"], event["step"] <= num_steps)
    for step in range(1, num_steps + 1):
        found.update({f"step {step} {name}": array for name, array in run_.weights(step).items()})
        found.update({f"step {step} {name}": array for name, array in run_.tensors("optimizer", step).items()
                      if name.endswith(".unaveraged")})
    rounding.Reference(twin.compute, case.number).compare(case.findings, found)


def num_cases(options):
    return 4 if options.short else 30


def everything(options):
    return {"ema", "swa"} if options.short else {"ema", "swa", "images True", "images False"}
