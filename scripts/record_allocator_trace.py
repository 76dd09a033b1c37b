#!/usr/bin/env python3
"""scripts/record_allocator_trace.py [--out DIR] [--steps N] [--models NAME …]: what PyTorch's own CUDA caching
allocator does while it trains four models, each with and without expandable segments, for
tests/memory/pytorch_traces_test.cpp. Needs a GPU and PyTorch; each model is trained in a process of its own.

Writes DIR/<model>[_expandable].json.gz (default tests/memory/traces), each a gzip-compressed JSON object:

    format, version       "allocator-trace", 1
    name                  the model and the mode
    expandable_segments   whether PYTORCH_CUDA_ALLOC_CONF asked for them
    capacity              bytes of the GPU's memory
    recorded_with         versions of PyTorch and CUDA, name of the GPU
    events                in order, each [action, id, requested, allocated, reserved, segments]:
        action            "alloc", "free", or "release_cached" (torch.cuda.empty_cache())
        id                a small number for the block, of its "alloc" and its "free"; -1 for "release_cached"
        requested         bytes that were asked for; 0 for "release_cached"
        allocated         bytes of live blocks after the event, where they were sampled, else null
        reserved          bytes of segments (or mapped pages) after the event
        segments          segments after the event, as memory_stats() counts them: none of the expandable ones

reserved and segments are summed up from the segment events of the history and must equal every sample.
"""
import argparse
import gzip
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ("mlp", "cnn", "resnet18", "gpt")
ENVIRONMENT = "PYTORCH_CUDA_ALLOC_CONF"


class TraceError(Exception):
    """A history that is not whole, or of a kind that cannot be replayed."""


def history_of(snapshot):
    """The entries of the only device with any."""
    histories = [trace for trace in snapshot["device_traces"] if trace]
    if len(histories) != 1:
        raise TraceError(f"the history is of {len(histories)} devices, not of one")
    return histories[0]


def convert(snapshot, samples):
    """The events of a trace from memory._snapshot() and what memory_stats() said now and then.

    A sample is a dict with num_allocs and num_frees so far, which place it, and allocated, reserved, segments.
    """
    events = []
    ids = {}
    reserved = segments = 0
    streams = set()
    segment_bytes = {}
    for entry in history_of(snapshot):
        action, address, size = entry["action"], entry.get("addr"), entry["size"]
        streams.add(entry.get("stream", 0))
        if action == "alloc":
            if address in ids:
                raise TraceError(f"two live blocks at {address:#x}: the history has gaps")
            ids[address] = len(events)
            events.append(["alloc", ids[address], size, None, reserved, segments])
        elif action == "free_requested":
            if address not in ids:
                raise TraceError(f"a block at {address:#x} is freed that was not allocated: the history has gaps")
            events.append(["free", ids.pop(address), size, None, reserved, segments])
        elif action == "free_completed":
            pass  # with one stream at once
        elif action in ("segment_alloc", "segment_map"):
            reserved += size
            if action == "segment_alloc":
                segments += 1
                segment_bytes[address] = size
        elif action in ("segment_free", "segment_unmap"):
            if action == "segment_free" and segment_bytes.pop(address, None) != size:
                raise TraceError(f"a segment at {address:#x} is freed that was not allocated: the history has gaps")
            reserved -= size
            segments -= action == "segment_free"
            # One emptying of the cache frees several.
            if not events or events[-1][0] != "release_cached":
                events.append(["release_cached", -1, 0, None, 0, 0])
            events[-1][4:] = [reserved, segments]
        elif action == "oom":
            raise TraceError("the training ran out of memory")
        elif action != "snapshot":
            raise TraceError(f"unknown action {action}")
    if len(streams) > 1:
        raise TraceError(f"{len(streams)} streams: the replay knows one")
    place_samples(events, samples)
    return events


def place_samples(events, samples):
    """Fills in `allocated`, and checks what was summed up against what was sampled."""
    after = {(0, 0): None}  # by the numbers of allocs and frees: the last event before any further one
    num_allocs = num_frees = 0
    for index, event in enumerate(events):
        num_allocs += event[0] == "alloc"
        num_frees += event[0] == "free"
        after.setdefault((num_allocs, num_frees), index)
        if event[0] == "release_cached":
            after[num_allocs, num_frees, "released"] = index
    for sample in samples:
        key = (sample["num_allocs"], sample["num_frees"])
        if key not in after:
            raise TraceError(f"a sample after {key[0]} allocations and {key[1]} frees, where the history never was")
        places = [after[key], after.get((*key, "released"))]
        known = [events[index] for index in places if index is not None]
        if not known:
            continue
        fitting = [event for event in known if event[4:] == [sample["reserved"], sample["segments"]]]
        if not fitting:
            raise TraceError(f"after {key[0]} allocations and {key[1]} frees {sample['reserved']} bytes in "
                             f"{sample['segments']} segments were reserved, the history says {known[-1][4:]}")
        for event in known:  # giving the cache back does not change what is allocated
            event[3] = sample["allocated"]


def make_trace(name, expandable, capacity, recorded_with, snapshot, samples):
    return {"format": "allocator-trace", "version": 1, "name": name, "expandable_segments": expandable,
            "capacity": capacity, "recorded_with": recorded_with, "events": convert(snapshot, samples)}


def write_trace(path, trace):
    text = json.dumps(trace, separators=(",", ":"))
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as compressed:
        compressed.write(text.encode())


