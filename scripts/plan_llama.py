#!/usr/bin/env python3
"""Plans Llama 3 of 8 and 70 billion parameters in several layouts of GPUs, rank by rank, and some cases that SimuMax has
published beside its figures. Nothing runs, and no GPU is needed. Writes scripts/results/llama_plans_<date>.json.

A line of a table is a kind of ranks, which hold the same. Categories are those at the peak; what they leave of it is `other`.
NCCL's buffers are an estimate, outside the allocator, and no part of a peak. Ends with 1 where a layout does not fit.
"""
import argparse
import dataclasses
import datetime
import json
import sys

from trainer_events import ROOT, Trainer, TrainerFailed, field

CONFIG = "configs/memory/llama_8b.yaml"
GIB = 2**30
CATEGORIES = {"parameter": "weights", "gradient": "gradients", "optimizer_state": "state", "activation": "activations"}


@dataclasses.dataclass(frozen=True)
class Layout:
    data: int = 1
    tensor: int = 1
    stages: int = 1
    shard: str = "none"
    micro_batches: int = 0  # 0: trainer's default
    words: tuple = ()

    def num_ranks(self):
        return self.data * self.tensor * self.stages

    def name(self):
        named = [f"{word} {value}" for word, value in (("data", self.data), ("tensor", self.tensor), ("stages", self.stages))
                 if value > 1]
        return " × ".join(named) + (f", shard {self.shard}" if self.shard != "none" else "")

    def overrides(self):
        keys = (("data", self.data, 1), ("tensor", self.tensor, 1), ("pipeline", self.stages, 1), ("shard", self.shard, "none"),
                ("micro_batches", self.micro_batches, 0))
        return (*(f"parallel.{key}={value}" for key, value, default in keys if value != default), *self.words)


NETWORKS = {
    "Llama 3 8B": (("model.with.size=3-8B",),
                   (Layout(data=8, shard="parameters"), Layout(tensor=8, micro_batches=16), Layout(tensor=4, stages=2),
                    Layout(data=2, stages=4, shard="optimizer"))),
    "Llama 3 70B": (("model.with.size=3-70B",),
                    (Layout(data=64, shard="parameters"), Layout(data=32, tensor=2, shard="parameters"),
                     Layout(tensor=8, stages=8), Layout(data=2, tensor=8, stages=4),
                     Layout(data=2, tensor=8, stages=4, shard="optimizer"))),
}


def outside(plan, name):
    return sum(part["bytes"] for part in plan["outside_allocator"]["parts"] if name in part["name"])


def rows_of(plan):
    """One for each kind of ranks; the first is of rank 0."""
    rows = []
    for each in field(plan, "ranks")["plans"]:
        held = {name: each["by_category"][name] for name in CATEGORIES}
        rows.append({key: each[key] for key in ("first_rank", "num_ranks", "layers", "fits", "capacity", "peak_allocated",
                                                "peak_reserved")}
                    | held | {"other": each["peak_allocated"] - sum(held.values())})
    return rows


def plan_of(trainer, words, layout, gpu, samples):
    plan = trainer.plan(CONFIG, *words, f"train.batch_size={samples}", *layout.overrides(), "--gpu", gpu)
    if plan["ranks"]["plans"][0]["first_rank"] != 0 or plan["ranks"]["plans"][0]["peak_allocated"] != plan["peak_allocated"]:
        raise TrainerFailed(f"the plan of {layout.name()} does not begin with rank 0")
    return plan


def planned_layout(trainer, words, layout, gpu, samples):
    plan = plan_of(trainer, words, layout, gpu, samples)
    return {"layout": layout.name(), "words": [*words, *layout.overrides()], "ranks": layout.num_ranks(),
            "fits": plan["fits"], "step_seconds": plan["step_seconds"], "nccl_estimate": outside(plan, "NCCL"),
            "outside_allocator": plan["outside_allocator"]["bytes"], "sent_bytes": plan["ranks"]["communicated_bytes"],
            "rows": rows_of(plan)}


def gib(num_bytes):
    return f"{num_bytes / GIB:.2f}"


def table(title, planned):
    lines = [title, f"  {'ranks':<9}" + "".join(f"{text:>13}" for text in (*CATEGORIES.values(), "other", "allocated",
                                                                          "reserved")) + "  layers"]
    for each in planned:
        lines.append(f"{each['layout']}: {1e3 * each['step_seconds']:,.0f} ms a step; NCCL, outside the allocator, about "
                     f"{gib(each['nccl_estimate'])}" + ("" if each["fits"] else "; does not fit"))
        for row in each["rows"]:
            last = row["first_rank"] + row["num_ranks"] - 1
            held = [gib(row[name]) for name in (*CATEGORIES, "other")]
            cells = [*held, gib(row["peak_allocated"]), gib(row["peak_reserved"])]
            lines.append(f"  {row['first_rank']:>2} to {last:<3}" + "".join(f"{cell:>13}" for cell in cells)
                         + f"  {row['layers'] or 'all'}")
    return "\n".join(lines)


