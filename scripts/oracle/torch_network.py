"""PyTorch modules for a list of layers as it stands in a configuration, under the names that trainer's files use.

A layer is a name, {name: arguments} or (name, arguments). Images are N, C, H, W here, as PyTorch wants them; what trainer
says of "the last dimension" of an image is its channels.
"""
import torch
from torch import nn

ACTIVATIONS = {"relu": nn.ReLU, "silu": nn.SiLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid}


class Residual(nn.Module):
    def __init__(self, layers, shortcut):
        super().__init__()
        self.layers = layers
        self.shortcut = shortcut

    def forward(self, x):
        return self.layers(x) + self.shortcut(x)


class GlobalAveragePool(nn.Module):
    def forward(self, x):
        return x.mean(dim=(2, 3))


class ChannelLinear(nn.Linear):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ChannelLayerNorm(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def kind_and_arguments(layer):
    if isinstance(layer, str):
        return layer, {}
    if isinstance(layer, dict):
        return next(iter(layer.items()))
    return layer


def sequence(layers, shape):
    """The module of a list of layers and the shape behind it; children bear the layer's name or index."""
    module = nn.Sequential()
    for index, layer in enumerate(layers):
        kind, arguments = kind_and_arguments(layer)
        child, shape = make_layer(kind, dict(arguments), shape)
        module.add_module(arguments.get("name", str(index)), child)
    return module, shape


def make_layer(kind, arguments, shape):
    """The module of one layer over an input of `shape`, features or (C, H, W), and the shape of its output."""
    arguments.pop("name", None)
    arguments.pop("init", None)  # PyTorch's modules know no other start than their own
    is_image = len(shape) == 3
    if kind == "residual":
        layers, out = sequence(arguments["layers"], shape)
        shortcut, _ = sequence(arguments.get("shortcut", []), shape)
        return Residual(layers, shortcut), out
    if kind == "sequential":
        return sequence(arguments["layers"], shape)
    if kind == "repeat":
        return sequence([("sequential", {"layers": arguments["layers"]})] * arguments["times"], shape)
    if kind == "linear":
        module = (ChannelLinear if is_image else nn.Linear)(shape[0], arguments.pop("out"), **arguments)
    elif kind == "layernorm":
        options = {"eps": arguments.get("eps", 1e-5), "elementwise_affine": arguments.get("affine", True)}
        module = (ChannelLayerNorm if is_image else nn.LayerNorm)(shape[0], **options)
    elif kind == "conv2d":
        module = nn.Conv2d(shape[0], arguments.pop("out"), arguments.pop("kernel"), **arguments)
    elif kind in ("batchnorm1d", "batchnorm2d"):
        module = (nn.BatchNorm1d if kind == "batchnorm1d" else nn.BatchNorm2d)(shape[0], **arguments)
    elif kind == "groupnorm":
        module = nn.GroupNorm(arguments.pop("groups"), shape[0], **arguments)
    elif kind == "instancenorm2d":
        module = nn.InstanceNorm2d(shape[0], **arguments)
    elif kind == "maxpool2d":
        module = nn.MaxPool2d(arguments.pop("kernel", 2), **arguments)
    elif kind == "avgpool2d":
        module = nn.AvgPool2d(arguments.pop("kernel", 2), **arguments)
    elif kind == "global_avgpool":
        module = GlobalAveragePool()
    elif kind == "flatten":
        module = nn.Flatten()
    elif kind == "dropout":
        module = nn.Dropout(arguments.get("p", 0.5))
    elif kind == "gelu":
        module = nn.GELU(**arguments)
    else:
        module = ACTIVATIONS[kind]()
    return module, tuple(module.eval()(torch.zeros(1, *shape)).shape[1:])


def torch_shape(shape):
    """Of a sample, as trainer writes it (H, W, C) and as PyTorch's modules want it."""
    return (shape[2], shape[0], shape[1]) if len(shape) == 3 else tuple(shape)


def build(layers, shape):
    """The model over samples of `shape`, as a configuration writes it."""
    return sequence(layers, torch_shape(shape))[0]
