#!/usr/bin/env python3
"""scripts/make_memory_guide.py: renews the tables of configs/MEMORY.md from real plans and short runs on the CPU.

For each model and technique the peak by category is `trainer plan`'s, and the step time that of runs, beside runs of the
first row ("everything off"): each round runs every technique once, in turn, and the ratio is taken within the round, so
that a machine that gets slower meanwhile does not show. The median round is printed. Leave the machine alone meanwhile.
"""
import argparse
import dataclasses
import json
import pathlib
import re
import statistics
import sys
import tempfile
from collections.abc import Callable

from trainer_events import EXIT_DOES_NOT_FIT, EXIT_REFUSED, ROOT, Trainer, TrainerFailed, field

GUIDE = ROOT / "configs" / "MEMORY.md"
MIB = 2**20
NO_BOUND = ("--capacity", "1TiB")
NUM_WARMUP_STEPS = 2
GPU = "h200"

# What is on by default, switched off.
OFF = ("memory.in_place=false", "memory.recompute_cheap=false", "memory.chunked_loss=0")
MODELS = {"mlp": "MLP: 12 linear layers with ReLU, batch 512", "cnn": "CNN: two convolutions, batch 128",
          "resnet18": "ResNet-18 on 32×32, batch 32",
          "residual_mlp": "Residual MLP: 32 blocks of layer norm, linear, GELU, linear, batch 512"}


@dataclasses.dataclass(frozen=True)
class Situation:
    """What an override may depend on: the model's batch size and the plan with everything off."""
    batch_size: int
    off: dict


@dataclasses.dataclass(frozen=True)
class Technique:
    title: str
    overrides: Callable[[Situation], tuple]
    over: tuple = OFF  # what stands before the overrides
    may_be_refused: bool = False  # there are models that it cannot help


def technique(title, *overrides, over=OFF):
    return Technique(title, lambda _: overrides, over)


def without_half_of_the_activations(situation):
    budget = situation.off["peak_allocated"] - field(situation.off, "category_peaks")["activation"] // 2
    return (f"train.checkpointing={{budget: {budget // MIB}MiB}}",)


def quarter_batches(situation):
    return (f"train.batch_size={situation.batch_size // 4}", "train.accumulation_steps=4")


SIXTEEN_BIT_STATE = ("train.amp=bf16", "memory.gradients=16bit", "memory.moments=8bit", "memory.master_weights=false")
TECHNIQUES = (
    technique("everything off"),
    technique("in place", "memory.in_place=true"),
    technique("cheap ops computed again", "memory.recompute_cheap=true"),
    technique("**the default**: both", over=()),
    technique("planned allocator", "memory.allocator=planned"),
    technique("mixed precision", "train.amp=bf16"),
    technique("checkpointing, √n", "train.checkpointing=sqrt"),
    Technique("checkpointing, less half the activations", without_half_of_the_activations, may_be_refused=True),
    Technique("accumulation, 4 quarter batches", quarter_batches),
    technique("update in the backward pass", "memory.update=in_backward"),
    technique("16-bit gradients", "train.amp=bf16", "memory.gradients=16bit"),
    technique("8-bit moments", "memory.moments=8bit"),
    technique("no master weights", "train.amp=bf16", "memory.master_weights=false"),
    technique("**together**, without checkpointing", *SIXTEEN_BIT_STATE, "memory.update=in_backward",
              "memory.allocator=planned", over=()),
    technique("**together**", *SIXTEEN_BIT_STATE, "memory.update=in_backward", "memory.allocator=planned",
              "train.checkpointing=sqrt", over=()),
)
WIDE_HEAD = (
    technique("loss over all rows at once", "memory.chunked_loss=0", over=()),
    technique("loss in chunks, **the default** for so many classes", over=()),
    technique("128 rows at a time", "memory.chunked_loss=128", over=()),
)
OFFLOADED = (
    technique("kept on the GPU", over=()),
    technique("offload of everything", "memory.offload=['*']", over=()),
)


# How long a sequence, and how many, each GPU trains: under these settings, which the batch and the length are added to.
LIMITED_ON = ("rtx4090", "a100-40gb", "h100")
LIMITED_BY = {"`train.amp=bf16`": ("train.amp=bf16",),
              "**together**": (*SIXTEEN_BIT_STATE, "memory.update=in_backward", "memory.allocator=planned",
                               "train.checkpointing=sqrt")}


