#!/usr/bin/env python3
"""The PyTorch side of bench_gpu.py: one repetition in a process of its own, or the machine's ceilings; prints one line of
JSON.

PyTorch is used at its best: the data lies on the device, gradients are set to None, the optimizer is the fused one,
images are channels_last, cudnn.benchmark is on, and nothing waits for the device between the first timed step and the
last.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import time

import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "oracle"))
import safetensors_file  # noqa: E402

MODES = {"eager": None, "compile": {}, "compile reduce-overhead": {"mode": "reduce-overhead"},
         "compile max-autotune": {"mode": "max-autotune"}}


class BasicBlock(nn.Module):
    def __init__(self, channels_in, channels_out, stride):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels_in, channels_out, 3, stride, 1, bias=False), nn.BatchNorm2d(channels_out), nn.ReLU(True),
            nn.Conv2d(channels_out, channels_out, 3, 1, 1, bias=False), nn.BatchNorm2d(channels_out))
        self.shortcut = nn.Sequential()
        if stride != 1 or channels_in != channels_out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels_out, 1, stride, bias=False), nn.BatchNorm2d(channels_out))

    def forward(self, x):
        return torch.relu_(self.layers(x) + self.shortcut(x))


def make_mlp(hidden):
    return nn.Sequential(nn.Flatten(), nn.Linear(784, hidden), nn.ReLU(True), nn.Linear(hidden, hidden), nn.ReLU(True),
                         nn.Linear(hidden, 10))


def make_resnet18():
    layers = [nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU(True)]
    channels = 64
    for out in (64, 128, 256, 512):
        for stride in (1 if out == 64 else 2, 1):
            # As in the YAML: the block adds, the ReLU behind it is a layer of its own.
            layers.append(BasicBlock(channels, out, stride))
            channels = out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


MODELS = {"mlp_small": lambda: make_mlp(256), "mlp_wide": lambda: make_mlp(2000), "resnet18": make_resnet18}


def trainer_names(network, model):
    """PyTorch's state, under the names that trainer gives the layers of configs/bench/."""
    state = model.state_dict()
    if network != "resnet18":
        return {name: value for name, value in state.items()}
    names = {}
    for name, value in state.items():
        if name.endswith("num_batches_tracked"):
            continue
        position, _, rest = name.partition(".")
        position = int(position)
        # Blocks 3 … 10 are layers 3, 5, … 17 of the YAML, each followed by its ReLU; the head is layer 20.
        if 3 <= position <= 10:
            position = 3 + 2 * (position - 3)
        elif position > 10:
            position += 7
        names[f"{position}.{rest}"] = value
    return names


def process_bytes():
    """What the driver counts for this process; 0 where it does not tell."""
    try:
        output = subprocess.run(["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"],
                                capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return 0
    import os
    rows = [line.split(",") for line in output.splitlines() if "," in line]
    own = [int(memory) for pid, memory in rows if int(pid) == os.getpid()]
    return own[0] * 2**20 if own else 0


def ceilings(tf32):
    """GEMM rate, copy bandwidth and the gap between the nodes of a graph, measured here and now."""
    torch.backends.cuda.matmul.allow_tf32 = tf32

    def seconds_of(function, repetitions):
        for _ in range(3):
            function()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(repetitions):
            function()
        torch.cuda.synchronize()
        return (time.perf_counter() - start) / repetitions

    size = 8192
    a, b = (torch.randn(size, size, device="cuda") for _ in range(2))
    flops_per_second = 2 * size**3 / seconds_of(lambda: torch.mm(a, b), 10)
    source = torch.empty(2**31, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    bytes_per_second = 2 * source.numel() / seconds_of(lambda: target.copy_(source), 20)
    tiny = torch.zeros(32, device="cuda")
    graph = torch.cuda.CUDAGraph()
    for _ in range(3):
        tiny.add_(1)
    torch.cuda.synchronize()
    num_nodes = 1000
    with torch.cuda.graph(graph):
        for _ in range(num_nodes):
            tiny.add_(1)
    node_seconds = seconds_of(graph.replay, 20) / num_nodes
    return {"flops_per_second": flops_per_second, "bytes_per_second": bytes_per_second, "node_seconds": node_seconds,
            "device": torch.cuda.get_device_name(), "torch": torch.__version__, "cudnn": torch.backends.cudnn.version()}


def train(arguments):
    device = torch.device(arguments.device)
    is_cuda = device.type == "cuda"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = arguments.tf32
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(1)
    model = MODELS[arguments.network]()
    weights = pathlib.Path(arguments.weights)
    if not weights.exists():  # the first of all runs decides where every one starts
        safetensors_file.write(weights, {name: value.numpy() for name, value in
                                         trainer_names(arguments.network, model).items()})
    stored = safetensors_file.read(weights)
    own = model.state_dict()
    back = {ours: theirs for theirs, ours in zip(
        [name for name in own if not name.endswith("num_batches_tracked")], trainer_names(arguments.network, model))}
    model.load_state_dict({back[name]: torch.from_numpy(value) for name, value in stored.items()}, strict=False)
    model = model.to(device)
    data = safetensors_file.read(arguments.data)
    images = (torch.from_numpy(data["images"]).to(device).float() / 255 - 0.5) / 0.25  # (samples, channels, rows, columns)
    targets = torch.from_numpy(data["targets"]).to(device).long()
    if images.shape[1] > 1:
        model = model.to(memory_format=torch.channels_last)
        images = images.contiguous(memory_format=torch.channels_last)
    batch = arguments.batch
    num_batches = len(images) // batch
    batches = [(images[i * batch:(i + 1) * batch], targets[i * batch:(i + 1) * batch]) for i in range(num_batches)]
    optimizer = torch.optim.SGD(model.parameters(), lr=arguments.lr, momentum=0.9, fused=True)
    criterion = nn.CrossEntropyLoss()

    def loss_of(x, y):
        return criterion(model(x), y)

    options = MODES[arguments.mode]
    if options is not None:
        loss_of = torch.compile(loss_of, **options)

    def step(index):
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(*batches[index % num_batches])
        loss.backward()
        optimizer.step()
        return loss.detach().clone()

    def wait():
        if is_cuda:
            torch.cuda.synchronize()

    losses = [step(index) for index in range(20)]
    wait()
    losses = [loss.item() for loss in losses]
    if is_cuda:
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    for index in range(arguments.steps):
        step(20 + index)
    wait()
    seconds = time.perf_counter() - start
    result = {"losses": losses, "step_seconds": seconds / arguments.steps,
              "samples_per_second": batch * arguments.steps / seconds,
              "parameters": sum(parameter.numel() for parameter in model.parameters())}
    if is_cuda:
        result |= {"peak_allocated": torch.cuda.max_memory_allocated(), "peak_reserved": torch.cuda.max_memory_reserved(),
                   "process_bytes": process_bytes()}
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network", choices=[*MODELS, "ceilings"])
    parser.add_argument("mode", nargs="?", choices=MODES, default="eager")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--weights", help="safetensors file under trainer's names; made where it does not exist")
    parser.add_argument("--data", help="safetensors file with images (u8) and targets (i32)")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--steps", type=int, default=100, help="timed steps, after 20")
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--tf32", action="store_true")
    arguments = parser.parse_args()
    result = ceilings(arguments.tf32) if arguments.network == "ceilings" else train(arguments)
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
