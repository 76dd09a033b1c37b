#!/usr/bin/env python3
"""What `trainer plan` predicts of ranks beside what they do, on CPUs: the bytes that a rank sends in a step, and the share of
a step in which the stages of a pipeline wait. Writes scripts/results/rank_predictions_<date>.json; ends with 1 where one is
further from the other than 15 %, of the bytes or of a step's time.

Bytes are those that the system counts on the links between machines (rank_machines.py; needs root), the difference of a longer
and a shorter run, of the rank that sends most, which is the one that a plan tells.

Waiting is what the system counts as neither running nor ready to run, of the thread that trains: who waits for a message
sleeps, and does not spin. Time in which a rank is ready but other work has its core does not count, but other
work leaves more to a stage that computes alone, so that less waiting is measured beside it: of several runs the one counts in
which ranks were ready least. A plan knows no links of CPUs, so its messages take no time.
"""
import argparse
import collections
import datetime
import json
import os
import pathlib
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from bench_cpu import RESULTS, RunFailed
from rank_machines import Machines
from trainer_events import ROOT, Trainer, TrainerFailed, field

MOST_DIFFERENCE = 0.15
MLP = ["configs/bench/mlp.yaml"]
GPT = ["configs/bench/gpt_mini.yaml", "model.with.depth=4", "model.with.width=256", "model.with.heads=4"]
FEW_STEPS, MORE_STEPS = 4, 20
BYTES_LAYOUTS = {"pipeline": ["parallel.pipeline=2"], "interleaved": ["parallel.pipeline=2", "parallel.schedule=interleaved"],
                 "tensor": ["parallel.tensor=2"], "data x tensor": ["parallel.data=2", "parallel.tensor=2"],
                 "data x pipeline": ["parallel.data=2", "parallel.pipeline=2"],
                 "sharded data x pipeline": ["parallel.data=2", "parallel.pipeline=2", "parallel.shard=gradients",
                                             "parallel.micro_batches=4"],
                 "tensor x pipeline": ["parallel.tensor=2", "parallel.pipeline=2"]}
SCHEDULES = {"gpipe": "[h.2]", "1f1b": "[h.2]", "zero_bubble": "[h.2]", "interleaved": "[h.1, h.2, h.3]"}
NUM_STAGES = 2
WARMUP_STEPS = 3
Spent = collections.namedtuple("Spent", "running ready at")  # seconds


def check_bytes(trainer, network, settings):
    words = [*network, "device.threads=1", "parallel.ranks_per_node=1", *settings]
    plan = trainer.plan(*words, f"train.steps={MORE_STEPS}")
    ranks = field(plan, "ranks")
    num_ranks = sum(field(part, "num_ranks") for part in ranks["plans"])
    sent = []
    with Machines(num_ranks) as machines, tempfile.TemporaryDirectory() as folder:
        for num_steps in (FEW_STEPS, MORE_STEPS):
            before = machines.sent_bytes()
            machines.run_ranks([trainer.binary, "run", "-q", *words, f"train.steps={num_steps}", f"output={folder}/{num_steps}"])
            sent.append([after - former for after, former in zip(machines.sent_bytes(), before)])
    measured = [(more - few) / (MORE_STEPS - FEW_STEPS) for few, more in zip(*sent)]
    predicted = field(ranks, "communicated_bytes")
    return {"ranks": num_ranks, "predicted_bytes": predicted, "measured_bytes": measured,
            "difference": max(measured) / predicted - 1}


def spent(process):
    """Of the thread that began it."""
    running, ready = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/schedstat").read_text("ascii").split()[:2]
    return Spent(int(running) / 1e9, int(ready) / 1e9, time.monotonic())


def start_ranks(trainer, words):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return [subprocess.Popen([trainer.binary, "run", *words, *(["--json"] if rank == 0 else ["-q"])], cwd=ROOT, text=True,
                             stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
                             env={**os.environ, "OMP_NUM_THREADS": "1", "RANK": str(rank), "WORLD_SIZE": str(NUM_STAGES),
                                  "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(NUM_STAGES), "MASTER_ADDR": "127.0.0.1",
                                  "MASTER_PORT": str(port)}) for rank in range(NUM_STAGES)]