@dataclasses.dataclass(frozen=True)
class Limited:
    """A transformer; `longest` is the key that its longest sequence is searched by, None where it has no sequences."""
    words: tuple
    longest: str | None = None
    longest_words: tuple = ()


GPT_LENGTHS = ("model.with.length", ("data.sequence_length=${model.with.length}",))
LIMITED = {"GPT-2, 124M": Limited(("configs/memory/gpt2.yaml",), *GPT_LENGTHS),
           "GPT-2, 1558M": Limited(("configs/memory/gpt2.yaml", "model.with.size=1558M"), *GPT_LENGTHS),
           "Llama, 1B": Limited(("configs/memory/llama.yaml",), "data.sequence_length"),
           "ViT-B, 224×224": Limited(("configs/memory/vit_b.yaml",))}


@dataclasses.dataclass
class Row:
    technique: Technique
    overrides: tuple
    plan: dict | None  # None: refused
    relative_time: float | None = None

    def words(self):
        return (*self.technique.over, *self.overrides)


def plan_rows(trainer, config, techniques, device):
    """The planned rows of one model."""
    rows = []
    situation = None
    for item in techniques:
        overrides = item.overrides(situation)
        try:
            plan = trainer.plan(config, *device, *item.over, *overrides, *NO_BOUND)
        except TrainerFailed as failure:
            if not item.may_be_refused or failure.exit_code != EXIT_REFUSED:
                raise
            plan = None
        situation = situation or Situation(plan["batch_size"], plan)
        rows.append(Row(item, overrides, plan))
    return rows


def step_seconds(trainer, config, words, num_steps):
    """The median of a run's steps."""
    with tempfile.TemporaryDirectory() as folder:
        events = trainer.run(config, *words, f"train.steps={NUM_WARMUP_STEPS + num_steps}", "train.epochs=100000",
                             f"output={folder}/run")
    steps = [event["step_seconds"] for event in events if event["event"] == "step"][NUM_WARMUP_STEPS:]
    if len(steps) != num_steps:
        raise TrainerFailed(f"trainer run {config} told of {len(steps)} of {num_steps} steps")
    return statistics.median(steps)


def time_rows(trainer, config, rows, rounds, seconds):
    """Fills in each row's step time over that of the first."""
    num_steps = max(3, round(seconds / step_seconds(trainer, config, rows[0].words(), 3)))
    rows = [row for row in rows if row.plan]
    ratios = [[] for _ in rows]
    for number in range(rounds):
        print(f"{config}: round {number + 1} of {rounds}, {num_steps} steps each  ", end="\r", file=sys.stderr, flush=True)
        times = [step_seconds(trainer, config, row.words(), num_steps) for row in rows]
        for ratio, time in zip(ratios, times):
            ratio.append(time / times[0])
    print(" " * 79, end="\r", file=sys.stderr)
    for row, ratio in zip(rows, ratios):
        row.relative_time = statistics.median(ratio)


def mib(num_bytes):
    return f"{num_bytes / MIB:.1f}" if num_bytes else "0"


CATEGORIES = ("parameter", "gradient", "optimizer_state", "activation", "temporary")


