#!/usr/bin/env python3
"""Compares the memory that trainer plans with what PyTorch's rules keep; see bench_memory.sh.

Everything of trainer is read from `trainer plan`, which is exact, so nothing runs and the machine may be busy. What
PyTorch keeps is counted by pytorch_saved_tensors.py, and measured as well where .venv/ has PyTorch.
"""
import argparse
import datetime
import json
import pathlib
import subprocess
import sys

from pytorch_saved_tensors import NotWrittenDown, describe, measure, measure_transformer, saved_tensors_of
from trainer_events import EXIT_REFUSED, ROOT, Trainer, TrainerFailed, field

MIB = 2**20
# Larger than any machine: what is planned is what the run would take, not what it would do about too little.
NO_BOUND = ["--capacity", "1TiB"]

# At default settings: the most that trainer may keep, as a share of what PyTorch keeps.
ACTIVATION_GOAL = 0.6
MODELS = {"ResNet-18": ("configs/cifar10_resnet18.yaml", ACTIVATION_GOAL),
          "ResNet-50": ("configs/memory/resnet50.yaml", 0.55),
          "MobileNetV2": ("configs/memory/mobilenetv2.yaml", 0.55),
          "U-Net of 64 channels, 256×256": ("configs/memory/unet.yaml", ACTIVATION_GOAL),
          "MLP of 12, ReLU": ("configs/memory/mlp.yaml", ACTIVATION_GOAL),
          "MLP of 12, GELU and layer norm": ("configs/memory/mlp_gelu.yaml", ACTIVATION_GOAL),
          "CNN": ("configs/memory/cnn.yaml", None)}

# With checkpointing: auto: so much less than PyTorch keeps, at no more than this share of the step's FLOPs again.
REDUCTION_GOAL, FLOPS_GOAL = 5.0, 0.2
# The batches are large, so that activations are most of a step's peak; nothing runs.
CHAINS = {"64 × linear, layer norm, GELU": ("configs/memory/norm_chain.yaml", 8192),
          "32 × residual (layer norm, linear, GELU, linear)": ("configs/memory/residual_mlp.yaml", 8192),
          "32 × convolution, batch norm, ReLU": ("configs/memory/conv_chain.yaml", 512),
          "ResNet-18": ("configs/cifar10_resnet18.yaml", 1024)}
SHARES = (1 / 2, 1 / 5, 1 / 10)
NUM_BISECTIONS = 12

# Transformers: what PyTorch keeps is what it saves over fake tensors (pytorch_transformers.py). At default settings at most
# this share of that; and where at most so much of a step's FLOPs is done again.
TRANSFORMERS = {"GPT-2 of 124M, 1,024 tokens": ("configs/memory/gpt2.yaml", "gpt2_124m"),
                "ViT-B, 224×224": ("configs/memory/vit_b.yaml", "vit_b_16")}
RECOMPUTED_GOAL, RECOMPUTED_FLOPS_GOAL = 0.35, 0.1

# With a budget of half the default peak of a step: U-Net at 512², at no more than this share of its FLOPs again.
HALF_GOAL = 0.25
U_NET = ["configs/memory/unet.yaml", "data.shape=[512, 512, 3]", "data.target_shape=[512, 512]", "train.batch_size=16",
         "optimizer={type: sgd, lr: 0.01, momentum: 0.99}", "memory.allocator=planned"]
HALVED_ON, HALVED_IN = (None, "rtx3090", "h200"), {"f32": "off", "bf16": "bf16"}

# Bytes a parameter for AdamW: parameters, gradients and optimizer state.
ADAMW_MODEL = "configs/memory/mlp.yaml"
SIXTEEN_BIT = ["train.amp=bf16", "memory.moments=8bit", "memory.master_weights=false", "memory.gradients=16bit"]
ADAMW = {"f32": ([], None),
         "bf16, 8-bit moments, no master weights": (SIXTEEN_BIT, 7.0),
         "the same, updated in the backward pass": ([*SIXTEEN_BIT, "memory.update=in_backward"], 5.0)}


class Planner:
    """Plans for the CPU, or for a GPU that is only described."""

    def __init__(self, trainer, gpu):
        self.trainer = trainer
        self.device = ["--gpu", gpu, "device=auto"] if gpu else ["device=cpu"]

    def plan(self, config, *words):
        return self.trainer.plan(config, *self.device, *words)


def category_peak(plan, category):
    """The most bytes of a category within the step with the peak."""
    return field(plan, "category_peaks")[category]


