#!/usr/bin/env python3
"""Builds the PyTorch model of a trainer config and says what it holds. See pytorch_saved_tensors.py, which asks.

For each JSON object on stdin, one a line (layers, loss, optimizer, input_shape), it prints one: the bytes that autograd
saves on the CPU, and on a GPU the peak of the second training step.
"""
import itertools
import json
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
    if kind == "batchnorm2d":
        return nn.BatchNorm2d(shape[1], eps=arguments["eps"], affine=arguments["affine"])
    if kind == "layernorm":
        return nn.LayerNorm(shape[-1], eps=arguments["eps"], elementwise_affine=arguments["affine"])
    if kind == "gelu":
        return nn.GELU(approximate=arguments.get("approximate", "none"))
    if kind == "dropout":
        return NativeDropout(arguments["p"])
    if kind == "maxpool2d":
        return nn.MaxPool2d(pair(arguments["kernel"]), pair(arguments["stride"]), pair(arguments["padding"]))
    if kind == "avgpool2d":
        return nn.AvgPool2d(pair(arguments["kernel"]), pair(arguments["stride"]), pair(arguments["padding"]),
                            count_include_pad=arguments["count_include_pad"])
    if kind == "global_avgpool":
        return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    plain = {"relu": nn.ReLU, "silu": nn.SiLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid, "flatten": nn.Flatten}
    if kind not in plain:
        raise SystemExit(f"no PyTorch module is known for layer '{kind}'")
    return plain[kind]()


def make_sequence(layers, shape):
    """(the modules one after the other, the shape of their output)."""
    modules = nn.Sequential()
    for layer in layers:
        kind, arguments = (layer, {}) if isinstance(layer, str) else next(iter(layer.items()))
        if kind == "residual":
            main, out = make_sequence(arguments["layers"], shape)
            module, shape = Residual(main, make_sequence(arguments.get("shortcut") or [], shape)[0]), out
        elif kind == "sequential":
            module, shape = make_sequence(arguments["layers"], shape)
        elif kind == "repeat":
            module, shape = make_sequence(arguments["layers"] * arguments["times"], shape)
        else:
            module = make_layer(kind, arguments, shape)
            with torch.no_grad():
                shape = module(torch.zeros(2, *shape[1:])).shape
        modules.append(module)
    return modules, shape


def make_target(loss, logits_shape):
    if loss == "cross_entropy":
        return torch.zeros(logits_shape[0], dtype=torch.long)
    return torch.zeros(logits_shape)


LOSSES = {"cross_entropy": nn.CrossEntropyLoss, "mse": nn.MSELoss, "bce_with_logits": nn.BCEWithLogitsLoss}


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
    model, shape = make_sequence(description["layers"], tuple(description["input_shape"]))
    model.train()
    loss = description["loss"]["type"]
    criterion = LOSSES[loss]()
    x = torch.randn(*description["input_shape"])
    target = make_target(loss, (x.shape[0], *shape[1:]))
    saved = saved_storages(model, criterion, x, target)
    return {"torch": torch.__version__, "parameters": sum(p.numel() for p in model.parameters()),
            "saved_bytes": sum(saved.values()), "num_saved": len(saved),
            "gpu": gpu_peak(model, criterion, description["optimizer"], x, target)}


def main():
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