def table(rows):
    """Markdown: the peak, what it is made of, what is reserved for it, and the time of a step where it was measured."""
    is_timed = any(row.relative_time for row in rows)
    columns = ["peak", *(name.replace("_", " ") for name in CATEGORIES), "other", "reserved", *["step time"] * is_timed]
    lines = ["| technique | overrides | " + " | ".join(columns) + " |", "|---|---|" + "--:|" * len(columns)]
    first = rows[0].plan["peak_allocated"]
    for row in rows:
        overrides = row.overrides or (OFF if row.technique.over == OFF else ())
        words = " ".join(f"`{word}`" for word in overrides)
        if row.plan is None:
            lines.append(f"| {row.technique.title} | {words} | cannot be: no step holds so little |"
                         + " |" * (len(columns) - 1))
            continue
        held = row.plan["by_category"]
        other = sum(held.values()) - sum(held[name] for name in CATEGORIES)
        peak = row.plan["peak_allocated"]
        share = "" if row is rows[0] else f" ({peak / first:.0%})"
        cells = [row.technique.title, words, mib(peak) + share, *(mib(held[name]) for name in CATEGORIES), mib(other),
                 mib(row.plan["peak_reserved"]), *([f"{row.relative_time:.2f}×"] if is_timed else [])]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def offload_table(planned):
    """One line a model: the peak on a GPU without offload and with it."""
    lines = ["| model | overrides | peak without | peak with | activations without | with |", "|---|---|--:|--:|--:|--:|"]
    for model, (kept, offloaded) in planned.items():
        activations = [field(row.plan, "category_peaks")["activation"] for row in (kept, offloaded)]
        cells = [f"`configs/memory/{model}.yaml`", " ".join(f"`{word}`" for word in offloaded.overrides),
                 mib(kept.plan["peak_allocated"]), mib(offloaded.plan["peak_allocated"]), *map(mib, activations)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def largest(trainer, gpu, key, words):
    """The largest value of a key that fits, 0 where none does."""
    event, = (json.loads(line) for line in trainer.ask("fit", *words, "--gpu", gpu, "device=auto", "--max", key,
                                                       accept=(0, EXIT_DOES_NOT_FIT)).splitlines())
    return field(event, "maximum")["value"] or 0


def limits_table(trainer):
    """One line a model and setting: for each GPU the longest sequence at batch 1, and the largest batch at 1,024 tokens."""
    columns = [f"{gpu}: {what}" for gpu in LIMITED_ON for what in ("longest", "batch")]
    lines = ["| model | settings | " + " | ".join(columns) + " |", "|---|---|" + "--:|" * len(columns)]
    for name, model in LIMITED.items():
        for title, settings in LIMITED_BY.items():
            cells = [name, title]
            for gpu in LIMITED_ON:
                print(f"limits: {name}, {title}, {gpu}            ", end="\r", file=sys.stderr, flush=True)
                longest = ""
                if model.longest:
                    length = largest(trainer, gpu, model.longest,
                                     (*model.words, *settings, *model.longest_words, "train.batch_size=1"))
                    longest = f"{length:,}" if length else "—"
                batch = largest(trainer, gpu, "train.batch_size", (*model.words, *settings))
                cells += [longest, f"{batch:,}" if batch else "—"]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def replace_block(text, name, content):
    """The text with what stands between the marks of a block replaced."""
    pattern = re.compile(rf"(<!-- {name}: begin -->\n).*?(<!-- {name}: end -->)", re.DOTALL)
    text, count = pattern.subn(lambda match: f"{match[1]}{content}\n{match[2]}", text)
    if count != 1:
        raise TrainerFailed(f"{GUIDE.name} has {count} blocks '{name}', not one")
    return text


def make_blocks(trainer, rounds, seconds):
    """The content of each block of the guide, and the figures behind it."""
    blocks, figures = {}, {}
    cpu = ("device={type: cpu, threads: 2}",)
    for model, title in (*MODELS.items(), ("wide_head", "")):
        config = f"configs/memory/{model}.yaml"
        rows = plan_rows(trainer, config, TECHNIQUES if title else WIDE_HEAD, cpu)
        if rounds:
            time_rows(trainer, config, rows, rounds, seconds)
        heading = f"### {title}\n\n`{config}`\n\n" if title else ""
        blocks[model] = heading + table(rows)
        figures[model] = [{"technique": row.technique.title, "overrides": row.words(), "relative_time": row.relative_time,
                           **{key: row.plan and row.plan[key]
                              for key in ("peak_allocated", "peak_reserved", "by_category")}} for row in rows]
    gpu = ("--gpu", GPU, "device=auto")
    blocks["offload"] = offload_table({model: plan_rows(trainer, f"configs/memory/{model}.yaml", OFFLOADED, gpu)
                                       for model in MODELS})
    return blocks, figures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="runs of each row; 0: no times")
    parser.add_argument("--seconds", type=float, default=3.0, help="about how long one run takes")
    parser.add_argument("--limits", action="store_true", help="renews the table of transformers, which takes minutes, alone")
    parser.add_argument("--json", metavar="FILE", type=pathlib.Path, help="writes the figures, too")
    parser.add_argument("--trainer", metavar="FILE", help="the program to ask; else scripts/trainer")
    arguments = parser.parse_args()
    try:
        trainer = Trainer(arguments.trainer)
        blocks, figures = ({"limits": limits_table(trainer)}, {}) if arguments.limits else \
            make_blocks(trainer, arguments.rounds, arguments.seconds)
        text = GUIDE.read_text(encoding="utf-8")
        for name, content in blocks.items():
            text = replace_block(text, name, content)
    except TrainerFailed as failure:
        sys.exit(f"{failure}\n{GUIDE.relative_to(ROOT)} is left as it was")
    GUIDE.write_text(text, encoding="utf-8")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