def recomputed_share(plan):
    """The FLOPs computed again, as a share of those that would do."""
    recomputed = field(plan, "recompute_flops")
    return recomputed / (field(plan, "step_flops") - recomputed)


# What each part of the report measures: a list of rows.


def compare_activations(planner):
    rows = []
    for name, (config, goal) in MODELS.items():
        description = describe(planner.trainer, [config])
        tensors = saved_tensors_of(description)
        saved = sum(item.bytes for item in tensors)
        measured = measure(description)
        plan = planner.plan(config, *NO_BOUND)
        activations = category_peak(plan, "activation")
        rows.append({"model": name, "config": config, "batch_size": description["input_shape"][0],
                     "pytorch_bytes": saved, "pytorch_measured_bytes": measured and measured["saved_bytes"],
                     "pytorch_gpu": measured and measured["gpu"],
                     "floor_ratio": sum(item.bytes for item in tensors if not item.derivable) / saved,
                     "trainer_bytes": activations,
                     "peak_allocated": plan["peak_allocated"], "ratio": activations / saved, "goal": goal,
                     "recomputed_share": recomputed_share(plan)})
    return rows


def outcome(plan):
    return {"fits": plan["fits"], "activation_bytes": category_peak(plan, "activation"),
            "peak_allocated": plan["peak_allocated"], "recomputed_share": recomputed_share(plan)}


def plan_budget(planner, model, budget):
    """What a step within the budget takes; None where there is none. That the model can be planned has been seen."""
    try:
        return outcome(planner.plan(*model, f"train.checkpointing={{budget: {budget}}}", *NO_BOUND))
    except TrainerFailed as failure:
        if failure.exit_code != EXIT_REFUSED:
            raise
        return None


def plan_within(planner, model, capacity):
    """What `auto` makes of a capacity."""
    if plan_budget(planner, model, capacity) is None:  # and a plan of that would look for changes that fit, for minutes
        return {"capacity": capacity, "fits": False}
    return {"capacity": capacity, **outcome(planner.plan(*model, "train.checkpointing=auto", f"memory.limit={capacity}"))}


def least_within_goal(planner, model, low, high, flops_goal=FLOPS_GOAL):
    """The least activation bytes that cost no more than the goal, by bisection of the budget; None where none does."""
    best = None
    for _ in range(NUM_BISECTIONS):
        middle = (low + high) // 2
        found = plan_budget(planner, model, middle)
        if found and found["recomputed_share"] <= flops_goal:
            if best is None or found["activation_bytes"] < best["activation_bytes"]:
                best = {"budget": middle, **found}
            high = middle
        else:
            low = middle
    return best


def compare_checkpointing(planner):
    rows = []
    for name, (config, batch_size) in CHAINS.items():
        model = [config, f"train.batch_size={batch_size}", f"data.samples={max(batch_size, 50000)}",
                 "memory.allocator=planned"]
        saved = sum(item.bytes for item in saved_tensors_of(describe(planner.trainer, model)))
        plan = planner.plan(*model, "train.checkpointing={budget: 1TiB}", *NO_BOUND)
        activations = category_peak(plan, "activation")
        rest = plan["peak_allocated"] - field(plan, "by_category")["activation"]
        points = [{"share": share, **plan_within(planner, model, rest + round(share * saved))} for share in SHARES]
        best = least_within_goal(planner, model, rest, rest + max(saved, activations))
        rows.append({"model": name, "config": config, "batch_size": batch_size, "pytorch_bytes": saved,
                     "trainer_bytes": activations, "default_recomputed_share": recomputed_share(plan),
                     "rest_bytes": rest, "points": points, "best": best,
                     "reduction": best and saved / best["activation_bytes"], "goal": REDUCTION_GOAL})
    return rows


def compare_transformers(planner):
    rows = []
    for name, (config, model_name) in TRANSFORMERS.items():
        model = [config, "memory.allocator=planned"]
        plan = planner.plan(*model, *NO_BOUND)
        measured = measure_transformer(model_name, field(plan, "batch_size"))
        if not measured:
            raise TrainerFailed("there is no .venv/ with PyTorch: scripts/python_env.sh makes it")
        num_parameters = field(planner.trainer.summary(config), "parameters")
        if measured["parameters"] != num_parameters:
            raise TrainerFailed(f"PyTorch's {model_name} has {measured['parameters']} parameters, trainer's {num_parameters}")
        saved, activations = measured["saved_bytes"], category_peak(plan, "activation")
        rest = plan["peak_allocated"] - field(plan, "by_category")["activation"]
        best = least_within_goal(planner, model, rest, plan["peak_allocated"], RECOMPUTED_FLOPS_GOAL)
        rows.append({"model": name, "config": config, "batch_size": field(plan, "batch_size"), "torch": measured["torch"],
                     "pytorch_bytes": saved, "trainer_bytes": activations, "ratio": activations / saved,
                     "recomputed_share": recomputed_share(plan), "goal": ACTIVATION_GOAL, "best": best,
                     "best_ratio": best and best["activation_bytes"] / saved, "best_goal": RECOMPUTED_GOAL})
    return rows


