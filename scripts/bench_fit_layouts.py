#!/usr/bin/env python3
"""Measures the search for layouts, `trainer fit --gpu 'h100*64' --nodes 8`: how long it takes for GPT-2 1558M, and how
much slower than the fastest of all layouts the fastest is that it finds for small networks, of which every layout is
planned by `trainer plan`. Nothing runs, and no GPU is needed. Writes scripts/results/fit_layouts_<date>.json.

The time is the user CPU time of the whole command, the median of some runs. Ends with 1 where a goal is missed: 20 seconds,
and 3 % of the fastest.
"""
import argparse
import datetime
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from trainer_events import EXIT_DOES_NOT_FIT, EXIT_REFUSED, ROOT, measured_trainer

RESULTS = ROOT / "scripts" / "results"
GOAL_SECONDS, GOAL_SHARE = 20.0, 0.03
GPT2 = ["configs/memory/gpt2.yaml", "model.with.size=1558M"]
LARGE = {
    "512 samples an update, bf16": [*GPT2, "train.batch_size=512", "train.amp=bf16"],
    "64 samples an update, bf16": [*GPT2, "train.batch_size=64", "train.amp=bf16"],
    "512 samples an update, bf16, 12 GiB": [*GPT2, "train.batch_size=512", "train.amp=bf16", "--capacity", "12GiB"],
    "512 samples an update, bf16, 5 GiB": [*GPT2, "train.batch_size=512", "train.amp=bf16", "--capacity", "5GiB"],
    "2,048 samples an update, f32": [*GPT2, "train.batch_size=2048"],
}
MLP = """name: mlp
data: {type: synthetic, shape: [1024], classes: 10, samples: 640}
model: {layers: [repeat: {times: 10, layers: [linear: {out: 4096}, relu]}, linear: {out: 10}]}
optimizer: adam
memory: {allocator: caching}
train: {batch_size: 64}
"""
GPT = ["configs/memory/gpt2.yaml", "model.with={depth: 4, width: 256, heads: 4, vocabulary: 1000, length: 128}",
       "data.sequence_length=128", "data.classes=1000", "data.samples=640", "memory.allocator=caching", "train.amp=bf16"]
SHARDS, ORDERS = ("none", "optimizer", "gradients", "parameters"), ("1f1b", "interleaved", "zero_bubble", "gpipe")


def small_networks(folder):
    """Name, words after the command, GPUs, machines, samples of a batch."""
    mlp = folder / "mlp.yaml"
    mlp.write_text(MLP)
    yield "MLP", [str(mlp)], 4, 1, 64
    yield "MLP", [str(mlp)], 8, 2, 64
    yield "GPT", [*GPT, "train.batch_size=16"], 2, 1, 16
    yield "GPT", [*GPT, "train.batch_size=16"], 8, 2, 16
    # Less than the fastest layouts take.
    yield "GPT, 48 MiB", [*GPT, "train.batch_size=16", "--capacity", "48MiB"], 4, 1, 16


def call(trainer, command, words, accept):
    """The answer, nothing where it was refused, and the user CPU time."""
    before = os.times().children_user
    result = subprocess.run([str(trainer.binary), command, *words, "--json"], cwd=ROOT, stdin=subprocess.DEVNULL,
                            capture_output=True, text=True, check=False)
    if result.returncode not in accept:
        sys.exit(f"bench_fit_layouts: trainer {command} {' '.join(words)} ended with {result.returncode}:\n{result.stderr}")
    answer = json.loads(result.stdout) if result.returncode in (0, EXIT_DOES_NOT_FIT) and result.stdout else None
    return answer, os.times().children_user - before


def fit(trainer, words, gpu, num_gpus, num_nodes):
    return call(trainer, "fit", [*words, "--gpu", f"{gpu}*{num_gpus}", "--nodes", str(num_nodes)], (0, EXIT_DOES_NOT_FIT))