def build_model(torch, name):
    """The model and a function from a step's number to its inputs and labels; sizes change between steps."""
    nn = torch.nn
    device = "cuda"

    def images(shape, batches, classes):
        def batch(step):
            size = batches[step % len(batches)]
            return torch.randn(size, *shape, device=device), torch.randint(classes, (size,), device=device)
        return batch

    if name == "mlp":
        model = nn.Sequential(nn.Flatten(), nn.Linear(784, 2000), nn.ReLU(), nn.Linear(2000, 2000), nn.ReLU(),
                              nn.Linear(2000, 10))
        return model, images((1, 28, 28), (1024, 1024, 777), 10)
    if name == "cnn":
        model = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1),
                              nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25), nn.Flatten(),
                              nn.Linear(64 * 16 * 16, 128), nn.ReLU(), nn.Linear(128, 10))
        return model, images((3, 32, 32), (256, 256, 101), 10)
    if name == "resnet18":
        class Residual(nn.Module):
            def __init__(self, inner, outer, stride):
                super().__init__()
                self.body = nn.Sequential(
                    nn.Conv2d(inner, outer, 3, stride, 1, bias=False), nn.BatchNorm2d(outer), nn.ReLU(),
                    nn.Conv2d(outer, outer, 3, 1, 1, bias=False), nn.BatchNorm2d(outer))
                self.shortcut = nn.Identity() if stride == 1 and inner == outer else nn.Sequential(
                    nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

            def forward(self, x):
                return torch.relu(self.body(x) + self.shortcut(x))

        layers = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
        width = 64
        for outer, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)):
            layers.append(Residual(width, outer, stride))
            width = outer
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10)]
        return nn.Sequential(*layers), images((3, 32, 32), (128, 128, 61), 10)
    if name == "gpt":
        width, heads, vocabulary = 256, 4, 5000

        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
                self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
                self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

            def forward(self, x):
                batch, length, _ = x.shape
                q, k, v = (part.view(batch, length, heads, -1).transpose(1, 2)
                           for part in self.qkv(self.norm1(x)).split(width, 2))
                scores = (q @ k.transpose(-2, -1)) / (width // heads) ** 0.5
                mask = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
                mixed = scores.masked_fill(mask, float("-inf")).softmax(-1) @ v
                x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
                return x + self.mlp(self.norm2(x))

        class Gpt(nn.Module):
            def __init__(self):
                super().__init__()
                self.embedding = nn.Embedding(vocabulary, width)
                self.blocks = nn.Sequential(*(Block() for _ in range(4)))
                self.head = nn.Linear(width, vocabulary, bias=False)

            def forward(self, tokens):
                return self.head(self.blocks(self.embedding(tokens))).flatten(0, 1)

        def tokens(step):
            shape = (8, (128, 128, 93)[step % 3])
            return (torch.randint(vocabulary, shape, device=device),
                    torch.randint(vocabulary, (shape[0] * shape[1],), device=device))
        return Gpt(), tokens
    raise SystemExit(f"no model {name}; there are {', '.join(MODELS)}")


def sample_now(torch):
    statistics = torch.cuda.memory_stats()  # empty before the first allocation
    names = {"num_allocs": "allocation.all.allocated", "num_frees": "allocation.all.freed",
             "allocated": "allocated_bytes.all.current", "reserved": "reserved_bytes.all.current",
             "segments": "segment.all.current"}
    return {key: statistics.get(name, 0) for key, name in names.items()}


def record(name, expandable, num_steps, path):
    """Trains in this process and writes the trace."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    if not torch.cuda.is_available():
        raise SystemExit("PyTorch finds no GPU")
    samples = []

    class Sampling(TorchDispatchMode):
        """A sample after every operation."""

        def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
            result = function(*arguments, **(keywords or {}))
            samples.append(sample_now(torch))
            return result

    torch.cuda.init()
    torch.manual_seed(1)
    torch.cuda.memory._record_memory_history(enabled="all", context=None, stacks="python", max_entries=10_000_000)
    if torch.cuda.memory_stats().get("allocation.all.allocated", 0) != 0:
        raise TraceError("memory was allocated before the recording")
    with Sampling():
        model, batch = build_model(torch, name)
        model = model.to("cuda")
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        for step in range(num_steps):
            inputs, labels = batch(step)
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            samples.append(sample_now(torch))
            if step == num_steps // 2:
                torch.cuda.empty_cache()
    torch.cuda.synchronize()
    samples.append(sample_now(torch))
    snapshot = torch.cuda.memory._snapshot()
    properties = torch.cuda.get_device_properties(0)
    recorded_with = {"pytorch": torch.__version__, "cuda": torch.version.cuda, "gpu": properties.name}
    trace = make_trace(f"{name}{' with expandable segments' if expandable else ''}", expandable,
                       properties.total_memory, recorded_with, snapshot, samples)
    write_trace(path, trace)
    print(f"{path.name}: {len(trace['events'])} events, {path.stat().st_size} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "tests" / "memory" / "traces")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--record", choices=MODELS, help=argparse.SUPPRESS)  # in a process of its own
    parser.add_argument("--expandable", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.record:
        suffix = "_expandable" if arguments.expandable else ""
        try:
            record(arguments.record, arguments.expandable, arguments.steps,
                   arguments.out / f"{arguments.record}{suffix}.json.gz")
        except TraceError as error:
            raise SystemExit(f"{arguments.record}: {error}") from error
        return 0
    failed = []
    for model in arguments.models:
        for expandable in (False, True):
            command = [sys.executable, __file__, "--out", str(arguments.out), "--steps", str(arguments.steps),
                       "--record", model] + (["--expandable"] if expandable else [])
            environment = {**os.environ, ENVIRONMENT: f"expandable_segments:{expandable}"}
            if subprocess.run(command, env=environment, check=False).returncode != 0:
                failed.append(f"{model}{' (expandable)' if expandable else ''}")
    if failed:
        print("not recorded: " + ", ".join(failed), file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
