"""Losses on features of a frozen network: each step's loss, terms and gradients, and evaluations, against autograd."""
import numpy as np
import torch
import torch.nn.functional as F

import part_networks
import rounding
import safetensors_file
import training
from trainer_runs import gradient_probe

SAMPLES, VALIDATION, BATCH = 11, 7, 4
DISTANCES = {"l1": F.l1_loss, "mse": F.mse_loss}
CONV = {"kernel": 3, "padding": 1}
# Convolutions with batch norms, and convolutions with biases alone, as ResNets and VGGs have them.
NORMED = [{"conv2d": {"out": 5, **CONV, "bias": False, "name": "conv1"}}, {"batchnorm2d": {"name": "bn1"}}, "relu",
          {"residual": {"name": "block", "layers": [
              {"conv2d": {"out": 5, **CONV, "bias": False}}, {"batchnorm2d": {"eps": 0.01}}, "relu",
              {"conv2d": {"out": 5, **CONV, "bias": False}}, {"batchnorm2d": {"affine": False}}]}},
          {"relu": {"name": "relu2"}}, {"dropout": {"p": 0.5}}, {"conv2d": {"out": 4, "kernel": 1, "name": "head"}}]
PLAIN = [{"sequential": {"name": "features", "layers": [
    {"conv2d": {"out": 4, **CONV}}, "relu", {"conv2d": {"out": 4, **CONV}}, "relu", {"maxpool2d": {"kernel": 2}},
    {"conv2d": {"out": 6, **CONV}}, "relu", {"groupnorm": {"groups": 2}}, "gelu"]}},
    "global_avgpool", {"linear": {"out": 3, "name": "classifier"}}]
# Network, compared layers, keys of the loss, other terms, batches an update.
VARIANTS = [
    (NORMED, ["relu2"], {}, [], 1),
    (NORMED, ["conv1", "block.layers.4", "bn1"], {"distance": "mse", "layer_weights": [0.5, 1.0, 2.0], "mean": [0.4, 0.5], "std": 0.25}, [], 2),
    (NORMED, ["head"], {"weight": 0.3, "mean": 0.5, "std": [0.2, 0.3]}, [{"type": "l1"}], 2),
    (PLAIN, ["features.1", "features.3"], {"weight": 0.5, "layer_weights": [1.0, 0.25]}, [{"type": "mse", "weight": 0.7}], 1),
    (PLAIN, ["features.8", "features.4"], {"distance": "mse"}, [], 3),
]
MODEL = [{"conv2d": {"out": 6, **CONV}}, "tanh", {"upsample": {"scale": 2}}, {"conv2d": {"out": 2, **CONV}}]
SHAPE, TARGET_SHAPE = [5, 4, 3], [10, 8, 2]


def find_targets(case, section):
    """The images that trainer makes up as targets: the gradient of an image of weights, by the mean squared error at 0, is
    −2 / numbers · target · the mean of the sample's channel."""
    height, width, channels = TARGET_SHAPE
    config = gradient_probe({
        "seed": case.number, "data": {**section, "samples": SAMPLES + VALIDATION},
        "model": {"init": "zeros", "layers": [{"adaptive_avgpool2d": {"size": 1}},
                                              {"conv_transpose2d": {"out": channels, "kernel": [height, width], "name": "image"}}]},
        "loss": "mse", "train": {"batch_size": 1, "epochs": 1}})
    run = case.trainer.run(case.folder, config, name="targets")
    return run, height * width * channels


def data_of(case):
    probed, sets = part_networks.synthetic_data(
        case, {"samples": SAMPLES, "validation": VALIDATION, "shape": SHAPE, "outputs": 2})
    section = {key: value for key, value in probed.items() if key not in ("classes", "samples", "validation_samples")}
    section["target_shape"] = TARGET_SHAPE
    samples = np.concatenate([sets["train"][0], sets["validation"][0]])
    run, numbers = find_targets(case, section)
    targets = []
    for step in range(1, len(samples) + 1):
        gradient = run.gradients(step)["image.weight"].astype(np.float64)
        means = samples[step - 1].mean(axis=(0, 1))
        channel = int(means.argmax())
        # They are bytes over 256.
        targets.append(np.round(-gradient[channel] * numbers / 2 / means[channel] * 256) / 256)
    targets = np.array(targets)
    return ({**section, "samples": SAMPLES, "validation_samples": VALIDATION},
            {"train": (samples[:SAMPLES], targets[:SAMPLES]), "validation": (samples[SAMPLES:], targets[SAMPLES:])})


def submodule(network, path):
    for part in path.split("."):
        network = dict(network.named_children())[part]
    return network