def all_layouts(num_gpus, num_nodes, batch_size):
    """As overrides: what fit searches among."""
    divisors = [number for number in range(1, num_gpus + 1) if num_gpus % number == 0]
    for tensor, pipeline in itertools.product(divisors, divisors):
        if num_gpus % (tensor * pipeline) or tensor > num_gpus // num_nodes or num_gpus // tensor // pipeline > batch_size:
            continue
        data = num_gpus // tensor // pipeline
        numbers = {min(times * pipeline, batch_size // data) for times in (1, 2, 4, 8)}
        for number, order, shard in itertools.product(sorted(numbers), ORDERS if pipeline > 1 else ORDERS[:1],
                                                      SHARDS if data > 1 else SHARDS[:1]):
            yield [f"parallel.data={data}", f"parallel.tensor={tensor}", f"parallel.pipeline={pipeline}",
                   f"parallel.schedule={order}", f"parallel.micro_batches={number}", f"parallel.shard={shard}",
                   f"parallel.ranks_per_node={num_gpus // num_nodes}"]


def fastest_of_all(trainer, words, gpu, num_gpus, num_nodes, batch_size):
    """Seconds of the fastest plan that fits, with what is too large computed again, and how many were planned."""
    seconds, num_planned = [], 0
    for overrides in all_layouts(num_gpus, num_nodes, batch_size):
        for more in ([], ["train.checkpointing=sqrt"]):
            planned, _ = call(trainer, "plan", [*words, *overrides, *more, "--gpu", gpu],
                              (0, EXIT_REFUSED, EXIT_DOES_NOT_FIT))
            if planned is None:
                break
            num_planned += 1
            if planned["fits"]:
                seconds.append(planned["step_seconds"])
                break
    return min(seconds, default=None), num_planned


def own_choices(found):
    """Those that differ in layout alone, or in what is computed again."""
    return [choice for choice in found["choices"]
            if all(word.startswith("parallel.") or word == "train.checkpointing=sqrt" for word in choice["set"])
            and not any(word.startswith(("parallel.bucket", "parallel.overlap", "parallel.prefetch"))
                        for word in choice["set"])]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", default="h100", help="all GPUs (h100)")
    parser.add_argument("--no-file", action="store_true", help="print the figures alone")
    arguments, trainer = measured_trainer(parser, 3, "search of GPT-2 1558M")
    results = {"date": datetime.date.today().isoformat(), "gpu": arguments.gpu, "goal_seconds": GOAL_SECONDS,
               "goal_share": GOAL_SHARE, "searches": [], "comparisons": []}
    for name, words in LARGE.items():
        answers = [fit(trainer, words, arguments.gpu, 64, 8) for _ in range(arguments.runs)]
        found, searched = answers[0][0], answers[0][0]["searched_layouts"]
        row = {"name": f"GPT-2 1558M, {name}", "gpus": 64, "nodes": 8, "layouts": searched["layouts"],
               "planned": searched["planned"], "ways": len(found["choices"]),
               "user_seconds": round(statistics.median(seconds for _, seconds in answers), 2)}
        results["searches"].append(row)
        print(f"{row['name']}: {row['user_seconds']:.2f} s, {row['planned']} of {row['layouts']} layouts planned", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, words, num_gpus, num_nodes, batch_size in small_networks(pathlib.Path(folder)):
            found, _ = fit(trainer, words, arguments.gpu, num_gpus, num_nodes)
            ours = min((choice["step_seconds"] for choice in own_choices(found)), default=None)
            fastest, num_planned = fastest_of_all(trainer, words, arguments.gpu, num_gpus, num_nodes, batch_size)
            share = ours / fastest - 1 if ours and fastest else (0.0 if ours == fastest else float("inf"))
            results["comparisons"].append({"name": name, "gpus": num_gpus, "nodes": num_nodes, "found_seconds": ours,
                                           "fastest_seconds": fastest, "slower": round(share, 5),
                                           "planned_of_all": num_planned,
                                           "planned_by_fit": found["searched_layouts"]["planned"]})
            print(f"{name} on {num_gpus} GPUs: {100 * share:.2f} % slower than the fastest of {num_planned} plans", flush=True)
    if not arguments.no_file:
        path = RESULTS / f"fit_layouts_{results['date']}.json"
        path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        print(f"Wrote {path.relative_to(ROOT)}")
    return (any(row["user_seconds"] >= GOAL_SECONDS for row in results["searches"]) or
            any(row["slower"] > GOAL_SHARE for row in results["comparisons"]))


if __name__ == "__main__":
    sys.exit(main())
