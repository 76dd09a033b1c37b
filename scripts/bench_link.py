#!/usr/bin/env python3
"""Two ranks on two machines, which a slow link joins: samples a second of trainer, of trainer without parallel.overlap, and of
PyTorch's DistributedDataParallel over gloo, which overlaps as well. Writes scripts/results/link_<date>.json.

The machines are network namespaces with processes of their own, so that no rank reads another's memory, and the link is held
to --rate in each direction by a token bucket (tc, of iproute2). Needs root. Repetitions alternate, every second time in the
other order; ratios are of the runs beside each other, their median shown.
"""
import argparse
import datetime
import json
import os
import platform
import statistics
import sys
import tempfile

import bench_cpu
from bench_cpu import PYTHON, RESULTS, ROOT, TRAINER
from rank_machines import PORT, Machines

NETWORKS = ("mlp", "resnet18", "gpt_mini")


class Ours:
    def __init__(self, machines, network, name, settings):
        self.machines, self.network, self.name, self.settings = machines, network, name, settings
        self.warmup = bench_cpu.NETWORKS[network][1]
        self.step_seconds = self.run(self.warmup + 3)["step_seconds"]

    def run(self, num_steps):
        with tempfile.TemporaryDirectory() as folder:
            output = self.machines.run_ranks([TRAINER, "run", f"configs/bench/{self.network}.yaml", "--json",
                                              "parallel.data=2", "device.threads=1", f"train.steps={num_steps}",
                                              f"output={folder}/run", *self.settings])
        steps = [event for event in map(json.loads, output.splitlines()) if event["event"] == "step"][self.warmup:]
        seconds = [event["step_seconds"] for event in steps]
        return {"samples_per_second": sum(event["samples"] for event in steps) / sum(seconds),
                "step_seconds": sum(seconds) / len(seconds)}

    def repetition(self, seconds):
        return self.run(self.warmup + max(5, round(seconds / self.step_seconds)))


class Theirs:
    name = "torch DDP"

    def __init__(self, machines, network):
        self.machines, self.network = machines, network
        self.warmup = bench_cpu.NETWORKS[network][1]
        layouts = [[], ["--channels-last"]] if network not in bench_cpu.WITHOUT_LAYOUTS else [[]]
        self.options = max(layouts, key=lambda options: self.run(1.5, options)["samples_per_second"])

    def run(self, seconds, options):
        output = self.machines.run_ranks([PYTHON, ROOT / "scripts" / "bench_ranks_torch.py", self.network, "--ranks=2",
                                          f"--port={PORT}", f"--seconds={seconds}", f"--warmup-steps={self.warmup}", *options])
        return json.loads(output.splitlines()[-1])

    def repetition(self, seconds):
        return self.run(seconds, self.options)


def measure(machines, network, repetitions, seconds):
    competitors = [Ours(machines, network, "trainer", []), Ours(machines, network, "waiting", ["parallel.overlap=false"]),
                   Theirs(machines, network)]
    runs = {competitor.name: [] for competitor in competitors}
    for number in range(repetitions):
        for competitor in competitors if number % 2 == 0 else reversed(competitors):
            runs[competitor.name].append(competitor.repetition(seconds))

    def over(name):
        return statistics.median(a["samples_per_second"] / b["samples_per_second"]
                                 for a, b in zip(runs["trainer"], runs[name]))

    return {"runs": runs, "over_waiting": over("waiting"), "over_torch": over("torch DDP")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", default=NETWORKS)
    parser.add_argument("--rate", action="append", help="of the link, as tc takes it; default: 1gbit; also several")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    arguments = parser.parse_args()
    results = {"date": datetime.date.today().isoformat(), "machine": platform.processor() or platform.machine(),
               "ranks": 2, "load_before": os.getloadavg()[0], "rates": {}}
    name = f"link_{results['date']}.json"
    for rate in arguments.rate or ["1gbit"]:
        print(f"Two ranks of one thread on two machines, joined by {rate}; the median of {arguments.repetitions}\n"
              "network    ms a step  trainer over parallel.overlap=false  over torch DDP", flush=True)
        place = results["rates"].setdefault(rate, {})
        with Machines(2, rate) as machines:
            for network in arguments.networks:
                found = place[network] = measure(machines, network, arguments.repetitions, arguments.seconds)
                step = statistics.median(run["step_seconds"] for run in found["runs"]["trainer"])
                print(f"{network:<10} {1000 * step:9.1f} {found['over_waiting']:36.2f} {found['over_torch']:15.2f}", flush=True)
                results["load_after"] = os.getloadavg()[0]
                # After each, so that a stop leaves what is whole.
                (RESULTS / name).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(f"written to scripts/results/{name}")


if __name__ == "__main__":
    sys.exit(main())
