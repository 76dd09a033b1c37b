"""torchvision's networks with weights that a formula makes, and the same networks as trainer's layers.

The formula is a hash of (number of the tensor in the state_dict, element) mapped to [-1, 1) and scaled by the fan-in, the
same in tests/whole_runs/torchvision_networks.cpp, so that a golden needs no weights. U-Net, which torchvision has not, is
built here of torch.nn's modules, as Ronneberger et al. 2015 draw it, with padding and batch norms.
"""
import collections

import numpy as np
import torch
import torchvision
from torch import nn

NUM_CLASSES = 10
NORMALIZE = {"mean": 0.5, "std": 0.25}
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


# trainer's layers

def conv(name, out, kernel, **options):
    return {"conv2d": {"out": out, "kernel": kernel, "bias": False, **options, "name": name}}


def norm(name):
    return {"batchnorm2d": {"name": name}}


def resnet_block(kind, width, out, stride, shortcut):
    if kind == "basic":
        layers = [conv("conv1", width, 3, stride=stride, padding=1), norm("bn1"), "relu",
                  conv("conv2", width, 3, padding=1), norm("bn2")]
    else:
        layers = [conv("conv1", width, 1), norm("bn1"), "relu", conv("conv2", width, 3, stride=stride, padding=1),
                  norm("bn2"), "relu", conv("conv3", out, 1), norm("bn3")]
    options = {"layers": layers}
    if shortcut:
        options["shortcut"] = [{"conv2d": {"out": out, "kernel": 1, "stride": stride, "bias": False}}, "batchnorm2d"]
    return {"sequential": {"layers": [{"residual": options}, "relu"]}}


def resnet_layers(kind, depths):
    layers = [conv("conv1", 64, 7, stride=2, padding=3), norm("bn1"), "relu",
              {"maxpool2d": {"kernel": 3, "stride": 2, "padding": 1}}]
    channels = 64
    for number, depth in enumerate(depths):
        width = 64 << number
        out = width * (1 if kind == "basic" else 4)
        blocks = []
        for block in range(depth):
            stride = 2 if block == 0 and number > 0 else 1
            blocks.append(resnet_block(kind, width, out, stride, stride != 1 or channels != out))
            channels = out
        layers.append({"sequential": {"layers": blocks, "name": f"layer{number + 1}"}})
    return [*layers, "global_avgpool", {"linear": {"out": NUM_CLASSES, "name": "fc"}}]


# A residual keeps its branches apart: layer1.0.conv1 is layer1.0.0.layers.conv1 in such a configuration.
RESNET_NAMES = [[r"^(layer\d\.\d+)\.downsample\.", r"\1.0.shortcut."], [r"^(layer\d\.\d+)\.(conv|bn)", r"\1.0.layers.\2"]]

VGG16 = [64, 64, "M", 128, 128, "M", 256, 256, 256, "M", 512, 512, 512, "M", 512, 512, 512, "M"]


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


def vgg16_layers(divisor=1):
    """For images of 224², whose features have the 7² that are averaged to 7² in others."""
    features = []
    for width in VGG16:
        features += [{"maxpool2d": {"kernel": 2}}] if width == "M" else [
            {"conv2d": {"out": width // divisor, "kernel": 3, "padding": 1}}, "relu"]
    hidden = {"linear": {"out": 4096 // divisor}}
    classifier = [hidden, "relu", {"dropout": {"p": 0}}, hidden, "relu", {"dropout": {"p": 0}},
                  {"linear": {"out": NUM_CLASSES}}]
    return [{"sequential": {"layers": features, "name": "features"}}, "flatten",
            {"sequential": {"layers": classifier, "name": "classifier"}}]


Network = collections.namedtuple("Network", "model layers rename golden_size full_size batch")


def resnet(kind, depths):
    block = torchvision.models.resnet.BasicBlock if kind == "basic" else torchvision.models.resnet.Bottleneck
    return lambda: torchvision.models.ResNet(block, depths, num_classes=NUM_CLASSES)


# The size of images in goldens (None: no golden) and in scripts/verify_against_pytorch.py (None: not there).
NETWORKS = {
    "resnet18": Network(resnet("basic", [2, 2, 2, 2]), lambda: resnet_layers("basic", [2, 2, 2, 2]), RESNET_NAMES, 64, 224, 2),
    "resnet50": Network(resnet("bottleneck", [3, 4, 6, 3]), lambda: resnet_layers("bottleneck", [3, 4, 6, 3]), RESNET_NAMES,
                        64, 224, 2),
    "vgg16": Network(vgg16, vgg16_layers, [], None, 224, 2),
    "vgg16_narrow": Network(lambda: vgg16(8), lambda: vgg16_layers(8), [], 224, None, 2),
}


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
    """{what: array}: logits and loss of both modes, gradients, running statistics behind the training step."""
    model = model_of(network, dtype, state)
    if watch:
        watch(model)
    inputs, targets = inputs_of(size, network.batch, dtype), torch.from_numpy(labels(network.batch)).long()
    if noise:
        noise.attach(model)
        noise.of_tensors(model)
        inputs = noise.of_input(inputs)
    found = {}
    for mode in ("eval", "train"):
        model.train(mode == "train")
        logits = model(inputs)
        loss = nn.functional.cross_entropy(logits, targets)
        found[f"{mode} logits"] = logits.detach().double().numpy().copy()
        found[f"{mode} loss"] = np.array(loss.item())
    loss.backward()
    for name, parameter in model.named_parameters():
        found[f"gradient of {name}"] = parameter.grad.double().numpy().copy()
    for name, value in model.state_dict().items():
        if "running_" in name:
            found[f"running {name}"] = value.detach().double().numpy().copy()
    return found
