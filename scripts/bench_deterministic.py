#!/usr/bin/env python3
"""What parallel.deterministic costs: trainer with it and without, in turn, each rank a process with one thread on its part of
the same batch: how long a step takes, and the memory of a rank, as ratios of runs beside each other, their median shown. The
first losses of all that have as many parts must be the same bits, whatever the number of ranks. Writes
scripts/results/deterministic_<date>.json.
"""
import argparse
import datetime
import json
import os
import platform
import statistics

import bench_ranks
from bench_cpu import RESULTS, RunFailed

GOAL = 1.05
# Parts of a batch, number of ranks.
CASES = ((2, 2), (8, 2), (8, 1))


def settings_of(parts):
    return ("parallel.deterministic=true", f"parallel.parts={parts}")


def measure(network, parts, num_ranks, repetitions, seconds):
    competitors = [bench_ranks.Ranks(network, num_ranks, "none", settings_of(parts)),
                   bench_ranks.Ranks(network, num_ranks, "none")]
    runs = ([], [])
    for number in range(repetitions):
        for which in (0, 1) if number % 2 == 0 else (1, 0):
            runs[which].append(competitors[which].repetition(seconds))
    return {"runs": runs, "losses": competitors[0].first["losses"],
            "time": statistics.median(b["samples_per_second"] / a["samples_per_second"] for a, b in zip(*runs)),
            "memory": statistics.median(a["above_import_bytes"] / b["above_import_bytes"] for a, b in zip(*runs))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", default=bench_ranks.NETWORKS)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    arguments = parser.parse_args()
    results = {"date": datetime.date.today().isoformat(), "machine": platform.processor() or platform.machine(),
               "load_before": os.getloadavg()[0], "networks": {}}
    name = f"deterministic_{results['date']}.json"
    print(f"deterministic over not, ranks of one thread, the median of {arguments.repetitions} pairs (goal: time ≤ {GOAL})\n"
          "network     parts  ranks  time of a step  memory above what is there before the model", flush=True)
    for network in arguments.networks:
        found = results["networks"][network] = {}
        losses = {}
        for parts, num_ranks in CASES:
            one = found[f"{parts} parts, {num_ranks} ranks"] = measure(network, parts, num_ranks, arguments.repetitions,
                                                                      arguments.seconds)
            print(f"{network:<10} {parts:6} {num_ranks:6}  {one['time']:14.2f}  {one['memory']:.2f}", flush=True)
            if losses.setdefault(parts, one["losses"]) != one["losses"]:
                raise RunFailed(f"{network} of {parts} parts has other losses on {num_ranks} ranks: {one['losses']}, not "
                                f"{losses[parts]}")
            results["load_after"] = os.getloadavg()[0]
            # After each, so that a stop leaves what is whole.
            (RESULTS / name).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(f"written to scripts/results/{name}")


if __name__ == "__main__":
    main()
