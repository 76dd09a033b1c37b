#!/usr/bin/env python3
"""Memory and time of predicting with ResNet-50 on the CPU: `trainer predict` beside eager PyTorch in inference_mode.

Both predict the same images with the same random weights, in f32 on all cores. Told are the peaks of what each program
asked its allocator for (parameters, the batch and all that ops hold: of PyTorch every allocation and release that its
profiler sees, of trainer the event at the end, which is the plan's), the resident peak above what importing takes, and
images a second. trainer is also told in smaller batches and in bf16, which PyTorch is not asked for. Prints a line of JSON
a side; --json keeps all of it. Runs itself by .venv/bin/python (scripts/python_env.sh) where this Python has no torchvision.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import interpreters

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXIT_SKIPPED = 77
SIDE, MEAN, STD = 224, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=32, metavar="N", help="images at once (32)")
    parser.add_argument("--batches", type=int, default=4, metavar="N", help="that are timed (4)")
    parser.add_argument("--smaller", type=int, nargs="*", default=[8, 1], metavar="N", help="trainer's other batches (8 1)")
    parser.add_argument("--trainer", default=str(ROOT / "build" / "release" / "trainer"), metavar="FILE", help="the program")
    parser.add_argument("--json", metavar="FILE", help="write every figure there")
    parser.add_argument("--part", nargs=2, help=argparse.SUPPRESS)  # of a process that this script starts, and its folder
    return parser.parse_args()


def peak_mib(who):
    return resource.getrusage(who).ru_maxrss / 1024


def save_inputs(options, folder):
    """Weights under torchvision's names, which are trainer's, and images of bytes."""
    import numpy
    import torch
    import torchvision
    from safetensors.torch import save_file
    torch.manual_seed(1)
    network = torchvision.models.resnet50()
    # Smaller than they start, so that no class is all of the probability.
    network.fc.weight.data.mul_(0.02)
    save_file({name: tensor for name, tensor in network.state_dict().items() if not name.endswith("num_batches_tracked")},
              folder / "weights.safetensors")
    generator = numpy.random.default_rng(1)
    numpy.save(folder / "images.npy",
               generator.integers(0, 256, (options.batch * options.batches, SIDE, SIDE, 3), dtype=numpy.uint8))
    return {"torch": torch.__version__, "torchvision": torchvision.__version__}


def torch_part(options, folder):
    """Its figures, and what it predicts of the first image."""
    import numpy
    import torch
    import torchvision
    from safetensors.torch import load_file
    imported = peak_mib(resource.RUSAGE_SELF)
    network = torchvision.models.resnet50()
    network.load_state_dict(load_file(folder / "weights.safetensors"), strict=False)
    network.eval()
    images = numpy.load(folder / "images.npy", mmap_mode="r")
    mean, std = (torch.tensor(values)[:, None, None] for values in (MEAN, STD))
    parameter_bytes = sum(tensor.numel() * tensor.element_size()
                          for tensor in network.state_dict().values() if tensor.dtype == torch.float32)

    def predict(first):
        batch = torch.from_numpy(numpy.ascontiguousarray(images[first:first + options.batch]))
        # Not counted to its disadvantage: normalised in place.
        pixels = batch.permute(0, 3, 1, 2).float().div_(255).sub_(mean).div_(std)
        del batch
        return network(pixels).softmax(1)
    with torch.inference_mode():
        predict(0)  # what the first call prepares
        begin = time.perf_counter()
        for first in range(0, len(images), options.batch):
            probabilities = predict(first)
        seconds = time.perf_counter() - begin
        resident = peak_mib(resource.RUSAGE_SELF) - imported
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
            probabilities = predict(0)
        profiler.export_chrome_trace(str(folder / "trace.json"))
    events = [event for event in json.loads((folder / "trace.json").read_text(encoding="utf-8"))["traceEvents"]
              if event.get("name") == "[memory]"]
    held = highest = 0
    for event in sorted(events, key=lambda event: event["ts"]):
        held += event["args"]["Bytes"]
        highest = max(highest, held)
    return {"batch": options.batch, "peak_requested": parameter_bytes + highest, "parameter_bytes": parameter_bytes,
            "images_per_second": len(images) / seconds, "resident_mib": resident, "first": probabilities[0, :8].tolist()}


def trainer_part(options, folder, batch, *overrides):
    exported = folder / "exported"
    if not exported.exists():
        (folder / "resnet50.json").write_text(json.dumps({  # which YAML is, too
            "name": "resnet50", "device": {"type": "cpu"},
            "data": {"type": "synthetic", "shape": [SIDE, SIDE, 3], "classes": 1000, "samples": 64,
                     "normalize": {"mean": MEAN, "std": STD}},
            "model": {"file": str(ROOT / "configs" / "models" / "resnet.yaml"), "with": {"depth": 50}}}), encoding="utf-8")
        subprocess.run([options.trainer, "export", folder / "resnet50.json", "--weights", folder / "weights.safetensors",
                        "--to", exported, "-q"], check=True)
    idle = os.wait4(subprocess.Popen([options.trainer, "--version"], stdout=subprocess.DEVNULL).pid, 0)[2].ru_maxrss / 1024
    process = subprocess.Popen([options.trainer, "predict", exported, folder / "images.npy", "--json", "-q", "--batch",
                                str(batch), *overrides], stdout=subprocess.PIPE, text=True)
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        sys.exit(f"bench_predict: trainer predict ended with {os.waitstatus_to_exitcode(status)}")
    events = [json.loads(line) for line in out.splitlines()]
    planned = json.loads(subprocess.run([options.trainer, "plan", exported, "--predict", str(batch), "--json", *overrides],
                                        check=True, stdout=subprocess.PIPE, text=True).stdout)
    end = events[-1]
    return {"batch": batch, "peak_requested": end["memory"]["peak_requested"],
            "peak_reserved": end["memory"]["peak_reserved"], "planned_peak_requested": planned["peak_requested"],
            "planned_peak_reserved": planned["peak_reserved"], "parameter_bytes": end["parameter_bytes"],
            "images_per_second": end["inputs_per_second"], "resident_mib": usage.ru_maxrss / 1024 - idle,
            "first": [events[0]["probabilities"][str(index)] for index in range(8)]}


def ask_part(part, options, folder):
    """What a process of its own prints: a child's peak is never below that of the process which started it."""
    words = [sys.executable, __file__, "--part", part, folder, "--batch", str(options.batch), "--batches",
             str(options.batches)]
    return json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)


