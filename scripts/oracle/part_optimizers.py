"""Optimizers over many updates: weights, moments and losses of every step against torch.optim in f64, with clipping,
accumulation, several epochs and schedules."""
import numpy as np
import torch

import part_networks
import rounding
import safetensors_file
import training

KINDS = ["sgd", "momentum", "nesterov", "adam", "adamw"]
# Smooth, so that a step in f32 cannot cross a kink that the exact one does not.
FEATURE_LAYERS = [{"linear": {"out": 12}}, "layernorm", "tanh", {"linear": {"out": 9, "bias": False}}, "gelu"]
IMAGE_LAYERS = [{"conv2d": {"out": 5, "kernel": 3, "padding": 1, "bias": False}}, "batchnorm2d", "silu",
                {"residual": {"layers": [{"conv2d": {"out": 5, "kernel": 1}}, "sigmoid"]}}, {"avgpool2d": {"kernel": 2}},
                "flatten", {"linear": {"out": 8}}, "tanh"]
STATE_NAMES = {"momentum_buffer": "momentum", "exp_avg": "first_moment", "exp_avg_sq": "second_moment"}


def draw_smooth_case(case, images):
    """(data, layers, loss, its section, its sets, batches an update, updates of an epoch) of a classifier."""
    random = case.random
    data = {"form": "idx" if images else "csv", "shape": [6, 7, 2] if images else [7], "batch": 6, "samples": 22,
            "validation": 5, "outputs": 4, "loss": "cross_entropy"}
    layers = [*(IMAGE_LAYERS if images else FEATURE_LAYERS), {"linear": {"out": 4}}]
    loss = part_networks.draw_loss(random, data, set())
    section, sets = part_networks.write_data(case.folder, data, np.random.default_rng(case.number), random)
    accumulation = random.choice([1, 1, 2])
    return data, layers, loss, section, sets, accumulation, training.updates_of(data["samples"], data["batch"], accumulation)


def draw_optimizer(random, kind):
    options = {"type": "sgd" if kind in ("momentum", "nesterov") else kind}
    if options["type"] == "sgd":
        options["lr"] = random.choice([0.1, 0.03, 0.2])
        if kind != "sgd":
            options["momentum"] = random.choice([0.5, 0.9, 0.95])
        if kind == "nesterov":
            options["nesterov"] = True
    else:
        options["lr"] = random.choice([0.01, 0.003])
        if random.random() < 0.5:
            options["betas"] = random.choice([[0.8, 0.95], [0.9, 0.99], [0.5, 0.999]])
        if random.random() < 0.5:
            options["eps"] = random.choice([1e-6, 1e-4])
    if random.random() < 0.7:
        options["weight_decay"] = random.choice([0.01, 0.1, 0.3])
    if random.random() < 0.4:
        options["decay_norms_and_biases"] = True
    return options


def state_of(optimizer, model):
    """The optimizer's state by the names that a checkpoint has for it."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    return {f"{names[parameter]}.{name}": state[key].double().numpy().copy()
            for parameter, state in optimizer.state.items() for key, name in STATE_NAMES.items()
            if state.get(key) is not None}


class Twin(part_networks.Twin):
    """The run in PyTorch, updates and all."""

    def __init__(self, layers, data, loss, weights, sets, updates, optimizer, clip_norm):
        super().__init__(layers, data, loss, weights, sets, updates)
        self.optimizer, self.clip_norm = optimizer, clip_norm
        self.norms = []

    def compute(self, dtype, noise):
        model = training.model_of(self.layers, self.data["shape"], self.weights, dtype)
        if noise:
            noise.attach(model)
        optimizer = training.make_optimizer(self.optimizer, model)
        inputs, targets = self.tensors("train", dtype, noise)
        found, norms = {}, []
        model.train()
        for step, update in enumerate(self.updates, 1):
            optimizer.zero_grad(set_to_none=True)
            found[f"step {step} loss"] = np.array(training.accumulate(model, self.loss, inputs, targets, update))
            norms.append(training.clip(model, self.clip_norm))
            optimizer.step()
            if noise:
                noise.of_tensors(model)
            for name, array in training.state_arrays(model).items():
                found[f"step {step} {name}"] = array
        found.update(state_of(optimizer, model))
        self.norms = norms if dtype == torch.float64 and not noise else self.norms
        return found


def measured(run, num_steps):
    found = {f"step {event['step']} loss": event["loss"] for event in run.steps}
    for step in range(1, num_steps + 1):
        found.update({f"step {step} {name}": array for name, array in run.weights(step).items()})
    found.update(run.tensors("optimizer", num_steps))
    return found


def run(case):
    random = case.random
    kind = KINDS[case.index % len(KINDS)]
    images = random.random() < 0.5
    data = {"form": "idx" if images else "csv", "shape": [6, 7, 2] if images else [7], "batch": 6, "samples": 22,
            "validation": 5, "outputs": 4, "loss": "cross_entropy"}
    if not images and random.random() < 0.5:
        data.update(loss=random.choice(["mse", "bce_with_logits"]), outputs=1)
    layers = [*(IMAGE_LAYERS if images else FEATURE_LAYERS), {"linear": {"out": data["outputs"]}}]
    optimizer = draw_optimizer(random, kind)
    loss = part_networks.draw_loss(random, data, set())
    accumulation = random.choice([1, 1, 2, 3])
    section, sets = part_networks.write_data(case.folder, data, np.random.default_rng(case.number), random)
    epochs = 4 if case.options.short else 10
    updates = training.updates_of(data["samples"], data["batch"], accumulation) * epochs
    weights = training.random_weights(training.torch_network.build(layers, data["shape"]),
                                      np.random.default_rng(case.number))
    twin = Twin(layers, data, loss, weights, sets, updates, optimizer, 0)
    case.seen = {kind, f"accumulation {accumulation}", *optimizer}
    train = {"batch_size": data["batch"], "epochs": epochs, "log_every": 1, "accumulation_steps": accumulation}
    if random.random() < 0.4:
        # Between the norms that occur, so that some steps are clipped and others are not.
        twin.compute(torch.float64, None)
        twin.clip_norm = train["clip_norm"] = round(float(np.median(twin.norms)), 4)
        case.seen.add("clipping")
    memory = {}
    if accumulation == 1 and not twin.clip_norm and random.random() < 0.4:
        memory["update"] = "in_backward"
    case.title = f"{kind}, {loss['type']}, {len(updates)} updates of {accumulation}"
    file = case.folder / "weights.safetensors"
    safetensors_file.write(file, weights)
    config = {"data": section, "model": {"layers": layers}, "loss": loss, "optimizer": optimizer, "memory": memory,
              "train": train, "checkpoint": {"every": 1, "keep": 100000}}
    run_ = case.trainer.run(case.folder, config, "--weights", file, name="network")
    rounding.Reference(twin.compute, case.number).compare(case.findings, measured(run_, len(updates)))
    if twin.clip_norm:
        clipped = [norm > twin.clip_norm for norm in twin.norms]
        case.findings.holds("some steps are clipped and others are not", any(clipped) and not all(clipped))


def num_cases(options):
    return 6 if options.short else 40


def everything(options):
    if options.short:
        return set(KINDS)
    return {*KINDS, "clipping", "accumulation 1", "accumulation 2", "accumulation 3", "weight_decay", "betas", "eps",
            "decay_norms_and_biases"}