def measure_waiting(trainer, words, num_steps):
    """Of all ranks' time, between the ends of the last step of the warm-up and of the last but one."""
    with tempfile.TemporaryDirectory() as folder:
        ranks = start_ranks(trainer, [*words, f"train.steps={num_steps}", f"output={folder}/run"])
        counts = []
        with ranks[0].stdout as told:
            for event in map(json.loads, told):
                if event["event"] == "step" and event["step"] in (WARMUP_STEPS, num_steps - 1):
                    counts.append([spent(rank) for rank in ranks])
        if any(rank.wait() != 0 for rank in ranks) or len(counts) != 2:
            raise RunFailed(f"{' '.join(words)} did not end well")
    shares = [1 - (end.running - begin.running + end.ready - begin.ready) / (end.at - begin.at) for begin, end in zip(*counts)]
    wall = counts[1][0].at - counts[0][0].at
    return {"waiting": statistics.mean(shares), "by_rank": shares,
            "ready": statistics.mean(end.ready - begin.ready for begin, end in zip(*counts)) / wall,
            "step_seconds": wall / (num_steps - 1 - WARMUP_STEPS)}


def check_waiting(trainer, schedule, micro_batches, arguments):
    words = [*GPT, "device.threads=1", f"parallel.pipeline={NUM_STAGES}", f"parallel.micro_batches={micro_batches}",
             f"parallel.schedule={schedule}", f"parallel.cut={SCHEDULES[schedule]}"]
    plan = trainer.plan(*words)
    computing = sum(field(part, "compute_seconds") * part["num_ranks"] for part in field(plan, "ranks")["plans"])
    predicted = 1 - computing / (NUM_STAGES * field(plan, "step_seconds"))
    runs = [measure_waiting(trainer, words, arguments.steps) for _ in range(arguments.repetitions)]
    measured = min(runs, key=lambda run: run["ready"])["waiting"]
    return {"predicted_bubble": field(plan["ranks"], "bubble"), "predicted_waiting": predicted, "rates": plan["rates"]["origin"],
            "measured_waiting": measured, "difference": measured - predicted, "runs": runs}


def verdict(found):
    found["within"] = abs(found["difference"]) <= MOST_DIFFERENCE
    return "" if found["within"] else "  off by more than 15 %"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", default=["bytes", "waiting"], help="bytes, waiting; both where neither is named")
    parser.add_argument("--trainer", help="the program to measure; scripts/trainer where not given")
    parser.add_argument("--micro-batches", type=int, action="append", help="of a step that waits, also several; 2, 4 and 8")
    parser.add_argument("--steps", type=int, default=24, help="of a run of which waiting is measured")
    parser.add_argument("--repetitions", type=int, default=3, help="of these")
    arguments = parser.parse_args()
    if set(arguments.what) - {"bytes", "waiting"}:
        parser.error("there are bytes and waiting")
    trainer = Trainer(arguments.trainer)
    results = {"date": datetime.date.today().isoformat(), "machine": platform.processor() or platform.machine(),
               "load_before": os.getloadavg()[0], "bytes": {}, "waiting": {}}
    name = f"rank_predictions_{results['date']}.json"

    def keep(place, key, found):
        place[key] = found
        results["load_after"] = os.getloadavg()[0]
        # After each, so that a stop leaves what is whole.
        (RESULTS / name).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")

    if "bytes" in arguments.what:
        print("bytes that the rank that sends most sends in a step\n"
              f"{'network':<9}{'layout':<25}{'ranks':>5}{'predicted':>14}{'measured':>14}", flush=True)
        for network, words in {"mlp": MLP, "gpt": GPT}.items():
            for layout, settings in BYTES_LAYOUTS.items():
                if layout == "interleaved" and network == "mlp":
                    continue  # which has no four parts
                found = check_bytes(trainer, words, settings)
                print(f"{network:<9}{layout:<25}{found['ranks']:>5}{found['predicted_bytes']:>14,}"
                      f"{max(found['measured_bytes']):>14,.0f}{found['difference']:>+8.1%}{verdict(found)}", flush=True)
                keep(results["bytes"].setdefault(network, {}), layout, found)
    if "waiting" in arguments.what:
        print(f"share of a step in which {NUM_STAGES} stages wait, of {arguments.repetitions} runs the least disturbed\n"
              f"{'schedule':<13}{'micro-batches':>13}{'predicted':>11}{'measured':>10}", flush=True)
        for schedule in SCHEDULES:
            for micro_batches in arguments.micro_batches or (2, 4, 8):
                found = check_waiting(trainer, schedule, micro_batches, arguments)
                print(f"{schedule:<13}{micro_batches:>13}{found['predicted_waiting']:>11.1%}{found['measured_waiting']:>10.1%}"
                      f"{verdict(found)}", flush=True)
                keep(results["waiting"].setdefault(schedule, {}), str(micro_batches), found)
    print(f"written to scripts/results/{name}")
    groups = [*results["bytes"].values(), *results["waiting"].values()]
    return 0 if all(found["within"] for group in groups for found in group.values()) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RunFailed, TrainerFailed) as failure:
        sys.exit(f"check_rank_predictions: {failure}")
