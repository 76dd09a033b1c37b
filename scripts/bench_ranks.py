#!/usr/bin/env python3
"""Runs trainer's ranks and PyTorch's DistributedDataParallel over gloo in turn, each rank a process with one thread on its
part of the same batch: samples a second and the memory of a rank. Writes scripts/results/ranks_<date>.json.

Repetitions alternate, every second time in the other order; ratios are of the runs beside each other, their median shown.
"""
import argparse
import datetime
import json
import platform
import socket
import statistics
import tempfile

import bench_cpu
from bench_cpu import MIB, PYTHON, RESULTS, ROOT, TRAINER, RunFailed, run_process

NETWORKS = ("mlp", "cnn", "resnet18", "gpt_mini")
SPEED_GOAL, MEMORY_GOAL = 1.3, 0.6


class Ranks:
    name = "trainer"

    def __init__(self, network, num_ranks):
        self.network, self.num_ranks = network, num_ranks
        self.warmup = bench_cpu.NETWORKS[network][1]
        self.step_seconds = self.run(self.warmup + 5)["step_seconds"]

    def run(self, num_steps):
        with tempfile.TemporaryDirectory() as folder:
            output, _ = run_process(
                [str(TRAINER), "run", f"configs/bench/{self.network}.yaml", "--json", "--ranks", str(self.num_ranks),
                 "device.threads=1", f"train.steps={num_steps}", f"output={folder}/run"], {"OMP_NUM_THREADS": "1"})
            ends = [json.loads(output.splitlines()[-1])]
            for rank in range(1, self.num_ranks):
                with open(f"{folder}/run/ranks/{rank}/events.jsonl", encoding="utf-8") as told:
                    ends.append(json.loads(told.read().splitlines()[-1]))
        events = [json.loads(line) for line in output.splitlines()]
        steps = [event for event in events if event["event"] == "step"][self.warmup:]
        seconds = [event["step_seconds"] for event in steps]
        peaks = [end["peak_resident"] for end in ends]
        programs = [next(part["bytes"] for part in end["process"]["parts"] if part["name"] == "program and libraries")
                    for end in ends]
        return {"samples_per_second": sum(event["samples"] for event in steps) / sum(seconds),
                "step_seconds": sum(seconds) / len(seconds), "best_step_seconds": min(seconds),
                "peak_bytes": max(peaks),
                "above_import_bytes": max(peak - program for peak, program in zip(peaks, programs)),
                "parameters": next(event["parameters"] for event in events if event["event"] == "start")}

    def repetition(self, seconds):
        return self.run(self.warmup + max(3, round(seconds / self.step_seconds)))


class DataParallel:
    name = "torch DDP"

    def __init__(self, network, num_ranks):
        self.network, self.num_ranks = network, num_ranks
        self.warmup = bench_cpu.NETWORKS[network][1]
        self.options = []
        if network not in bench_cpu.WITHOUT_LAYOUTS:  # the faster of the two
            speeds = [self.run(1.5, options)["samples_per_second"] for options in ([], ["--channels-last"])]
            self.options = ["--channels-last"] if speeds[1] > speeds[0] else []

    def run(self, seconds, options):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        output, _ = run_process(
            [str(PYTHON), str(ROOT / "scripts" / "bench_ranks_torch.py"), self.network, f"--ranks={self.num_ranks}",
             f"--port={port}", f"--seconds={seconds}", f"--warmup-steps={self.warmup}", *options], {"OMP_NUM_THREADS": "1"})
        return json.loads(output.splitlines()[-1])

    def repetition(self, seconds):
        return self.run(seconds, self.options)


def measure(network, num_ranks, repetitions, seconds, num_busy):
    competitors = [Ranks(network, num_ranks), DataParallel(network, num_ranks)]
    if num_busy:
        competitors = [bench_cpu.Beside(competitor, num_busy) for competitor in competitors]
    runs = {competitor.name: [] for competitor in competitors}
    for number in range(repetitions):
        for competitor in competitors if number % 2 == 0 else reversed(competitors):
            runs[competitor.name].append(competitor.repetition(seconds))
    ours, theirs = runs["trainer"], runs["torch DDP"]
    if ours[0]["parameters"] != theirs[0]["parameters"]:
        raise RunFailed(f"the programs do not train the same {network}")

    def ratio(key):
        return statistics.median(a[key] / b[key] for a, b in zip(ours, theirs))

    return {"runs": runs, "speed": ratio("samples_per_second"), "memory": ratio("peak_bytes"),
            "memory_above_import": ratio("above_import_bytes")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="beside N processes that keep a core busy each")
    arguments = parser.parse_args()
    results = {"date": datetime.date.today().isoformat(), "machine": platform.processor() or platform.machine(),
               "ranks": arguments.ranks, "busy": arguments.busy, "networks": {}}
    print(f"{arguments.ranks} ranks of one thread, trainer over PyTorch's DDP (gloo), the median of "
          f"{arguments.repetitions} pairs\nnetwork     speed  memory of a rank, both above what is there before the model\n"
          f"goal      ≥ {SPEED_GOAL:.2f}  ≤ {MEMORY_GOAL:.2f}")
    for network in arguments.networks:
        found = measure(network, arguments.ranks, arguments.repetitions, arguments.seconds, arguments.busy)
        results["networks"][network] = found
        held = [statistics.median(run["above_import_bytes"] for run in found["runs"][name]) / MIB
                for name in ("trainer", "torch DDP")]
        print(f"{network:<10} {found['speed']:6.2f}  {found['memory_above_import']:.2f}  ({held[0]:.0f} of {held[1]:.0f} MiB)",
              flush=True)
    name = f"ranks_{results['date']}{'_busy' if arguments.busy else ''}.json"
    (RESULTS / name).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(f"written to scripts/results/{name}")


if __name__ == "__main__":
    main()
