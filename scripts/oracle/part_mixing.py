"""mixup and cutmix: each step's loss and gradients against torchvision's MixUp and CutMix on the same drawn numbers, and
PyTorch's cross-entropy of soft targets or its losses of numbers."""
import math
from unittest import mock

import numpy as np
import torch
import torch.nn.functional as F
from torchvision.transforms import v2

import part_networks
import philox
import rounding
import safetensors_file
import training
from trainer_runs import gradient_probe

SAMPLES, BATCH, CLASSES, SHAPE = 23, 5, 4, (9, 7, 3)
MEAN, STD = (0.4, 0.5, 0.3), (0.2, 0.3, 0.25)
MODEL = [{"conv2d": {"out": 5, "kernel": 3, "padding": 1}}, "tanh", {"avgpool2d": {"kernel": 2}}, "flatten",
         {"linear": {"out": CLASSES}}]
# Transforms, loss, batches an update, the rows of logits that are there at once.
VARIANTS = [
    ([{"mixup": {"alpha": 0.2}}], {}, 1, 0),
    (["mixup"], {"label_smoothing": 0.1}, 2, 0),
    (["cutmix"], {"class_weights": [1.0, 2.0, 0.5, 0.75]}, 1, 0),
    ([{"cutmix": {"alpha": 0.5, "p": 0.6}}], {"label_smoothing": 0.2, "class_weights": [1.0, 2.0, 0.5, 0.75]}, 3, 0),
    (["mixup", "cutmix"], {}, 1, 2),
    ([{"mixup": {"alpha": 3.0, "p": 0.5}}, {"cutmix": {"alpha": 2.0}}], {"label_smoothing": 0.1}, 2, 3),
    (["mixup"], {"type": "bce_with_logits"}, 1, 0),
    ([{"cutmix": {"alpha": 0.7}}, {"mixup": {"alpha": 0.4}}], {"type": "mse"}, 2, 0),
]


def gamma_logarithm(shape, numbers):
    """Of a number of Gamma(shape, 1), as Marsaglia and Tsang draw it, for shapes below 1 by Gamma(shape + 1)."""
    boost = 0.0
    if shape < 1:
        boost = math.log(1 - numbers.unit()) / shape
        shape += 1
    d = shape - 1 / 3
    c = 1 / math.sqrt(9 * d)
    while True:
        radius = math.sqrt(-2 * math.log(1 - numbers.unit()))
        x = radius * math.cos(2 * math.pi * numbers.unit())
        if 1 + c * x <= 0:
            continue
        v = (1 + c * x) ** 3
        if math.log(1 - numbers.unit()) < x * x / 2 + d - d * v + d * math.log(v):
            return math.log(d * v) + boost


def keys_of(transforms):
    found = {}
    for transform in transforms:
        name, keys = next(iter(transform.items())) if isinstance(transform, dict) else (transform, {})
        found[name] = {"alpha": 1.0, "p": 1.0, **keys}
    return found


def mixed(transforms, seed, epoch, batch, images, labels):
    """A batch (N, C, H, W) with its targets, by torchvision."""
    numbers = philox.DrawnNumbers(seed, epoch, batch, philox.MIXING_STREAM)
    kinds = keys_of(transforms)
    wanted = "cutmix" if numbers.unit() < 0.5 else "mixup"
    kind = wanted if wanted in kinds else next(iter(kinds))
    keys = kinds[kind]
    classes = labels if labels.ndim == 2 else F.one_hot(labels, CLASSES)
    if not numbers.unit() < keys["p"]:
        return images, classes.to(images.dtype)
    first, second = (gamma_logarithm(keys["alpha"], numbers) for _ in range(2))
    share = torch.tensor([1 / (1 + math.exp(second - first))], dtype=torch.float64)
    transform = (v2.MixUp if kind == "mixup" else v2.CutMix)(alpha=keys["alpha"], num_classes=CLASSES)
    transform._dist = mock.Mock(sample=lambda _: share)
    with mock.patch.object(torch, "randint", lambda count, size: torch.full(size, numbers.below(count))):
        images, soft = transform(images, classes.to(images.dtype))
    return images, soft


class Twin:
    def __init__(self, variant, weights, images, targets, seed, updates):
        self.variant, self.weights, self.images, self.targets = variant, weights, images, targets
        self.seed, self.updates = seed, updates

    def loss(self, outputs, soft):
        options = self.variant[1]
        if "type" in options:
            return training.loss_of(options, outputs, soft)
        weights = options.get("class_weights")
        return F.cross_entropy(outputs, soft, weight=None if weights is None else torch.tensor(weights, dtype=outputs.dtype),
                               label_smoothing=options.get("label_smoothing", 0.0))

    def compute(self, dtype, noise):
        model = training.model_of(MODEL, SHAPE, self.weights, dtype)
        if noise:
            noise.attach(model)
        pixels = (self.images / 255 - np.array(MEAN)) / np.array(STD)
        inputs, targets = training.torch_inputs(pixels, dtype), torch.from_numpy(self.targets)
        found, batch = {}, 0
        for step, update in enumerate(self.updates, 1):
            if noise:
                noise.of_tensors(model)
            model.zero_grad(set_to_none=True)
            count, total = sum(end - begin for begin, end in update), 0.0
            for begin, end in update:
                images, soft = mixed(self.variant[0], self.seed, 0, batch, inputs[begin:end], targets[begin:end])
                batch += 1
                loss = self.loss(model(images), soft) * ((end - begin) / count)
                loss.backward()
                total += loss.item()
            found[f"step {step} loss"] = np.array(total)
            for name, parameter in model.named_parameters():
                found[f"step {step} gradient of {name}"] = parameter.grad.double().numpy().copy()
        return found


def run(case):
    variant = VARIANTS[case.index]
    transforms, loss, accumulation, chunk_rows = variant
    case.title = f"{' and '.join(keys_of(transforms))}, {loss.get('type', 'cross_entropy')}, {accumulation} batches an update"
    generator = np.random.default_rng(case.number)
    images = generator.integers(0, 256, (SAMPLES, *SHAPE), dtype=np.uint8)
    numeric = "type" in loss
    targets = (generator.integers(0, 2, (SAMPLES, CLASSES)).astype(np.float32) if numeric
               else np.concatenate([np.arange(CLASSES), generator.integers(0, CLASSES, SAMPLES - CLASSES)]))
    np.save(case.folder / "x.npy", images)
    np.save(case.folder / "y.npy", targets)
    updates = training.updates_of(SAMPLES, BATCH, accumulation)
    weights = training.random_weights(training.torch_network.build(MODEL, SHAPE), generator)
    twin = Twin(variant, weights, images, targets, case.number, updates)
    file = case.folder / "weights.safetensors"
    safetensors_file.write(file, weights)
    config = gradient_probe({
        "seed": case.number, "model": {"layers": MODEL}, "loss": loss or "cross_entropy",
        "data": {"type": "arrays", "root": str(case.folder), "train": "x.npy", "train_labels": "y.npy", "shuffle": False,
                 "normalize": {"mean": list(MEAN), "std": list(STD)}, "transforms": {"train": transforms},
                 **({"target_type": "numeric"} if numeric else {})},
        "memory": {"chunked_loss": chunk_rows},
        "train": {"batch_size": BATCH, "epochs": 1, "accumulation_steps": accumulation}})
    run_ = case.trainer.run(case.folder, config, "--weights", file, name="mixing")
    measured = part_networks.measured(run_, len(updates))
    rounding.Reference(twin.compute, case.number).compare(case.findings, measured)


def num_cases(_options):
    return len(VARIANTS)
