"""torchvision's networks with weights that a formula makes, and which of trainer's models they are.

The formula is a hash of (number of the tensor in the state_dict, element) mapped to [-1, 1) and scaled by the fan-in, the
same in tests/whole_runs/torchvision_networks.cpp, so that a golden needs no weights. U-Net is scripts/pytorch_unet.py's.
"""
import collections
import pathlib
import sys

import numpy as np
import torch
import torchvision
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from pytorch_unet import UNet  # noqa: E402

NUM_CLASSES = 10
NORMALIZE = {"mean": 0.5, "std": 0.25}
# Draws of noise, more than for small networks: a few of them are to meet a kink on its other side.
NUM_NOISY = 8
IMAGES, LABELS = 1 << 20, (1 << 20) + 1  # what stands for the number of a tensor


def hashed(tensor, count):
    """Words of 32 bits for the elements of a tensor: the finalizer of MurmurHash3 over both numbers."""
    with np.errstate(over="ignore"):
        word = np.arange(count, dtype=np.uint32) * np.uint32(2654435761) + np.uint32((tensor * 40503 + 1) & 0xFFFFFFFF)
        for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
            word ^= word >> np.uint32(shift)
            word *= np.uint32(factor)
        return word ^ (word >> np.uint32(16))


def formula(number, name, shape, is_norm):
    """The values of a tensor, f32: weights ±√(6 / fan-in), norms off their 1 and 0, so that a swapped pair shows.

    A norm's biases are 2.5 deviations above 0, of one that is called bn1 (no sum follows it) also below: where many numbers
    lie near a ReLU's kink, some are so near that rounding decides, and gradients differ by more than rounding. So few
    are, and there are some on both sides.
    """
    count = int(np.prod(shape, dtype=np.int64))
    unit = (hashed(number, count) >> np.uint32(8)).astype(np.float64) * 2.0**-23 - 1
    if len(shape) > 1:
        values = np.sqrt(6 / float(np.prod(shape[1:]))) * unit
    elif name.endswith("running_var"):
        values = 1 + 0.5 * unit
    elif is_norm and name.endswith(".weight"):
        values = 1 + 0.2 * unit
    elif is_norm and name.endswith(".bias"):
        values = np.where((unit < 0) & name.endswith("bn1.bias"), -2.5, 2.5) + 0.1 * unit
    else:
        values = 0.1 * unit
    return values.astype(np.float32).reshape(shape)


def images(count, height, width):
    """(count, height, width, 3), u8."""
    return (hashed(IMAGES, count * height * width * 3) >> np.uint32(24)).astype(np.uint8).reshape(count, height, width, 3)


def labels(count, num_classes=NUM_CLASSES):
    return (hashed(LABELS, count) % np.uint32(num_classes)).astype(np.int32)


def state_shapes(model):
    """(name, shape) of what is saved, in order, but for the counters of batch norms."""
    return [(name, tuple(value.shape)) for name, value in model.state_dict().items()
            if not name.endswith("num_batches_tracked")]


def formula_state(model):
    shapes = dict(state_shapes(model))
    return {name: formula(number, name, shape, len(shapes.get(name.rpartition(".")[0] + ".weight", ())) == 1)
            for number, (name, shape) in enumerate(shapes.items())}


VGG16 = [64, 64, "M", 128, 128, "M", 256, 256, 256, "M", 512, 512, 512, "M", 512, 512, 512, "M"]


def resnet(kind, depths):
    return torchvision.models.ResNet(kind, depths, num_classes=NUM_CLASSES)