class Twin:
    def __init__(self, variant, weights, frozen, sets, updates):
        self.layers, self.compared, self.keys, self.others, _ = variant
        self.weights, self.frozen, self.sets, self.updates = weights, frozen, sets, updates
        self.kinks = None

    def compute(self, dtype, noise):
        model = training.model_of(MODEL, SHAPE, self.weights, dtype)
        network = training.model_of(self.layers, TARGET_SHAPE, self.frozen, dtype).eval()
        found_features = {}
        for path in self.compared:
            submodule(network, path).register_forward_hook(
                lambda _module, _inputs, out, path=path: found_features.__setitem__(path, out))
        if noise:
            noise.attach(model)
            noise.attach(network)
        elif dtype == torch.float64:
            self.kinks = rounding.KinkWatch(network)
        network.requires_grad_(False)
        mean, std = (torch.tensor(self.keys.get(name, value), dtype=dtype).reshape(-1, 1, 1)
                     for name, value in (("mean", 0.0), ("std", 1.0)))

        def features(images):
            network((images - mean) / std)
            return [found_features[path] for path in self.compared]

        def means(batches, inputs, targets):
            """Of the other terms and of the loss on features, over all samples of the batches."""
            count = sum(end - begin for begin, end in batches)
            sums = [0.0] * (len(self.others) + 1)
            for begin, end in batches:
                outputs = model(inputs[begin:end])
                parts = [training.loss_of(term, outputs, targets[begin:end]) for term in self.others]
                distance = DISTANCES[self.keys.get("distance", "l1")]
                layer_weights = self.keys.get("layer_weights", [1.0] * len(self.compared))
                parts.append(sum(weight * distance(x, y) for weight, x, y in
                                 zip(layer_weights, features(outputs), features(targets[begin:end]))))
                sums = [total + part * ((end - begin) / count) for total, part in zip(sums, parts)]
            return sums

        found = {}

        def add(where, terms):
            weights = [term.get("weight", 1.0) for term in self.others] + [self.keys.get("weight", 1.0)]
            total = sum(weight * term for weight, term in zip(weights, terms))
            found[f"{where} loss"] = np.array(total.item())
            if len(terms) > 1:
                found[f"{where} losses"] = np.array([term.item() for term in terms])
            return total

        inputs, targets = (training.torch_inputs(array, dtype) for array in self.images("train"))
        for step, update in enumerate(self.updates, 1):
            if noise:
                noise.of_tensors(model)
                noise.of_tensors(network)
            model.zero_grad(set_to_none=True)
            add(f"step {step}", means(update, inputs, targets)).backward()
            for name, parameter in model.named_parameters():
                found[f"step {step} gradient of {name}"] = parameter.grad.double().numpy().copy()
        inputs, targets = (training.torch_inputs(array, dtype) for array in self.images("validation"))
        with torch.no_grad():
            add("evaluation", means([(0, VALIDATION)], inputs, targets))
        return found

    def images(self, part):
        """Samples (N, H, W, C) and targets, which were found as (N, C, H, W)."""
        samples, targets = self.sets[part]
        return samples, targets.transpose(0, 2, 3, 1)


def run(case):
    variant = VARIANTS[case.index]
    layers, compared, keys, others, accumulation = variant
    case.title = f"{', '.join(compared)}, {keys.get('distance', 'l1')}, {accumulation} batches an update"
    generator = np.random.default_rng(case.number)
    section, sets = data_of(case)
    updates = training.updates_of(SAMPLES, BATCH, accumulation)
    for _ in range(20):
        twin = Twin(variant, training.random_weights(training.torch_network.build(MODEL, SHAPE), generator),
                    training.random_weights(training.torch_network.build(layers, TARGET_SHAPE), generator), sets, updates)
        twin.compute(torch.float64, None)
        if not twin.kinks.near:
            break
    else:
        raise ValueError("no weights keep all numbers away from kinks")
    file, frozen_file = case.folder / "weights.safetensors", case.folder / "frozen.safetensors"
    safetensors_file.write(file, twin.weights)
    # Under another name each, and with more than is built.
    safetensors_file.write(frozen_file, {f"backbone.{name}": array for name, array in twin.frozen.items()})
    feature = {"type": "feature", "layers": compared, **keys,
               "network": {"layers": layers, "weights": {"file": str(frozen_file), "rename": [["^backbone\\.", ""]]}}}
    config = gradient_probe({
        "seed": case.number, "data": section, "model": {"layers": MODEL}, "loss": [*others, feature] if others else feature,
        "train": {"batch_size": BATCH, "epochs": 1, "accumulation_steps": accumulation}})
    run_ = case.trainer.run(case.folder, config, "--weights", file, name="features")
    measured = part_networks.measured(run_, len(updates))
    for event in run_.steps:
        measured[f"step {event['step']} losses"] = event.get("losses")
    measured["evaluation losses"] = run_.evaluations[-1].get("losses")
    rounding.Reference(twin.compute, case.number).compare(case.findings, measured)


def num_cases(_options):
    return len(VARIANTS)
