#!/usr/bin/env python3
"""Measures how long trainer takes to plan: ResNet-18, ResNet-50 on all GPUs, transformers at the ends of batches and
lengths, a program of 10,000 ops, the largest batch and the largest depth of 100 layers, and the fixes of a run that does
not fit. Nothing runs, and no GPU is needed.

The figure is the user CPU time of the whole command, start-up included: the median of some runs, so that a busy machine
matters little. What cuDNN answers is kept in a folder that goes with the script, so each command's first run, which is
not counted, asks, and the others know; "cold" ones ask each time. Ends with 1 where a goal is missed.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from trainer_events import EXIT_DOES_NOT_FIT, ROOT, measured_trainer

RESNET = "configs/cifar10_resnet18.yaml"
RESNET50 = "configs/bench/resnet50.yaml"
GPT2, LLAMA, VIT = (f"configs/memory/{name}.yaml" for name in ("gpt2", "llama", "vit_b"))
# Names, and words behind `plan --gpu b200`: no fixes are looked for there.
TRANSFORMERS = {
    "GPT-2 124M, 64 of 1,024 tokens": [GPT2, "train.batch_size=64"],
    "GPT-2 1558M, 64 of 1,024 tokens, 8-bit moments": [GPT2, "model.with.size=1558M", "train.batch_size=64",
                                                       "memory.moments=8bit", "train.checkpointing=sqrt"],
    "GPT-2 1558M, 32,768 tokens": [GPT2, "model.with={size: 1558M, length: 32768}", "data.sequence_length=32768",
                                   "train.batch_size=1", "train.checkpointing=sqrt"],
    "Llama 1B, 32,768 tokens": [LLAMA, "data.sequence_length=32768", "train.batch_size=1", "train.checkpointing=sqrt"],
    "ViT-B, 64 images": [VIT, "train.batch_size=64"],
}

MLP = """name: mlp
data: {{type: synthetic, shape: [784], classes: 10, samples: 60000, validation_samples: 10000}}
model:
  layers:
    - flatten
    - repeat: {{times: {times}, layers: [{{linear: {{out: {width}}}}}, relu]}}
    - linear: {{out: 10}}
optimizer: {{type: sgd, lr: 0.1, momentum: 0.9}}
train: {{batch_size: 32}}
"""


def measurements(folder):
    """Name, words after `trainer`, exit codes that are answers, goal in seconds (None: there is none). A name that ends
    with "cold" is of a command that asks cuDNN everything."""
    long, deep = folder / "long.yaml", folder / "deep.yaml"
    long.write_text(MLP.format(times=2500, width=50))
    deep.write_text(MLP.format(times=100, width=500))
    gpu = ["--gpu", "rtx3060-12gb"]
    yield "plan, ResNet-18", ["plan", RESNET], (0, EXIT_DOES_NOT_FIT), 0.05
    yield "plan, ResNet-18, described GPU", ["plan", RESNET, *gpu], (0, EXIT_DOES_NOT_FIT), None
    yield "plan, ResNet-50, all described GPUs", ["plan", RESNET50, "--gpu", "all"], (0, EXIT_DOES_NOT_FIT), 1.0
    yield "plan, ResNet-50, all described GPUs, cold", ["plan", RESNET50, "--gpu", "all"], (0, EXIT_DOES_NOT_FIT), 1.0
    for name, words in TRANSFORMERS.items():
        yield f"plan, {name}", ["plan", *words, "train.amp=bf16", "--gpu", "b200"], (0, EXIT_DOES_NOT_FIT), 0.3
    yield "plan, more than 10,000 ops", ["plan", long], (0, EXIT_DOES_NOT_FIT), 1.0
    yield "largest batch, 100 layers", ["fit", deep, "--max", "train.batch_size", "--capacity", "4GiB"], (0,), 1.0
    yield "largest batch, 100 layers, described GPU", ["fit", deep, "--max", "train.batch_size", *gpu], (0,), 1.0
    yield "largest batch, ResNet-18, described GPU", ["fit", RESNET, "--max", "train.batch_size", *gpu], (0,), 2.0
    yield "largest batch, ResNet-50, described GPU", ["fit", RESNET50, "--max", "train.batch_size", *gpu], (0,), 2.0
    yield "largest batch, ResNet-50, described GPU, cold", ["fit", RESNET50, "--max", "train.batch_size", *gpu], (0,), None
    yield "largest depth, 100 layers", ["fit", deep, "--max", "model.layers.1.repeat.times", "--capacity", "400MiB"], \
        (0,), 1.0
    yield "plan with fixes, ResNet-18", ["plan", RESNET, "--capacity", "400MiB"], (EXIT_DOES_NOT_FIT,), None


def user_seconds(trainer, words, accept, environment):
    """User CPU time of one command. A command that ends otherwise than expected ends the script."""
    before = os.times().children_user
    result = subprocess.run([str(trainer.binary), *map(str, words), "--json"], cwd=ROOT, stdin=subprocess.DEVNULL,
                            capture_output=True, text=True, check=False,
                            env={"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive", **os.environ, **environment})
    if result.returncode not in accept:
        sys.exit(f"bench_plan: trainer {' '.join(map(str, words))} ended with {result.returncode}:\n{result.stderr}")
    return os.times().children_user - before


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="the figures as JSON")
    arguments, trainer = measured_trainer(parser, 5, "command")
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        for name, words, accept, goal in measurements(pathlib.Path(folder)):
            environment = {"XDG_CACHE_HOME": folder}
            if name.endswith("cold"):
                environment["TRAINER_SCRATCH_CACHE"] = "off"
            # The first one may build, and reads files for the others.
            user_seconds(trainer, words, accept, environment)
            seconds = statistics.median(user_seconds(trainer, words, accept, environment)
                                        for _ in range(arguments.runs))
            figures.append({"name": name, "user_seconds": round(seconds, 4), "goal_seconds": goal})
            if not arguments.json:
                reached = "" if goal is None else f"   goal {goal * 1000:5.0f} ms" + ("" if seconds < goal else ", MISSED")
                print(f"{name:42} {seconds * 1000:7.0f} ms{reached}", flush=True)
    if arguments.json:
        print(json.dumps(figures, indent=1))
    return any(figure["goal_seconds"] is not None and figure["user_seconds"] >= figure["goal_seconds"]
               for figure in figures)


if __name__ == "__main__":
    sys.exit(main())