def main():
    options = parsed()
    if any(importlib.util.find_spec(name) is None for name in ("torchvision", "safetensors")):
        interpreters.go_on_in_environment()
        print("skipped: torchvision is not installed; scripts/python_env.sh installs it", file=sys.stderr)
        return EXIT_SKIPPED
    if options.part:
        part = {"inputs": save_inputs, "torch": torch_part}[options.part[0]]
        print(json.dumps(part(options, pathlib.Path(options.part[1]))))
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        versions = ask_part("inputs", options, name)
        sides = {"torch": ask_part("torch", options, name)}
        sides["trainer"] = trainer_part(options, folder, options.batch)
        sides["trainer, bf16"] = trainer_part(options, folder, options.batch, "train.amp=bf16")
        for batch in options.smaller:
            sides[f"trainer, batches of {batch}"] = trainer_part(options, folder, batch)
    for side, figures in sides.items():
        print(json.dumps({"side": side, **figures}))
    farthest = max(abs(ours - theirs) for ours, theirs in zip(sides["trainer"]["first"], sides["torch"]["first"]))
    report = {"batch": options.batch, "num_cpus": os.cpu_count(), "load": os.getloadavg(), **versions,
              "farthest_probability": farthest, "sides": sides,
              "peak_requested_over_torch": {side: figures["peak_requested"] / sides["torch"]["peak_requested"]
                                            for side, figures in sides.items()}}
    print(json.dumps({"peak_requested_over_torch": report["peak_requested_over_torch"], "farthest_probability": farthest}))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