# What SimuMax predicts of Megatron-LM on 8 B200, and what was measured there: GiB that PyTorch allocates at most, by stage.
# https://github.com/MooreThreads/SimuMax/blob/4dcaae5/docs/b200/b200_release_v1.2_summary.json, its dense cases without
# context parallelism. They are the same with 4, 8 and 32 micro-batches, each of one sequence of 4,096 tokens.
SIMUMAX = "MooreThreads/SimuMax, 4dcaae5, docs/b200/b200_release_v1.2_summary.json"
MICRO_BATCHES = 8
KEPT = ("memory.recompute_cheap=false", "memory.in_place=false", "memory.chunked_loss=0")


@dataclasses.dataclass(frozen=True)
class Dense:
    """Layers of a Llama with a head of its own."""
    name: str
    depth: int
    width: int
    hidden: int
    heads: int
    kv_heads: int
    vocabulary: int = 128256

    def words(self):
        sizes = ", ".join(f"{name}: {getattr(self, name)}" for name in ("depth", "width", "hidden", "heads", "kv_heads"))
        return (f"model.with={{{sizes}, tied: false}}",)

    def parameters(self, layout):
        """Of the first stage's ranks: without those few norms that ranks hold whole."""
        layer = 2 * self.width**2 * (1 + self.kv_heads / self.heads) + 3 * self.width * self.hidden
        ends = self.vocabulary * self.width * (1 if layout.stages > 1 else 2)
        return (layer * self.depth / layout.stages + ends) / layout.tensor


LLAMA_70B = Dense("Llama 3 70B, 12 layers", 12, 8192, 28672, 64, 8)
LLAMA_405B = Dense("Llama 3 405B, 4 layers", 4, 16384, 53248, 128, 16)


def simumax_layout(model, data, tensor, stages=1):
    """As Megatron's distributed optimizer has it, and its cut into as many layers a stage."""
    pipeline = ("parallel.schedule=1f1b", f"parallel.cut=[layers.{model.depth // stages}]") if stages > 1 else ()
    return Layout(data, tensor, stages, "optimizer" if data > 1 else "none", MICRO_BATCHES, pipeline)


# The model, the layout, and of each stage what was predicted and measured.
CASES = (
    (LLAMA_70B, simumax_layout(LLAMA_70B, 4, 1, 2), ((66.44, 66.55), (62.84, 62.97))),
    (LLAMA_70B, simumax_layout(LLAMA_70B, 4, 2), ((60.51, 60.68),)),
    (LLAMA_70B, simumax_layout(LLAMA_70B, 2, 4), ((38.94, 39.07),)),
    (LLAMA_70B, simumax_layout(LLAMA_70B, 1, 8), ((28.17, 28.29),)),
    (LLAMA_405B, simumax_layout(LLAMA_405B, 4, 1, 2), ((86.43, 86.61), (86.88, 87.08))),
    (LLAMA_405B, simumax_layout(LLAMA_405B, 4, 2), ((81.31, 81.59),)),
    (LLAMA_405B, simumax_layout(LLAMA_405B, 2, 4), ((52.68, 52.89),)),
    (LLAMA_405B, simumax_layout(LLAMA_405B, 1, 8), ((38.38, 38.57),)),
)
DIFFERENCES = (
    "theirs are of Megatron-LM with Transformer Engine, ours of trainer's own program",
    "both: bf16 products, f32 gradients, f32 weights and AdamW's moments shared by data (12 bytes a parameter), no blocks "
    "computed again, clipped gradients",
    "Megatron-LM keeps bf16 weights of all; trainer the embedding in f32, whole on each of the ranks that share its batch",
    "Megatron-LM pads the vocabulary to a multiple of 128 for each rank that shares a layer, and has one word more",
    "both cut norms and sums around blocks among ranks that share layers; trainer computes norms again instead of keeping "
    "them",
    "trainer computes logits some rows at a time, Megatron-LM those of a micro-batch at once (its loss is fused)",
    "with several micro-batches trainer makes a product's gradient before it adds it to those of the others: the largest one, "
    "often the head's, counts twice",
    "`all kept` is trainer with " + " ".join(KEPT),
)


