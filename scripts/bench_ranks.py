#!/usr/bin/env python3
"""Runs trainer's ranks and PyTorch's over gloo in turn, each rank a process with one thread on its part of the same batch:
samples a second and the memory of a rank. Writes scripts/results/ranks_<date>.json, with --shard ranks_shard_<date>.json.

Ranks that each hold the model stand beside DistributedDataParallel; with --shard optimizer beside that with a
ZeroRedundancyOptimizer, with --shard parameters beside FSDP2. The first losses of both must then be those of ranks that each
hold the model, of the same program. Repetitions alternate, every second time in the other order; ratios are of the runs beside
each other, their median shown.
"""
import argparse
import datetime
import functools
import json
import os
import platform
import socket
import statistics
import tempfile

import bench_cpu
from bench_cpu import MIB, PYTHON, RESULTS, ROOT, TRAINER, RunFailed, run_process
from losses import largest_difference

NETWORKS = ("mlp", "cnn", "resnet18", "gpt_mini")
SPEED_GOAL, MEMORY_GOAL = 1.3, 0.6
PEERS = {"none": "torch DDP", "optimizer": "torch DDP + ZeRO", "parameters": "torch FSDP2"}
LOSS_TOLERANCE = 1e-4


class Ranks:
    name = "trainer"

    def __init__(self, network, num_ranks, shard, settings=()):
        self.network, self.num_ranks, self.shard, self.settings = network, num_ranks, shard, settings
        self.warmup = bench_cpu.NETWORKS[network][1]
        self.first = self.run(self.warmup + 3)
        self.step_seconds = self.first["step_seconds"]

    def run(self, num_steps):
        with tempfile.TemporaryDirectory() as folder:
            output, _ = run_process(
                [str(TRAINER), "run", f"configs/bench/{self.network}.yaml", "--json", "--ranks", str(self.num_ranks),
                 f"parallel.shard={self.shard}", "device.threads=1", f"train.steps={num_steps}", f"output={folder}/run",
                 *self.settings], {"OMP_NUM_THREADS": "1"})
            ends = [json.loads(output.splitlines()[-1])]
            for rank in range(1, self.num_ranks):
                with open(f"{folder}/run/ranks/{rank}/events.jsonl", encoding="utf-8") as told:
                    ends.append(json.loads(told.read().splitlines()[-1]))
        events = [json.loads(line) for line in output.splitlines()]
        told = [event for event in events if event["event"] == "step"]
        steps = told[self.warmup:]
        seconds = [event["step_seconds"] for event in steps]
        peaks = [end["peak_resident"] for end in ends]
        programs = [next(part["bytes"] for part in end["process"]["parts"] if part["name"] == "program and libraries")
                    for end in ends]
        return {"samples_per_second": sum(event["samples"] for event in steps) / sum(seconds),
                "step_seconds": sum(seconds) / len(seconds), "best_step_seconds": min(seconds),
                "peak_bytes": max(peaks),
                "above_import_bytes": max(peak - program for peak, program in zip(peaks, programs)),
                "parameters": next(event["parameters"] for event in events if event["event"] == "start"),
                "losses": [event["loss"] for event in told[:self.warmup]]}

    def repetition(self, seconds):
        return self.run(self.warmup + max(3, round(seconds / self.step_seconds)))


class TorchRanks:
    """PyTorch's, in a script of ours; its `settings` are what makes the ranks, `options` how PyTorch is fastest on them."""

    def __init__(self, network, num_ranks, name, script, settings, options=None):
        self.network, self.num_ranks, self.name, self.script, self.settings = network, num_ranks, name, script, settings
        self.warmup = bench_cpu.NETWORKS[network][1]
        layouts = [[], ["--channels-last"]] if network not in bench_cpu.WITHOUT_LAYOUTS else [[]]
        tried = [(self.run(1.5, chosen), chosen) for chosen in (layouts if options is None else [list(options)])]
        self.first, self.options = max(tried, key=lambda one: one[0]["samples_per_second"])  # the faster layout

    def run(self, seconds, options):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        output, _ = run_process(
            [str(PYTHON), str(ROOT / "scripts" / self.script), self.network, f"--ranks={self.num_ranks}", f"--port={port}",
             f"--seconds={seconds}", f"--warmup-steps={self.warmup}", *self.settings, *options],
            {"OMP_NUM_THREADS": "1"})
        return json.loads(output.splitlines()[-1])

    def repetition(self, seconds):
        return self.run(seconds, self.options)


class TorchShards(TorchRanks):
    def __init__(self, network, num_ranks, shard, options=None):
        super().__init__(network, num_ranks, PEERS[shard], "bench_ranks_torch.py", [f"--shard={shard}"], options)


@functools.cache
def first_losses(kind, *layout, **options):
    return kind(*layout, **options).first["losses"]