def vgg16(divisor=1):
    """VGG-16, its widths divided."""
    widths = [width if width == "M" else width // divisor for width in VGG16]
    model = torchvision.models.vgg.VGG(torchvision.models.vgg.make_layers(widths), num_classes=NUM_CLASSES,
                                       init_weights=False, dropout=0.0)
    hidden = 4096 // divisor
    model.classifier[0] = nn.Linear(widths[-2] * 49, hidden)
    model.classifier[3] = nn.Linear(hidden, hidden)
    model.classifier[6] = nn.Linear(hidden, NUM_CLASSES)
    return model


# `model` builds PyTorch's; `file` and `values` are the same network of configs/models/. `golden_size` and `full_size`: of
# the images in tests/golden/ (None: no golden) and in scripts/verify_against_pytorch.py (None: not there).
Network = collections.namedtuple("Network", "model file values golden_size full_size batch of_pixels", defaults=(2, False))
BASIC, BOTTLENECK = torchvision.models.resnet.BasicBlock, torchvision.models.resnet.Bottleneck
NETWORKS = {
    "resnet18": Network(lambda: resnet(BASIC, [2, 2, 2, 2]), "resnet", {"depth": 18}, 64, 224),
    "resnet50": Network(lambda: resnet(BOTTLENECK, [3, 4, 6, 3]), "resnet", {"depth": 50}, 64, 224),
    "vgg16": Network(vgg16, "vgg16", {"dropout": 0}, None, 224),
    "vgg16_narrow": Network(lambda: vgg16(8), "vgg16", {"width": 8, "hidden": 512, "dropout": 0}, 224, None),
    "mobilenetv2": Network(lambda: torchvision.models.MobileNetV2(num_classes=NUM_CLASSES, dropout=0), "mobilenetv2",
                           {"dropout": 0}, 64, 224),
    "unet": Network(lambda: UNet(16, 4, "transpose", NUM_CLASSES), "unet", {"width": 16}, 32, None, of_pixels=True),
    "unet_bilinear": Network(lambda: UNet(8, 3, "bilinear", NUM_CLASSES), "unet", {"width": 8, "depth": 3, "up": "bilinear"}, 24, None,
                             of_pixels=True),
}


def model_section(network):
    """`model` of a configuration."""
    return {"file": f"models/{network.file}.yaml", "with": {**network.values, "classes": NUM_CLASSES}}


def targets_of(network, size):
    """i32: a class for each image, or (count, height, width)."""
    if not network.of_pixels:
        return labels(network.batch)
    return labels(network.batch * size * size).reshape(network.batch, size, size)


def model_of(network, dtype, state):
    """In the type and with that state, nothing of it in place, so that noise may be put on what a module returns."""
    model = network.model().to(dtype)
    for module in model.modules():
        if hasattr(module, "inplace"):
            module.inplace = False
    model.load_state_dict({name: torch.from_numpy(array) for name, array in state.items()}, strict=False)
    return model


def inputs_of(size, count, dtype):
    pixels = torch.from_numpy(images(count, size, size)).to(torch.float64) / 255
    return ((pixels - NORMALIZE["mean"]) / NORMALIZE["std"]).permute(0, 3, 1, 2).to(dtype).contiguous()


def compute(network, size, state, dtype, noise, watch=None):
    """{what: array}: logits (channels last) and loss of both modes, gradients, running statistics behind the training
    step."""
    model = model_of(network, dtype, state)
    if watch:
        watch(model)
    inputs, targets = inputs_of(size, network.batch, dtype), torch.from_numpy(targets_of(network, size)).long()
    if noise:
        noise.attach(model)
        noise.of_tensors(model)
        inputs = noise.of_input(inputs)
    found = {}
    for mode in ("eval", "train"):
        model.train(mode == "train")
        logits = model(inputs)
        loss = nn.functional.cross_entropy(logits, targets)
        found[f"{mode} logits"] = logits.detach().movedim(1, -1).double().numpy().copy()
        found[f"{mode} loss"] = np.array(loss.item())
    loss.backward()
    for name, parameter in model.named_parameters():
        found[f"gradient of {name}"] = parameter.grad.double().numpy().copy()
    for name, value in model.state_dict().items():
        if "running_" in name:
            found[f"running {name}"] = value.detach().double().numpy().copy()
    return found