def compared_case(trainer, model, layout, published):
    words = (*model.words(), "data.sequence_length=4096", "train.amp=bf16", "train.checkpointing=off", "train.clip_norm=1")
    samples = MICRO_BATCHES * layout.data
    plan = plan_of(trainer, words, layout, "b200", samples)
    kept = plan_of(trainer, (*words, *KEPT), layout, "b200", samples)
    rows = rows_of(plan)
    if len(rows) != len(published):
        raise TrainerFailed(f"{model.name}, {layout.name()}: {len(rows)} kinds of ranks were planned, not {len(published)}")
    # 2 bytes of weights, 4 of gradients, 12 that are shared.
    state = model.parameters(layout) * (6 + 12 / layout.data)
    held = sum(rows[0][name] for name in ("parameter", "gradient", "optimizer_state"))
    return {"model": model.name, "layout": layout.name(), "words": [*words, *layout.overrides()],
            "micro_batches": MICRO_BATCHES,
            "stages": [{"simumax_gib": predicted, "measured_gib": measured,
                        "trainer_gib": round(row["peak_allocated"] / GIB, 2)}
                       for row, (predicted, measured) in zip(rows, published)],
            "first_stage": {"state_by_formula_gib": round(state / GIB, 2), "trainer_state_gib": round(held / GIB, 2),
                            "measured_rest_gib": round(published[0][1] - state / GIB, 2),
                            "trainer_rest_gib": round((rows[0]["peak_allocated"] - held) / GIB, 2),
                            "trainer_kept_rest_gib": round((kept["peak_allocated"] - held) / GIB, 2)},
            "trainer_rows": rows}


def compared_table(cases):
    lines = [SIMUMAX,
             "GiB allocated of a rank, by stage; `rest`: of the first one's, what is not weights, gradients and state",
             f"  {'':<24}{'':<18}{'SimuMax':>14}{'measured':>14}{'trainer':>14}{'rest: measured':>16}{'trainer':>9}"
             f"{'all kept':>10}"]
    for case in cases:
        stages = [" / ".join(f"{stage[name]:.2f}" for stage in case["stages"])
                  for name in ("simumax_gib", "measured_gib", "trainer_gib")]
        first = case["first_stage"]
        lines.append(f"  {case['model']:<24}{case['layout'].split(',')[0]:<18}" + "".join(f"{cell:>14}" for cell in stages)
                     + f"{first['measured_rest_gib']:>16.2f}{first['trainer_rest_gib']:>9.2f}"
                     f"{first['trainer_kept_rest_gib']:>10.2f}")
    return "\n".join(lines + [f"  - {difference}" for difference in DIFFERENCES])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", default="h100", help="of configs/gpus/ (h100)")
    parser.add_argument("--sequence-length", type=int, default=4096, metavar="N", help="tokens (4096)")
    parser.add_argument("--samples", type=int, default=64, metavar="N", help="sequences of an update, of all ranks (64)")
    parser.add_argument("--checkpointing", default="sqrt", help="train.checkpointing (sqrt)")
    parser.add_argument("--no-file", action="store_true", help="print the tables alone")
    parser.add_argument("--trainer", metavar="FILE", help="the program (scripts/trainer)")
    arguments = parser.parse_args()
    trainer = Trainer(arguments.trainer)
    date = datetime.date.today().isoformat()
    settings = (f"data.sequence_length={arguments.sequence_length}", "train.amp=bf16",
                f"train.checkpointing={arguments.checkpointing}")
    results = {"date": date, "gpu": arguments.gpu, "sequence_length": arguments.sequence_length, "samples": arguments.samples,
               "settings": settings, "networks": {}}
    try:
        for name, (words, layouts) in NETWORKS.items():
            parameters = trainer.summary(CONFIG, *words)["parameters"]
            planned = [planned_layout(trainer, (*words, *settings), layout, arguments.gpu, arguments.samples)
                       for layout in layouts]
            results["networks"][name] = {"parameters": parameters, "layouts": planned}
            print(table(f"{name}, {parameters:,} parameters: GiB of a rank on {arguments.gpu}, {arguments.samples} sequences "
                        f"of {arguments.sequence_length:,} tokens an update", planned) + "\n", flush=True)
        cases = [compared_case(trainer, *case) for case in CASES]
        results["simumax"] = {"source": SIMUMAX, "gpu": "b200", "differences": DIFFERENCES, "cases": cases}
        print(compared_table(cases) + "\n")
    except TrainerFailed as failure:
        print(failure, file=sys.stderr)
        return 1
    if not arguments.no_file:
        path = ROOT / "scripts" / "results" / f"llama_plans_{date}.json"
        path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        print(f"written to {path.relative_to(ROOT)}")
    return 0 if all(each["fits"] for network in results["networks"].values() for each in network["layouts"]) else 1


if __name__ == "__main__":
    sys.exit(main())
