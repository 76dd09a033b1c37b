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
import subprocess
import sys
import tempfile

import bench_cpu
from bench_cpu import PYTHON, RESULTS, ROOT, TRAINER, RunFailed

NETWORKS = ("mlp", "resnet18", "gpt_mini")
NAMES = [f"bench{os.getpid()}{side}" for side in "ab"]
LINKS = [f"bl{os.getpid()}{side}" for side in "ab"]  # at most 15 letters
ADDRESSES = ["198.18.78.1", "198.18.78.2"]
PORT = 29877
MACHINE = ["unshare", "--uts", "--pid", "--fork", "--mount-proc", "--kill-child"]


def command(*words):
    subprocess.run(words, check=True, capture_output=True)


def make_machines(rate):
    for name in NAMES:
        command("ip", "netns", "add", name)
    command("ip", "link", "add", LINKS[0], "netns", NAMES[0], "type", "veth", "peer", "name", LINKS[1], "netns", NAMES[1])
    for name, link, address in zip(NAMES, LINKS, ADDRESSES):
        command("ip", "-n", name, "addr", "add", f"{address}/24", "dev", link)
        command("ip", "-n", name, "link", "set", link, "up")
        command("ip", "-n", name, "link", "set", "lo", "up")
        command("tc", "-n", name, "qdisc", "add", "dev", link, "root", "tbf", "rate", rate, "burst", "256kb", "latency", "50ms")


def remove_machines():
    for name in NAMES:  # the link goes with them
        subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def run_ranks(words):
    """What rank 0 of a command prints; both run it."""
    ranks = []
    for rank, name in enumerate(NAMES):
        environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
                       "MASTER_ADDR": ADDRESSES[0], "MASTER_PORT": str(PORT), "OMP_NUM_THREADS": "1",
                       "GLOO_SOCKET_IFNAME": LINKS[rank]}
        ranks.append(subprocess.Popen(["ip", "netns", "exec", name, *MACHINE, *map(str, words)], env=environment, cwd=ROOT,
                                      text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    told = [rank.communicate() for rank in ranks]
    for rank, (_, errors) in zip(ranks, told):
        if rank.returncode != 0:
            raise RunFailed(f"{' '.join(map(str, words))} failed:\n{errors}")
    return told[0][0]


class Ours:
    def __init__(self, network, name, settings):
        self.network, self.name, self.settings = network, name, settings
        self.warmup = bench_cpu.NETWORKS[network][1]
        self.step_seconds = self.run(self.warmup + 3)["step_seconds"]

    def run(self, num_steps):
        with tempfile.TemporaryDirectory() as folder:
            output = run_ranks([TRAINER, "run", f"configs/bench/{self.network}.yaml", "--json", "parallel.data=2",
                                "device.threads=1", f"train.steps={num_steps}", f"output={folder}/run", *self.settings])
        steps = [event for event in map(json.loads, output.splitlines()) if event["event"] == "step"][self.warmup:]
        seconds = [event["step_seconds"] for event in steps]
        return {"samples_per_second": sum(event["samples"] for event in steps) / sum(seconds),
                "step_seconds": sum(seconds) / len(seconds)}

    def repetition(self, seconds):
        return self.run(self.warmup + max(5, round(seconds / self.step_seconds)))


class Theirs:
    name = "torch DDP"

    def __init__(self, network):
        self.network = network
        self.warmup = bench_cpu.NETWORKS[network][1]
        layouts = [[], ["--channels-last"]] if network not in bench_cpu.WITHOUT_LAYOUTS else [[]]
        self.options = max(layouts, key=lambda options: self.run(1.5, options)["samples_per_second"])

    def run(self, seconds, options):
        output = run_ranks([PYTHON, ROOT / "scripts" / "bench_ranks_torch.py", self.network, "--ranks=2", f"--port={PORT}",
                            f"--seconds={seconds}", f"--warmup-steps={self.warmup}", *options])
        return json.loads(output.splitlines()[-1])

    def repetition(self, seconds):
        return self.run(seconds, self.options)


def measure(network, repetitions, seconds):
    competitors = [Ours(network, "trainer", []), Ours(network, "waiting", ["parallel.overlap=false"]), Theirs(network)]
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
        make_machines(rate)
        try:
            for network in arguments.networks:
                found = place[network] = measure(network, arguments.repetitions, arguments.seconds)
                step = statistics.median(run["step_seconds"] for run in found["runs"]["trainer"])
                print(f"{network:<10} {1000 * step:9.1f} {found['over_waiting']:36.2f} {found['over_torch']:15.2f}", flush=True)
                results["load_after"] = os.getloadavg()[0]
                # After each, so that a stop leaves what is whole.
                (RESULTS / name).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        finally:
            remove_machines()
    print(f"written to scripts/results/{name}")


if __name__ == "__main__":
    sys.exit(main())
