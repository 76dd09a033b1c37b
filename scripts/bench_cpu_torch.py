#!/usr/bin/env python3
"""One repetition of one network of the CPU benchmark in PyTorch, in a process of its own; prints one line of JSON.

The networks, optimizers and batch sizes are those of configs/bench/*.yaml. PyTorch is used at its best: batches are float and
already in memory, gradients are set to None, the optimizer is the fused one, tensors are channels_last where asked.
"""
import argparse
import functools
import json
import os
import sys
import time


def resident_bytes(field):
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(field + ":"))


os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
import torch  # noqa: E402
from torch import nn  # noqa: E402

if "resnet50_64" in sys.argv:
    import torchvision  # noqa: E402, F401  (counts as imported)

IMPORTED_BYTES = resident_bytes("VmRSS")

from bench_models import (make_cnn, make_gpt2_124m, make_gpt_mini, make_mlp, make_resnet18, make_resnet50,  # noqa: E402
                          make_unet)

# What makes it, the shapes of a sample and of its target, and their classes, the batch size.
NETWORKS = {"mlp": (lambda: make_mlp(2000, 2), (1, 28, 28), (), 10, 128), "cnn": (make_cnn, (1, 28, 28), (), 10, 64),
            "resnet18": (make_resnet18, (3, 32, 32), (), 10, 64), "resnet50_64": (make_resnet50, (3, 64, 64), (), 10, 16),
            "unet_128": (make_unet, (3, 128, 128), (128, 128), 2, 4)}
# Of tokens: what makes it, the tokens of a sample, the vocabulary, the batch size, and AdamW's rate and second beta.
GPTS = {"gpt_mini": (make_gpt_mini, 256, 65, 8, 0.001, 0.99), "gpt2_124m": (make_gpt2_124m, 64, 50257, 4, 0.0006, 0.95)}


def make_image_training(network):
    """(model, batches, their targets, samples of a batch, what makes the optimizer)."""
    make, shape, target_shape, num_classes, batch = NETWORKS[network]
    model = make()
    inputs = [torch.randn(batch, *shape) for _ in range(4)]
    targets = [torch.randint(0, num_classes, (batch, *target_shape)) for _ in range(4)]
    return model, inputs, targets, batch, functools.partial(torch.optim.SGD, lr=0.01, momentum=0.9)


def make_token_training(network):
    make, length, vocabulary, batch, rate, beta = GPTS[network]
    model = make()
    inputs = [torch.randint(0, vocabulary, (batch, length)) for _ in range(4)]
    targets = [torch.randint(0, vocabulary, (batch * length,)) for _ in range(4)]
    return model, inputs, targets, batch, functools.partial(torch.optim.AdamW, lr=rate, betas=(0.9, beta),
                                                            weight_decay=0.1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network", choices=[*NETWORKS, *GPTS])
    parser.add_argument("mode", choices=("eager", "compile"))
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--warmup-steps", type=int, default=5)
    arguments = parser.parse_args()

    torch.set_num_threads(2)
    torch.manual_seed(1)
    make_training = make_token_training if arguments.network in GPTS else make_image_training
    model, inputs, targets, batch, make_optimizer = make_training(arguments.network)
    num_parameters = sum(parameter.numel() for parameter in model.parameters())
    if arguments.channels_last:
        model = model.to(memory_format=torch.channels_last)
        inputs = [x.contiguous(memory_format=torch.channels_last) for x in inputs]
    fused = {"fused": True} if int(torch.__version__.split(".")[0]) >= 2 else {}
    optimizer = make_optimizer(model.parameters(), **fused)
    criterion = nn.CrossEntropyLoss()

    def loss_of(x, y):
        return criterion(model(x), y)

    if arguments.mode == "compile":
        loss_of = torch.compile(loss_of)

    def step(index):
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(inputs[index % 4], targets[index % 4])
        loss.backward()
        optimizer.step()
        return loss.item()  # as a training loop that prints its loss

    for index in range(arguments.warmup_steps):
        step(index)
    step_seconds = []
    end = time.perf_counter() + arguments.seconds
    while True:
        start = time.perf_counter()
        if start >= end and len(step_seconds) >= 3:
            break
        step(len(step_seconds))
        step_seconds.append(time.perf_counter() - start)
    print(json.dumps({"samples_per_second": batch * len(step_seconds) / sum(step_seconds),
                      "step_seconds": sum(step_seconds) / len(step_seconds), "best_step_seconds": min(step_seconds),
                      "peak_bytes": resident_bytes("VmHWM"), "imported_bytes": IMPORTED_BYTES,
                      "parameters": num_parameters}))


if __name__ == "__main__":
    main()
