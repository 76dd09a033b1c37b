#!/usr/bin/env python3
"""Builds the PyTorch model of a trainer config and says what it holds. See pytorch_saved_tensors.py, which asks.

For each JSON object on stdin, one a line (layers, loss, optimizer, input_shape), it prints one: the bytes that autograd
saves on the CPU, and on a GPU the peak of the second training step.
"""
import functools
import itertools
import json
import operator
import sys

import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, layers, shortcut):
        super().__init__()
        self.layers, self.shortcut = layers, shortcut

    def forward(self, x):
        return self.layers(x) + self.shortcut(x)


class NativeDropout(nn.Module):
    """The op that nn.Dropout runs on a GPU, also where it would run another one on the CPU."""

    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        return torch.native_dropout(x, self.p, True)[0] if self.p > 0 else x


def pair(value):
    return tuple(value) if isinstance(value, list) else value


def make_pad(arguments):
    size = arguments["size"]
    top, bottom, left, right = [size] * 4 if isinstance(size, int) else size if len(size) == 4 else [
        size[0], size[0], size[1], size[1]]
    sides = (left, right, top, bottom)
    if arguments["mode"] == "zeros":
        return nn.ConstantPad2d(sides, arguments["value"])
    return nn.ReflectionPad2d(sides) if arguments["mode"] == "reflect" else nn.ReplicationPad2d(sides)


def make_layer(kind, arguments, shape):
    """The module; `shape` is that of its input, from which PyTorch's modules want the sizes that trainer infers."""
    if kind == "linear":
        return nn.Linear(shape[-1], arguments["out"], bias=arguments["bias"])
    if kind == "conv2d":
        return nn.Conv2d(shape[1], arguments["out"], pair(arguments["kernel"]), pair(arguments["stride"]),
                         pair(arguments["padding"]), pair(arguments["dilation"]), arguments["groups"],
                         bias=arguments["bias"])
    if kind == "batchnorm1d":
        return nn.BatchNorm1d(shape[1], eps=arguments["eps"], affine=arguments["affine"])
    if kind == "groupnorm":
        return nn.GroupNorm(arguments["groups"], shape[1], eps=arguments["eps"], affine=arguments["affine"])
    if kind == "instancenorm2d":
        return nn.InstanceNorm2d(shape[1], eps=arguments["eps"], affine=arguments["affine"])
    if kind == "conv_transpose2d":
        return nn.ConvTranspose2d(shape[1], arguments["out"], pair(arguments["kernel"]), pair(arguments.get("stride", 1)),
                                  pair(arguments.get("padding", 0)), pair(arguments.get("output_padding", 0)),
                                  arguments.get("groups", 1), arguments.get("bias", True), pair(arguments.get("dilation", 1)))
    if kind == "batchnorm2d":
        return nn.BatchNorm2d(shape[1], eps=arguments["eps"], affine=arguments["affine"])
    if kind == "layernorm":
        return nn.LayerNorm(shape[-1], eps=arguments["eps"], elementwise_affine=arguments["affine"])
    if kind == "rmsnorm":
        return nn.RMSNorm(shape[-1], eps=arguments["eps"], elementwise_affine=arguments["affine"])
    if kind == "gelu":
        return nn.GELU(approximate=arguments.get("approximate", "none"))
    if kind == "dropout":
        return NativeDropout(arguments["p"])
    if kind == "maxpool2d":
        return nn.MaxPool2d(pair(arguments["kernel"]), pair(arguments["stride"]), pair(arguments["padding"]),
                            ceil_mode=arguments.get("ceil_mode", False))
    if kind == "avgpool2d":
        return nn.AvgPool2d(pair(arguments["kernel"]), pair(arguments["stride"]), pair(arguments["padding"]),
                            ceil_mode=arguments.get("ceil_mode", False), count_include_pad=arguments["count_include_pad"])
    if kind == "adaptive_avgpool2d":
        return nn.AdaptiveAvgPool2d(pair(arguments["size"]))
    if kind == "upsample":
        options = {"align_corners": arguments.get("align_corners", False)} if arguments.get("mode") == "bilinear" else {}
        return nn.Upsample(pair(arguments.get("size")), pair(arguments.get("scale")), arguments.get("mode", "nearest"),
                           **options)
    if kind == "pad":
        return make_pad(arguments)
    if kind == "leaky_relu":
        return nn.LeakyReLU(arguments.get("slope", 0.01))
    if kind == "prelu":
        return nn.PReLU(arguments.get("num", 1), arguments.get("init", 0.25))
    if kind == "global_avgpool":
        return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    plain = {"relu": nn.ReLU, "silu": nn.SiLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid, "relu6": nn.ReLU6,
             "hardswish": nn.Hardswish, "hardsigmoid": nn.Hardsigmoid, "flatten": nn.Flatten}
    if kind not in plain:
        raise SystemExit(f"no PyTorch module is known for layer '{kind}'")
    return plain[kind]()


