#!/usr/bin/env python3
"""scripts/predict_gpu.py [--gpu h200] [--json FILE] [--set KEY=VALUE …]: what speed and memory beside PyTorch are to be expected on a GPU that
nobody has run, and whether that meets the goals of bench_gpu.py.

Predictions: nothing runs. trainer's side is its own program, read from `trainer plan --gpu` (calls, FLOPs, bytes, peak of
memory) and from the launches that its kernels make for these shapes (tests/cuda/step_launches.h, counted on the host);
PyTorch's are its documented kernels (predict_gpu_pytorch.py). Both run at the same rates: products as long as
trainer's, bytes at the share of the bandwidth that streams reach, and each kernel a start. So ratios say what differs:
passes over memory, launches, and what the host does. What kernels reach of these rates is not predicted.
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys

from bench_gpu_networks import MEMORY_GOAL, NETWORKS, PRECISIONS
from predict_gpu_pytorch import elements, kernels_of, reserved_bytes
from pytorch_saved_tensors import describe, saved_tensors_of
from trainer_events import ROOT, Trainer, TrainerFailed, field

MARKS = ("<!-- scripts/predict_gpu.py --readme -->", "<!-- the end of it -->")
PREDICTED = ("mlp_small", "resnet18")
# Assumed for both sides alike, each with its origin.
ASSUMED = {
    "share_of_bandwidth": (0.9, "4.3 of 4.8 TB/s, as engine/plan/machine_rates.h takes it"),
    "start_of_a_kernel_in_a_graph": (2e-6, "engine/plan/machine_rates.h"),
    "host_of_trainers_step": (10e-6, "engine/plan/machine_rates.h; beside the GPU where a step is longer"),
    "host_of_an_eager_op": (8.6e-6, "an indexing op in pytorch/pytorch issue 114860; least of what is published"),
    "host_of_a_compiled_kernel": (5e-6, "a launch through the driver, 4 to 6 µs"),
    "host_of_a_compiled_call": (176e-6, "guards and dispatch, pytorch/pytorch issue 150488"),
    "host_of_a_graphed_call": (27e-6, "pytorch/pytorch issue 114860; in issue 150488 it is 128 and a launch of 41"),
}


def assumed(name):
    return ASSUMED[name][0]


def words_of(name, precision, overrides):
    network, settings = NETWORKS[name], PRECISIONS[precision]
    channels, rows, columns = network["shape"]
    samples = network["num_batches"] * network["batch"]
    return [network["config"], f"device={{type: cuda, tf32: {str(settings['tf32']).lower()}}}",
            f"data={{type: synthetic, shape: [{rows}, {columns}, {channels}], classes: 10, samples: {samples}}}",
            f"train.batch_size={network['batch']}", f"train.amp={settings['amp']}",
            f"optimizer={{type: sgd, lr: {network['lr']}, momentum: 0.9}}", *network["overrides"], *overrides]


def count_launches(program, words):
    """By kind of op: kernels of its own and calls into libraries, in a step."""
    result = subprocess.run([str(program), "[.step_launches]"], cwd=ROOT, capture_output=True, text=True, check=False,
                            env={**os.environ, "TRAINER_STEP_LAUNCHES": "\n".join(words)})
    found = re.search(r"^\{.*\}$", result.stdout, re.MULTILINE)
    if result.returncode != 0 or not found:
        raise TrainerFailed(f"{program} counts no launches:\n{result.stdout[-2000:]}{result.stderr[-500:]}")
    return json.loads(found.group())


def commit_of():
    """The source that was asked, as far as it is known."""
    found = subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=12"], cwd=ROOT, capture_output=True, text=True,
                           check=False)
    return found.stdout.strip() or None


def is_product(op):
    return op["op"].startswith(("linear", "conv2d"))


def moved_bytes(op):
    """By a call: each operand once, and what the contracts in cuda/kernels/*.h say of the ops that move more."""
    num_bytes, kind = op["input_bytes"] + op["output_bytes"], op["op"]
    if kind in ("sgd_update", "adam_update"):
        return num_bytes * 5 / 3  # writes what it reads, but for the gradients
    # Batch norm takes sums first, unless they are given. Forward then reads x again, which is as large as the output.
    if kind == "batchnorm2d" and not op["statistics"]:
        return num_bytes + op["output_bytes"]
    # Backward reads two again, x and dy or the addend's gradient. It has one input of their size more than outputs.
    if kind == "batchnorm2d_backward":
        return num_bytes + 2 * (op["input_bytes"] - op["output_bytes"])
    return num_bytes


def product_seconds(plan):
    """Of all products, as trainer predicts them, without the starts of their kernels."""
    start = assumed("start_of_a_kernel_in_a_graph")
    return sum(op["calls"] * (op["predicted_seconds"] - start) for op in plan["ops"] if is_product(op))


def num_products(plan):
    return sum(op["calls"] for op in plan["ops"] if is_product(op))


def predict_trainer(plan, launches, bandwidth):
    kernels = sum(counts["kernels"] for counts in launches.values())
    calls = sum(counts["library_calls"] for counts in launches.values())
    num_bytes = sum(op["calls"] * moved_bytes(op) for op in plan["ops"] if not is_product(op))
    starts = kernels + calls + 1  # and the one that a step begins with
    gpu = product_seconds(plan) + num_bytes / bandwidth + starts * assumed("start_of_a_kernel_in_a_graph")
    return {"seconds": max(gpu, assumed("host_of_trainers_step")), "product_seconds": product_seconds(plan),
            "other_bytes": num_bytes, "kernels": kernels + 1, "library_calls": calls, "launches": launches,
            "reserved": plan["peak_reserved"]}


def predict_pytorch(plan, layers, precision, bandwidth):
    """Seconds of a step by mode."""
    half, fp16 = PRECISIONS[precision]["amp"] != "off", precision == "fp16"
    start, products = assumed("start_of_a_kernel_in_a_graph"), num_products(plan)
    modes = {}
    for compiled in (False, True):
        kernels = kernels_of(layers, half, fp16, compiled)
        starts = len(kernels) + products
        on_gpu = product_seconds(plan) + sum(kernels) / bandwidth + starts * start
        figures = {"product_seconds": product_seconds(plan), "other_bytes": sum(kernels), "kernels": starts}
        # Whole steps in one graph: two copies into its inputs before each.
        captured = max(on_gpu + 2 * start, 3 * assumed("host_of_an_eager_op"))
        modes["compile captured" if compiled else "captured"] = {**figures, "seconds": captured}
        if compiled:
            # Forward and backward are two calls; the optimizer runs op by op.
            calls = 2 * assumed("host_of_a_compiled_call") + assumed("host_of_an_eager_op")
            modes["compile"] = {**figures, "seconds": max(on_gpu, starts * assumed("host_of_a_compiled_kernel") + calls)}
            graphs = 2 * assumed("host_of_a_graphed_call") + assumed("host_of_an_eager_op")
            modes["compile graphs"] = {**figures, "seconds": max(on_gpu, graphs)}
        else:
            modes["eager"] = {**figures, "seconds": max(on_gpu, starts * assumed("host_of_an_eager_op"))}
    return modes


def predict(name, precision, trainer, options):
    words, gpu = words_of(name, precision, options.set), options.gpu
    plan = trainer.plan(*words, "--gpu", gpu)
    field(plan, "ops")
    # What describes the network needs no GPU.
    on_cpu = [word for word in words if not word.startswith("device=")] + ["device={type: cpu}", "train.amp=off"]
    layers = [layer for layer in trainer.summary(*on_cpu)["layers"] if layer["layer"] != "loss"]
    saved = sum(item.bytes for item in saved_tensors_of(describe(trainer, on_cpu)))
    profile = (ROOT / "configs" / "gpus" / f"{gpu}.yaml").read_text(encoding="utf-8")
    bandwidth = float(re.search(r"bandwidth: (\d+)GB", profile).group(1)) * 1e9 * assumed("share_of_bandwidth")
    parameters = sum(layer["parameters"] for layer in layers)
    largest = max(elements(layer["output"]) for layer in layers)
    return {"batch": NETWORKS[name]["batch"],
            "trainer": predict_trainer(plan, count_launches(options.counter, words), bandwidth),
            "pytorch": predict_pytorch(plan, layers, precision, bandwidth),
            "pytorch_reserved_at_least": reserved_bytes(saved, largest, parameters,
                                                        PRECISIONS[precision]["amp"] != "off"),
            "planned_reserved": trainer.plan(*words, "memory.allocator=planned", "--gpu", gpu)["peak_reserved"]}


def goals_of(networks):
    """What the goals ask for, what is predicted, and whether that meets them."""
    kinds = {"compiled with graphs": ("compile graphs", "compile captured"), "compiled": ("compile",),
             "eager": ("eager",)}
    goals = []
    for name, precisions in networks.items():
        for precision, figures in precisions.items():
            for kind, goal in NETWORKS[name]["goals"].get(precision, {}).items():
                for mode in kinds[kind]:
                    value = figures["pytorch"][mode]["seconds"] / figures["trainer"]["seconds"]
                    goals.append({"network": name, "precision": precision, "goal": f"≥ {goal}× {mode}", "predicted": value,
                                  "met": value >= goal})
            for what, key in (("as it is", None), ("memory.allocator=planned", "planned_reserved")):
                own = figures[key] if key else figures["trainer"]["reserved"]
                value = own / figures["pytorch_reserved_at_least"]
                goals.append({"network": name, "precision": precision, "goal": f"≤ {MEMORY_GOAL}× reserved, {what}",
                              "predicted": value, "met": value <= MEMORY_GOAL})
    goals.append({"network": "own memory-bound kernels", "precision": "all", "goal": "≥ 85 % of 4.3 TB/s from 64 MiB",
                  "predicted": None, "met": None, "why": "a kernel's share of the bandwidth does not follow from its bytes"})
    return goals


MODES = ("eager", "captured", "compile", "compile graphs", "compile captured")


def table_of(report):
    """trainer's speed over each mode of PyTorch, and its memory."""
    lines = ["| network, precision | a step | kernels, PyTorch's | over eager | captured | compile | compile, graphs "
             "| compile, captured | reserved | `planned` |", "|---|---|---|---|---|---|---|---|---|---|"]
    for name, precisions in report["networks"].items():
        for precision, figures in precisions.items():
            own, peers = figures["trainer"], figures["pytorch"]
            kernels = f"{own['kernels'] + own['library_calls']:.0f}, {peers['eager']['kernels']:.0f} to " \
                      f"{peers['compile']['kernels']:.0f}"
            speeds = " | ".join(f"{peers[mode]['seconds'] / own['seconds']:.2f}×" for mode in MODES)
            memory = " | ".join(f"{reserved / figures['pytorch_reserved_at_least']:.2f}×"
                                for reserved in (own["reserved"], figures["planned_reserved"]))
            lines.append(f"| {name}, {precision} | {own['seconds'] * 1e6:,.0f} µs | {kernels} | {speeds} | {memory} |")
    return lines


def verdicts_of(goals):
    """A line for each goal of a network, over its precisions."""
    together = {}
    for goal in goals:
        together.setdefault((goal["network"], goal["goal"]), []).append(goal)
    lines = []
    for (network, what), alike in together.items():
        values = [goal["predicted"] for goal in alike if goal["predicted"] is not None]
        met = [goal["precision"] for goal in alike if goal["met"]]
        if not values:
            lines.append(f"- {network}, {what}: not predicted, {alike[0]['why']}")
            continue
        span = f"{min(values):.2f} to {max(values):.2f}×"
        verdict = "met" if len(met) == len(alike) else f"met in {', '.join(met)} only" if met else "not met"
        lines.append(f"- {network}, {what}, in {', '.join(goal['precision'] for goal in alike)}: {span}: {verdict}")
    return lines


def renew_readme(lines):
    """Puts them between the two marks."""
    path = ROOT / "engine" / "README.md"
    before, rest = path.read_text(encoding="utf-8").split(MARKS[0], 1)
    _, after = rest.split(MARKS[1], 1)
    path.write_text(before + "\n".join([MARKS[0], *lines, MARKS[1]]) + after, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", default="h200", help="a profile of configs/gpus/")
    parser.add_argument("--trainer", default=str(ROOT / "build" / "release" / "trainer"))
    parser.add_argument("--counter", default=str(ROOT / "build" / "release" / "tests" / "test_cuda"),
                        help="the test program that counts launches")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="overrides of trainer's settings")
    parser.add_argument("--json", type=pathlib.Path, help="where the predictions go; else scripts/results/")
    parser.add_argument("--readme", action="store_true", help="renews the table in engine/README.md")
    options = parser.parse_args()
    trainer = Trainer(options.trainer)
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    report = {"kind": "prediction", "note": "Nothing ran on a GPU: computed from bytes, FLOPs and launches.", "date": now,
              "commit": commit_of(), "set": options.set, "gpu": options.gpu, "assumed": {name: {"value": value, "from": origin}
                                              for name, (value, origin) in ASSUMED.items()}}
    try:
        report["networks"] = {name: {precision: predict(name, precision, trainer, options)
                                     for precision in PRECISIONS} for name in PREDICTED}
    except TrainerFailed as failure:
        sys.exit(f"predict_gpu: {failure}")
    report["goals"] = goals_of(report["networks"])
    print("Predicted, not measured: nothing has run on a GPU.\n")
    lines = [*table_of(report), "", *verdicts_of(report["goals"])]
    print("\n".join(lines))
    if options.readme:
        renew_readme(lines)
    path = options.json or ROOT / "scripts" / "results" / f"gpu_prediction_{now[:10]}.json"
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(f"\nwritten to {path}")


if __name__ == "__main__":
    main()