def compare_halved(planner):
    rows = []
    for gpu in HALVED_ON:
        here = Planner(planner.trainer, gpu)
        for precision, amp in HALVED_IN.items():
            model = [*U_NET, f"train.amp={amp}"]
            default = outcome(here.plan(*model, *NO_BOUND))
            rows.append({"model": "U-Net at 512²", "words": model, "device": gpu or "cpu", "precision": precision,
                         "default": default, "half": plan_budget(here, model, default["peak_allocated"] // 2),
                         "goal": HALF_GOAL})
    return rows


def compare_adamw(planner):
    num_parameters = field(planner.trainer.summary(ADAMW_MODEL), "parameters")
    rows = []
    for name, (overrides, goal) in ADAMW.items():
        plan = planner.plan(ADAMW_MODEL, "optimizer={type: adamw, lr: 0.001}", *overrides, *NO_BOUND)
        held = {category: category_peak(plan, category) / num_parameters
                for category in ("parameter", "gradient", "optimizer_state")}
        rows.append({"name": name, "overrides": overrides, "parameters": num_parameters, "bytes": held,
                     "total": sum(held.values()), "goal": goal})
    return rows


# How each is shown.


def verdict(is_met):
    return "met" if is_met else "not met"


def print_activations(rows):
    print("Activations at default settings: the peak of a step beside what PyTorch saves for backward")
    print(f"  {'':32}{'batch':>6}{'PyTorch MiB':>13}{'measured':>10}{'trainer MiB':>13}{'ratio':>8}{'floor':>8}{'again':>8}  goal")
    for row in rows:
        measured = row["pytorch_measured_bytes"]
        agrees = "no .venv/" if measured is None else "the same" if measured == row["pytorch_bytes"] else "DIFFERS"
        goal = f"≤ {row['goal']}: {verdict(row['ratio'] <= row['goal'])}" if row["goal"] else ""
        print(f"  {row['model']:32}{row['batch_size']:6}{row['pytorch_bytes'] / MIB:13.1f}{agrees:>10}"
              f"{row['trainer_bytes'] / MIB:13.1f}{row['ratio']:8.3f}"
              f"{row['floor_ratio']:8.3f}{row['recomputed_share']:8.1%}  {goal}")
    print("  floor: the share of PyTorch's that norms, activations, dropout, pooling and sums do not make again from the rest;\n"
          "  below it lie only 16 bits, products computed again, and the smaller parts of a concatenation. again: FLOPs computed again, of the step's")
    gpus = {row["pytorch_gpu"]["name"] for row in rows if row["pytorch_gpu"]}
    if not gpus - {None}:
        print("  PyTorch's measured peak: SKIPPED, there is no GPU that it sees")
        return
    print("  Peak of a whole step in allocated bytes, PyTorch's measured on " + ", ".join(sorted(gpus)))
    for row in rows:
        peak = row["pytorch_gpu"]["peak_bytes"]
        print(f"  {row['model']:32}{'':6}{peak / MIB:13.1f}{'':10}{row['peak_allocated'] / MIB:13.1f}"
              f"{row['peak_allocated'] / peak:8.3f}")


def describe_point(point, saved):
    if not point["fits"]:
        return "does not fit"
    return (f"{point['activation_bytes'] / MIB:8.1f} MiB, {saved / point['activation_bytes']:5.2f}× less, "
            f"{point['recomputed_share']:6.1%} of the FLOPs again")


def print_checkpointing(rows):
    print(f"\ntrain.checkpointing=auto: activation bytes beside PyTorch's, goal ≥ {REDUCTION_GOAL:g}× less at "
          f"≤ {FLOPS_GOAL:.0%} more FLOPs")
    for row in rows:
        print(f"  {row['model']}, batch {row['batch_size']:,}: PyTorch {row['pytorch_bytes'] / MIB:.1f} MiB, trainer by default "
              f"{row['trainer_bytes'] / MIB:.1f} MiB ({row['default_recomputed_share']:.1%} again)")
        for point in row["points"]:
            print(f"    auto, capacity for 1/{round(1 / point['share']):<3} {describe_point(point, row['pytorch_bytes'])}")
        if row["best"]:
            print(f"    least at {FLOPS_GOAL:.0%}          {describe_point(row['best'], row['pytorch_bytes'])}: "
                  f"{verdict(row['reduction'] >= row['goal'])}")
        else:
            print(f"    least at {FLOPS_GOAL:.0%}          no budget needs so few")


def print_transformers(rows):
    print("\nTransformers: the activations of a step beside what PyTorch's autograd saves, f32")
    for row in rows:
        print(f"  {row['model']}, batch {row['batch_size']}: PyTorch {row['pytorch_bytes'] / MIB:.1f} MiB, trainer by default "
              f"{row['trainer_bytes'] / MIB:.1f} MiB, {row['ratio']:.3f}, goal ≤ {row['goal']}: "
              f"{verdict(row['ratio'] <= row['goal'])}")
        best = row["best"]
        print(f"    least at {RECOMPUTED_FLOPS_GOAL:.0%}: " + (
            f"{best['activation_bytes'] / MIB:.1f} MiB, {row['best_ratio']:.3f}, {best['recomputed_share']:.1%} of the FLOPs again, "
            f"goal ≤ {row['best_goal']}: {verdict(row['best_ratio'] <= row['best_goal'])}" if best else
            "no budget needs so few"))


def print_halved(rows):
    print(f"\nHalf of the default peak of a step, all categories, at ≤ {HALF_GOAL:.0%} more FLOPs")
    for row in rows:
        half, peak = row["half"], row["default"]["peak_allocated"]
        found = "no order is within it" if half is None else \
            (f"{half['peak_allocated'] / MIB:9.1f} MiB ({half['peak_allocated'] / peak:.3f}), {half['recomputed_share']:6.1%} "
             f"of the FLOPs again: {verdict(half['recomputed_share'] <= row['goal'])}")
        print(f"  {row['model']}, {row['precision']:5} {row['device']:8} {peak / MIB:9.1f} MiB → {found}")


def print_adamw(rows):
    print(f"\nAdamW: bytes a parameter, each category at its highest ({ADAMW_MODEL}, {rows[0]['parameters']:,} parameters)")
    print(f"  {'':42}{'parameters':>11}{'gradients':>11}{'state':>8}{'total':>8}  goal")
    for row in rows:
        held = row["bytes"]
        goal = f"≤ {row['goal']:g}: {verdict(row['total'] <= row['goal'])}" if row["goal"] else ""
        print(f"  {row['name']:42}{held['parameter']:11.2f}{held['gradient']:11.2f}{held['optimizer_state']:8.2f}"
              f"{row['total']:8.2f}  {goal}")


PARTS = {"activations": (compare_activations, print_activations),
         "checkpointing": (compare_checkpointing, print_checkpointing), "halved": (compare_halved, print_halved),
         "transformers": (compare_transformers, print_transformers), "adamw": (compare_adamw, print_adamw)}


def git(*words):
    result = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return result.stdout.strip()


def commit():
    return git("rev-parse", "--short", "HEAD") + ("+changes" if git("status", "--porcelain", "-uno") else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", type=pathlib.Path, help="else scripts/results/memory_<date>.json")
    parser.add_argument("--gpu", metavar="PROFILE", help="plan for a GPU of configs/gpus/ instead of the CPU")
    parser.add_argument("--trainer", metavar="FILE", help="the program to ask; else scripts/trainer")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; all where none is named")
    arguments = parser.parse_args()
    unknown = set(arguments.parts) - set(PARTS)
    if unknown:
        parser.error(f"unknown part {sorted(unknown)[0]}; there are {', '.join(PARTS)}")

    planner = Planner(Trainer(arguments.trainer), arguments.gpu)
    now = datetime.datetime.now(datetime.timezone.utc)
    report = {"date": now.isoformat(timespec="seconds"), "commit": commit(), "device": arguments.gpu or "cpu"}
    failures = {}
    for part in arguments.parts or PARTS:
        compare, show = PARTS[part]
        try:
            report[part] = compare(planner)
            show(report[part])
        except (TrainerFailed, NotWrittenDown) as failure:
            failures[part] = str(failure)
            print(f"\n{part}: FAILED, {failure}", file=sys.stderr)
    if failures:
        sys.exit(f"no figures of: {', '.join(failures)}; nothing is written")
    path = arguments.json or ROOT / "scripts" / "results" / f"memory_{now.date()}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(f"\nwritten to {path}")


if __name__ == "__main__":
    main()