def loss_difference(competitor, layout, **options):
    """Of a competitor's first losses from those of one of its kind in another layout."""
    losses, expected = competitor.first["losses"], first_losses(type(competitor), *layout, **options)
    difference = largest_difference(losses, expected)
    if difference > LOSS_TOLERANCE:
        raise RunFailed(f"{competitor.name} trains {competitor.network} to other losses where ranks share the model: "
                        f"{losses}, not {expected}")
    return difference


def loss_differences(ours, theirs, layout):
    return {ours.name: loss_difference(ours, layout),
            theirs.name: loss_difference(theirs, layout, options=tuple(theirs.options))}


def measure_pairs(what, ours, theirs, arguments):
    """All runs, and ours over theirs: the medians of pairs."""
    competitors = [ours, theirs]
    if arguments.busy:
        competitors = [bench_cpu.Beside(competitor, arguments.busy) for competitor in competitors]
    results = bench_cpu.measure(what, competitors, arguments.repetitions, arguments.seconds)
    runs = {name: result["runs"] for name, result in results.items()}

    def ratio(key):
        return statistics.median(a[key] / b[key] for a, b in zip(*runs.values()))

    return {"runs": runs, "speed": ratio("samples_per_second"), "memory": ratio("peak_bytes"),
            "memory_above_import": ratio("above_import_bytes")}


def held_by_rank(found):
    """MiB above what is there before the model, as both are told."""
    held = [statistics.median(run["above_import_bytes"] for run in runs) / MIB for runs in found["runs"].values()]
    return f"{held[0]:.0f} of {held[1]:.0f} MiB"


def verdict_of(found, speed_goal, memory_goal):
    """Of goals that are to be passed."""
    missed = [what for what, is_met in (("speed", found["speed"] > speed_goal),
                                        ("memory", found["memory_above_import"] < memory_goal)) if not is_met]
    return f"not met: {', '.join(missed)}" if missed else "met"


def measure(network, shard, arguments):
    ours, theirs = (kind(network, arguments.ranks, shard) for kind in (Ranks, TorchShards))
    found = {"options": theirs.options}
    if shard != "none":
        found["loss_difference"] = loss_differences(ours, theirs, (network, arguments.ranks, "none"))
    return {**found, **measure_pairs(f"{network}, {shard}", ours, theirs, arguments)}


def measure_all(arguments, shard):
    """Network by network: its name, and what was found."""
    print(f"{arguments.ranks} ranks of one thread, shard: {shard}, trainer over {PEERS[shard]} (gloo), the median of "
          f"{arguments.repetitions} pairs\nnetwork     speed  memory of a rank, both above what is there before the model\n"
          f"goal      ≥ {SPEED_GOAL:.2f}  ≤ {MEMORY_GOAL:.2f}", flush=True)
    for network in arguments.networks:
        found = measure(network, shard, arguments)
        print(f"{network:<10} {found['speed']:6.2f}  {found['memory_above_import']:.2f}  ({held_by_rank(found)})", flush=True)
        yield network, found


def ranks_parser(documentation, networks):
    parser = argparse.ArgumentParser(description=documentation.splitlines()[0])
    parser.add_argument("networks", nargs="*", default=list(networks), metavar="NETWORK", help=", ".join(networks))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="beside N processes that keep a core busy each")
    return parser


def parse(parser, networks):
    arguments = parser.parse_args()
    unknown = [network for network in arguments.networks if network not in networks]
    if unknown:
        parser.error(f"unknown network {unknown[0]}; there are {', '.join(networks)}")
    return arguments


class Results:
    """What is written to scripts/results/<kind>_<date>.json, with what it was measured on."""

    def __init__(self, kind, arguments, **more):
        self.told = {"date": datetime.date.today().isoformat(), "machine": platform.processor() or platform.machine(),
                     "ranks": arguments.ranks, "busy": arguments.busy, **more, "load_before": os.getloadavg()[0]}
        self.name = (f"{kind}_{self.told['date']}{f'_{arguments.ranks}_ranks' if arguments.ranks != 2 else ''}"
                     f"{'_busy' if arguments.busy else ''}.json")

    def write(self):
        """After each measurement, so that a stop leaves what is whole."""
        self.told["load_after"] = os.getloadavg()[0]
        (RESULTS / self.name).write_text(json.dumps(self.told, indent=1) + "\n", encoding="utf-8")


def main():
    parser = ranks_parser(__doc__, NETWORKS)
    parser.add_argument("--shard", choices=[level for level in PEERS if level != "none"], action="append", metavar="LEVEL",
                        help="optimizer or parameters, also both: ranks that share the model")
    arguments = parse(parser, NETWORKS)
    results = Results("ranks_shard" if arguments.shard else "ranks", arguments)
    places = {"none": results.told} if not arguments.shard else {shard: {} for shard in arguments.shard}
    if arguments.shard:
        results.told["shards"] = places
    for shard, place in places.items():
        place["networks"] = {}
        for network, found in measure_all(arguments, shard):
            place["networks"][network] = found
            results.write()
    print(f"written to scripts/results/{results.name}")


if __name__ == "__main__":
    main()
