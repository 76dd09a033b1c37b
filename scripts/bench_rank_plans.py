#!/usr/bin/env python3
"""Plans the same training for 1 to 1,024 ranks: what a rank holds, what it sends for an update and how long that takes by
its GPU's profile, and how long the plan itself takes. Writes scripts/results/rank_plans_<date>.json. Nothing runs, and no
GPU is needed.

The time of a plan is the user CPU time of the whole command, the median of some runs behind one that is not counted. Ends
with 1 where 1,024 ranks take 2 seconds or more.
"""
import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile

from trainer_events import EXIT_DOES_NOT_FIT, ROOT, measured_trainer

RESULTS = ROOT / "scripts" / "results"
BATCH = 1024
NETWORKS = {
    "quickstart": ["configs/quickstart.yaml"],
    "ResNet-50": ["configs/bench/resnet50.yaml"],
    "GPT-2 124M": ["configs/memory/gpt2.yaml", "train.amp=bf16"],
}
RANKS = [2**power for power in range(11)]
GOAL_SECONDS = 2.0


def plan(trainer, words, environment):
    """The plan as `--json` has it, and its user CPU time."""
    before = os.times().children_user
    result = subprocess.run([str(trainer.binary), "plan", *words, "--json"], cwd=ROOT, stdin=subprocess.DEVNULL,
                            capture_output=True, text=True, check=False, env={**os.environ, **environment})
    if result.returncode not in (0, EXIT_DOES_NOT_FIT):
        sys.exit(f"bench_rank_plans: trainer plan {' '.join(words)} ended with {result.returncode}:\n{result.stderr}")
    return json.loads(result.stdout), os.times().children_user - before


def row_of(planned, num_ranks, seconds):
    """Of the rank that holds most."""
    row = {"ranks": num_ranks, "plan_user_seconds": round(seconds, 4), "fits": planned["fits"],
           "step_seconds": planned["step_seconds"], "samples_per_second": planned["samples_per_second"]}
    ranks = planned.get("ranks")
    if ranks is None:
        return {**row, "part": planned["batch_size"], "kinds": 1, "peak_allocated": planned["peak_allocated"],
                "peak_reserved": planned["peak_reserved"], "communicated_bytes": 0, "communication_seconds": 0,
                "efficiency": 1, "link": None, "nodes": 1}
    highest = next(each for each in ranks["plans"] if each["first_rank"] == ranks["highest_rank"])
    return {**row, "part": highest["batch_size"], "kinds": len(ranks["plans"]),
            "peak_allocated": highest["peak_allocated"], "peak_reserved": highest["peak_reserved"],
            **{key: ranks[key] for key in ("communicated_bytes", "communication_seconds", "efficiency", "link",
                                           "nodes")}}


def table(name, rows):
    lines = [f"{name}, batches of {BATCH:,}",
             "  ranks   part   reserved      sends   takes      a step  compute     plan"]
    for row in rows:
        known = row["communication_seconds"] is not None
        takes = f"{1e3 * row['communication_seconds']:7.2f} ms" if known else "not known "
        compute = f"{100 * row['efficiency']:5.1f} %" if known else "      -"
        lines.append(f"  {row['ranks']:5,}  {row['part']:5,}  {row['peak_reserved'] / 2**20:8,.0f}M"
                     f"{' ' if row['fits'] else '!'} {row['communicated_bytes'] / 2**20:8.2f}M  {takes}"
                     f"  {1e3 * row['step_seconds']:8,.2f} ms  {compute}  {row['plan_user_seconds']:6.3f} s")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", default="h100", help="of every rank (h100)")
    parser.add_argument("--no-file", action="store_true", help="print the tables alone")
    arguments, trainer = measured_trainer(parser, 3, "plan")
    date = datetime.date.today().isoformat()
    results = {"date": date, "gpu": arguments.gpu, "batch_size": BATCH, "goal_seconds": GOAL_SECONDS, "networks": {}}
    with tempfile.TemporaryDirectory() as folder:
        for name, words in NETWORKS.items():
            rows = []
            for num_ranks in RANKS:
                all_words = [*words, f"train.batch_size={BATCH}", "--gpu", arguments.gpu, "--ranks", str(num_ranks)]
                environment = {"XDG_CACHE_HOME": folder}
                # What cuDNN answers the first one is read by the others.
                planned, _ = plan(trainer, all_words, environment)
                seconds = statistics.median(plan(trainer, all_words, environment)[1] for _ in range(arguments.runs))
                rows.append(row_of(planned, num_ranks, seconds))
            results["networks"][name] = {"words": words, "rows": rows}
            print(table(name, rows) + "\n", flush=True)
    print("M: MiB; !: does not fit")
    if not arguments.no_file:
        path = RESULTS / f"rank_plans_{date}.json"
        path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        print(f"Wrote {path.relative_to(ROOT)}")
    return any(row["plan_user_seconds"] >= GOAL_SECONDS
               for each in results["networks"].values() for row in each["rows"] if row["ranks"] == max(RANKS))


if __name__ == "__main__":
    sys.exit(main())
