#!/usr/bin/env python3
"""What a rank holds of a model by parallel.shard and the number of ranks, from `trainer plan`: nothing runs, and no GPU is
needed. Writes scripts/results/shard_memory_<date>.json.

Parameters, gradients and the optimizer's state are those at the end of the backward pass, as the allocator counts them; `most`
is the most that these and what is gathered or summed for a while took together within a step. They stand against what one process
holds: a level's share of it divided by the ranks, and for `most` of shard: parameters that and two gathered layers, the two
largest. Plans are those of rank 0, whose part is never smaller than another's. Ends with 1 where the goal is missed.
"""
import argparse
import datetime
import itertools
import json
import sys

from trainer_events import ROOT, Trainer, TrainerFailed

# Name, words behind `plan`, samples of a rank's batch.
NETWORKS = {"GPT-2 1558M, AdamW": (["configs/memory/gpt2.yaml", "model.with.size=1558M"], 1),
            "ResNet-50, SGD with momentum": (["configs/memory/resnet50.yaml"], 8)}
RANKS = (1, 2, 4, 8)
KINDS = ("parameter", "gradient", "optimizer_state")
# What ranks have a part of.
SHARDS = {"none": (), "optimizer": ("optimizer_state",), "gradients": ("optimizer_state", "gradient"), "parameters": KINDS}
GOAL = 1.02
MIB = 1024 * 1024


def plan_of(trainer, words, num_ranks, samples, shard, gpu):
    parallel = ["--ranks", str(num_ranks), f"parallel.shard={shard}"] if num_ranks > 1 else []
    return trainer.plan(*words, f"train.batch_size={num_ranks * samples}", "memory.allocator=planned", *parallel,
                        "--gpu", gpu)


def held_of(plan):
    """Bytes by kind where the update begins, the most of them with what is communicated, and where that is."""
    timeline = plan["timeline"]
    *_, end_of_backward = itertools.takewhile(lambda entry: entry["phase"] != "update", timeline)
    held = {kind: end_of_backward["by_category"][kind] for kind in KINDS}
    most = max(timeline, key=lambda entry: model_bytes(entry["by_category"]))
    return {**held, "together": sum(held.values()), "most": model_bytes(most["by_category"]),
            "most_at": f"{most['phase']}, {most['layer']}", "peak_allocated": plan["peak_allocated"], "fits": plan["fits"]}


def model_bytes(categories):
    return sum(categories[kind] for kind in (*KINDS, "communication"))


def rows_of(trainer, words, samples, gpu):
    for num_ranks in RANKS:
        for shard in SHARDS if num_ranks > 1 else ["none"]:
            plan = plan_of(trainer, words, num_ranks, samples, shard, gpu)
            if num_ranks == 1:
                whole = held_of(plan)
                layers = sorted((layer["by_category"]["parameter"] for layer in plan["by_layer"]), reverse=True)[:2]
            row = {"ranks": num_ranks, "shard": shard, **held_of(plan)}
            row["share"] = round(sum(whole[kind] / (num_ranks if kind in SHARDS[shard] else 1) for kind in KINDS))
            row["layers"] = sum(layers) if shard == "parameters" else 0
            yield row


def is_met(row):
    return row["most"] <= GOAL * (row["share"] + row["layers"])


def text_of(row):
    """In MiB, and what stands against them."""
    against = (f"{row['most'] / (row['share'] + row['layers']):.3f}  {'met' if is_met(row) else 'not met'}"
               if row["shard"] == "parameters" else "")
    held = "".join(f"{row[kind] / MIB:11,.1f}" for kind in (*KINDS, "together"))
    return (f"{row['ranks']:>5}  {row['shard']:<11}{held}{row['together'] / row['share']:10.3f}{row['most'] / MIB:11,.1f}"
            f"   {against}").rstrip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", default="h100", help="of configs/gpus/ (h100)")
    parser.add_argument("--trainer", metavar="FILE", help="the program (scripts/trainer)")
    arguments = parser.parse_args()
    trainer = Trainer(arguments.trainer)
    results = {"date": datetime.date.today().isoformat(), "gpu": arguments.gpu, "goal": GOAL, "networks": {}}
    try:
        for name, (words, samples) in NETWORKS.items():
            rows = results["networks"][name] = list(rows_of(trainer, words, samples, arguments.gpu))
            print(f"{name}: MiB of rank 0 on {arguments.gpu}, batches of {samples} a rank\n"
                  "ranks  shard       parameters  gradients      state   together  of share       most   of share + 2 layers")
            print("\n".join(map(text_of, rows)) + "\n", flush=True)
    except TrainerFailed as failure:
        print(failure, file=sys.stderr)
        return 1
    name = f"shard_memory_{results['date']}.json"
    (ROOT / "scripts" / "results" / name).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(f"written to scripts/results/{name}")
    return 0 if all(is_met(row) for rows in results["networks"].values() for row in rows if row["layers"]) else 1


if __name__ == "__main__":
    sys.exit(main())