class Several(nn.Module):
    """What `from` names, put together."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(inputs)


SEVERAL = {"add": lambda inputs: functools.reduce(operator.add, inputs), "concat": lambda inputs: torch.cat(inputs, 1),
           "multiply": lambda inputs: functools.reduce(operator.mul, inputs)}


class Layers(nn.Module):
    """A list of layers; what each makes is there for those behind it to name, in `outputs` by path."""

    def __init__(self, prefix, outputs):
        super().__init__()
        self.prefix, self.outputs = prefix, outputs
        self.paths, self.sources, self.children_ = [], [], nn.ModuleList()

    def find(self, name):
        """The innermost layer of that name."""
        scope = self.prefix.removesuffix(".")
        while (f"{scope}.{name}" if scope else name) not in self.outputs:
            if not scope:
                raise SystemExit(f"no layer before this one is called '{name}'")
            scope = scope.rpartition(".")[0]
        return self.outputs[f"{scope}.{name}" if scope else name]

    def step(self, path, sources, module, x):
        y = module(*([self.find(name) for name in sources] or [x]))
        self.outputs[path] = y
        return y

    def append(self, path, sources, module):
        self.paths.append(path)
        self.sources.append(sources)
        self.children_.append(module)

    def forward(self, x):
        self.outputs[f"{self.prefix}in"] = x
        for path, sources, module in zip(self.paths, self.sources, self.children_):
            x = self.step(path, sources, module, x)
        return x


def make_sequence(layers, x, prefix="", outputs=None):
    """(the module of a list of layers, its output for x)."""
    outputs = {} if outputs is None else outputs
    result = Layers(prefix, outputs)
    outputs[f"{prefix}in"] = x
    for index, layer in enumerate(layers):
        kind, arguments = (layer, {}) if isinstance(layer, str) else next(iter(layer.items()))
        path = f"{prefix}{arguments.get('name', index)}"
        if arguments.get("share"):
            raise SystemExit(f"layer '{path}' shares parameters, which this model of PyTorch's does not")
        sources = arguments.get("from") or []
        sources = [sources] if isinstance(sources, str) else sources
        given = result.find(sources[0]) if sources else x
        if kind == "residual":
            main, _ = make_sequence(arguments["layers"], given, f"{path}.layers.", outputs)
            shortcut, _ = make_sequence(arguments.get("shortcut") or [], given, f"{path}.shortcut.", outputs)
            module = Residual(main, shortcut)
        elif kind == "sequential":
            module, _ = make_sequence(arguments["layers"], given, f"{path}.", outputs)
        elif kind == "repeat":
            copies = [{"sequential": {"layers": arguments["layers"]}} for _ in range(arguments["times"])]
            module, _ = make_sequence(copies, given, f"{path}.", outputs)
        elif kind in SEVERAL:
            module = Several(SEVERAL[kind])
        else:
            module = make_layer(kind, arguments, given.shape)
        with torch.no_grad():
            x = result.step(path, sources, module, x)
        result.append(path, sources, module)
    return result, x


def make_target(loss, logits_shape):
    if loss == "cross_entropy":
        return torch.zeros((logits_shape[0], *logits_shape[2:]), dtype=torch.long)
    return torch.zeros(logits_shape)


LOSSES = {"cross_entropy": nn.CrossEntropyLoss, "mse": nn.MSELoss, "l1": nn.L1Loss,
          "smooth_l1": nn.SmoothL1Loss, "bce_with_logits": nn.BCEWithLogitsLoss}


def saved_storages(model, criterion, x, target):
    """The bytes of every storage that one forward pass saves, but for parameters and buffers, by address. The tensors
    are kept until all have been seen, so that no two of them had the same address one after the other."""
    seen = []

    def keep(tensor):
        seen.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        criterion(model(x), target)
    held_anyway = {tensor.untyped_storage().data_ptr() for tensor in itertools.chain(model.parameters(), model.buffers())}
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in seen}
    return {address: num_bytes for address, num_bytes in storages.items() if address not in held_anyway}


def make_optimizer(options, model):
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    momentum = {"momentum": options.get("momentum", 0)} if options["type"] == "sgd" else {}
    return kinds[options["type"]](model.parameters(), lr=1e-6, **momentum)


def gpu_peak(model, criterion, optimizer_options, x, target):
    if not torch.cuda.is_available():
        return {"name": None, "skipped": "PyTorch sees no GPU"}
    model.cuda()
    x, target = x.cuda(), target.cuda()
    optimizer = make_optimizer(optimizer_options, model)
    for _ in range(2):  # the first makes the optimizer's state
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        optimizer.zero_grad(set_to_none=True)
        criterion(model(x), target).backward()
        optimizer.step()
    torch.cuda.synchronize()
    return {"name": torch.cuda.get_device_name(), "peak_bytes": torch.cuda.max_memory_allocated()}


def answer(description):
    torch.manual_seed(1)
    model, y = make_sequence(description["layers"], torch.zeros(2, *description["input_shape"][1:]))
    model.train()
    loss = description["loss"]["type"]
    criterion = LOSSES[loss]()
    x = torch.randn(*description["input_shape"])
    target = make_target(loss, (x.shape[0], *y.shape[1:]))
    saved = saved_storages(model, criterion, x, target)
    return {"torch": torch.__version__, "parameters": sum(p.numel() for p in model.parameters()),
            "saved_bytes": sum(saved.values()), "num_saved": len(saved),
            "gpu": gpu_peak(model, criterion, description["optimizer"], x, target)}


def main():
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
