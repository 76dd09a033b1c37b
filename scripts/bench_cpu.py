#!/usr/bin/env python3
"""Runs trainer and PyTorch (eager, and torch.compile where it works), or two builds of trainer, in turn; see bench_cpu.sh.
With --busy beside processes that keep a core busy each.

One repetition is one process of its own, warmed up, then timed for some seconds. Repetitions alternate between the
programs, every second time in the other order, because identical runs differ by up to 1.5× on a shared machine; the best
one is shown beside the median.
"""
import argparse
import copy
import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile

from child_process import end_group, start

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "scripts" / "results"
PYTHON = ROOT / ".venv" / "bin" / "python"
TRAINER = ROOT / "scripts" / "trainer"
NUM_THREADS = 2
# Batch size, warm-up steps and the goal: trainer's speed over the faster PyTorch. The networks: configs/bench/.
NETWORKS = {"mlp": (128, 10, 1.5), "cnn": (64, 10, 1.3), "resnet18": (64, 3, 1.2), "resnet50_64": (16, 3, 1.2),
            "unet_128": (4, 3, 1.2), "gpt_mini": (8, 3, 1.3), "gpt2_124m": (4, 3, 1.3)}
# Without images, which PyTorch may keep in either of two layouts.
WITHOUT_LAYOUTS = ("mlp", "gpt_mini", "gpt2_124m")
MEMORY_GOAL = 0.5
# Beside busy processes: trainer's speed over the faster PyTorch's; its time over its own on an idle machine, with one
# busy process beside its two threads on two cores.
BUSY_SPEED_GOAL, BUSY_SLOWDOWN_GOAL = 1.0, 2.2
IDLE = "trainer, idle"
OTHER = "other build"
MIB = 1024 * 1024


class RunFailed(Exception):
    pass


def run_process(command, environment):
    """(stdout, peak resident bytes of that process); raises RunFailed with the end of its stderr."""
    with tempfile.TemporaryFile("w+") as errors:
        with subprocess.Popen(command, cwd=ROOT, env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=errors, text=True) as process:
            output = process.stdout.read()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            errors.seek(0)
            raise RunFailed("\n".join(errors.read().splitlines()[-5:]))
    return output, usage.ru_maxrss * 1024


class Trainer:
    def __init__(self, network, name="trainer", binary=None):
        self.network, self.name, self.binary = network, name, binary or TRAINER
        self.batch, self.warmup, _ = NETWORKS[network]
        # Long enough to be past the first steps, whose time would misjudge the rest.
        self.step_seconds = self.run(self.warmup + 5)["step_seconds"]

    def run(self, num_steps):
        with tempfile.TemporaryDirectory() as folder:
            output, peak = run_process(
                [str(self.binary), "run", f"configs/bench/{self.network}.yaml", "--json",
                 f"device.threads={NUM_THREADS}", f"train.steps={num_steps}", f"output={folder}/run"],
                {"OMP_NUM_THREADS": str(NUM_THREADS)})
        events = [json.loads(line) for line in output.splitlines()]
        steps = [event for event in events if event["event"] == "step"][self.warmup:]
        if not steps:
            raise RunFailed(f"{self.name} printed no step event after the {self.warmup} of the warm-up")
        seconds = [event["step_seconds"] for event in steps]
        return {"samples_per_second": sum(event["samples"] for event in steps) / sum(seconds),
                "step_seconds": sum(seconds) / len(seconds), "best_step_seconds": min(seconds), "peak_bytes": peak,
                "parameters": next(event["parameters"] for event in events if event["event"] == "start")}

    def repetition(self, seconds):
        return self.run(self.warmup + max(3, round(seconds / self.step_seconds)))


class PyTorch:
    def __init__(self, network, mode):
        self.name = f"torch {mode}"
        self.network, self.mode = network, mode
        self.warmup = NETWORKS[network][1]
        self.options = []
        if network not in WITHOUT_LAYOUTS:  # the faster of the two
            speeds = [self.run(1.5, options)["samples_per_second"] for options in ([], ["--channels-last"])]
            self.options = ["--channels-last"] if speeds[1] > speeds[0] else []

    def run(self, seconds, options):
        output, _ = run_process(
            [str(PYTHON), str(ROOT / "scripts" / "bench_cpu_torch.py"), self.network, self.mode,
             f"--seconds={seconds}", f"--warmup-steps={self.warmup}", *options],
            {"OMP_NUM_THREADS": str(NUM_THREADS), "TORCHINDUCTOR_COMPILE_THREADS": "1",
             "TORCHINDUCTOR_CACHE_DIR": str(ROOT / "build" / "torchinductor")})
        return json.loads(output.splitlines()[-1])

    def repetition(self, seconds):
        return self.run(seconds, self.options)


class Beside:
    """A competitor that runs while `num_busy` other processes keep a core busy each."""
    def __init__(self, competitor, num_busy):
        self.competitor, self.name, self.num_busy = competitor, competitor.name, num_busy
        self.options = getattr(competitor, "options", None)

    def repetition(self, seconds):
        busy = [start([sys.executable, "-IS", "-c", "while True: pass"]) for _ in range(self.num_busy)]
        try:
            return self.competitor.repetition(seconds)
        finally:
            for process in busy:
                end_group(process)


def make_busy_competitors(network, num_busy):
    """trainer as it is idle, and everyone beside the busy processes."""
    competitors = make_competitors(network)
    idle = copy.copy(competitors[0])
    idle.name = IDLE
    return [idle] + [Beside(competitor, num_busy) for competitor in competitors]


def make_competitors(network):
    competitors = [Trainer(network), PyTorch(network, "eager")]
    try:
        competitors.append(PyTorch(network, "compile"))
    except RunFailed as failure:
        print(f"{network}: torch.compile does not work here: {str(failure).splitlines()[-1:]}", file=sys.stderr)
    return competitors


def summary_of(runs):
    speeds = [run["samples_per_second"] for run in runs]
    peaks = [run["peak_bytes"] for run in runs]
    result = {"samples_per_second_median": statistics.median(speeds), "samples_per_second_best": max(speeds),
              "step_seconds_median": statistics.median(run["step_seconds"] for run in runs),
              "step_seconds_best": min(run["best_step_seconds"] for run in runs),
              "peak_bytes": round(statistics.median(peaks)), "runs": runs}
    if "imported_bytes" in runs[0]:
        result["peak_above_import_bytes"] = round(statistics.median(run["peak_bytes"] - run["imported_bytes"]
                                                                    for run in runs))
    return result


def measure(network, competitors, repetitions, seconds):
    runs = {competitor.name: [] for competitor in competitors}
    for number in range(repetitions):
        for competitor in competitors if number % 2 == 0 else reversed(competitors):
            print(f"{network}: repetition {number + 1} of {repetitions}, {competitor.name}     ", end="\r",
                  file=sys.stderr, flush=True)
            runs[competitor.name].append(competitor.repetition(seconds))
    print(" " * 70, end="\r", file=sys.stderr)
    parameters = {run["parameters"] for results in runs.values() for run in results}
    if len(parameters) != 1:
        raise RunFailed(f"the programs do not train the same {network}: parameters {sorted(parameters)}")
    results = {name: summary_of(results) for name, results in runs.items()}
    for competitor in competitors:
        if getattr(competitor, "options", None):
            results[competitor.name]["options"] = competitor.options
    return results


def ratios_of(network, results):
    """trainer over PyTorch: the speed against the faster of its modes, the memory against the one that takes less."""
    trainer = results["trainer"]
    peers = [result for name, result in results.items() if name != "trainer"]

    def speed(key):
        return trainer[key] / max(peer[key] for peer in peers)

    return {"speed_median": speed("samples_per_second_median"), "speed_best": speed("samples_per_second_best"),
            "speed_goal": NETWORKS[network][2],
            "memory": trainer["peak_bytes"] / min(peer["peak_bytes"] for peer in peers),
            "memory_above_import": trainer["peak_bytes"] / min(peer["peak_above_import_bytes"] for peer in peers),
            "memory_goal": MEMORY_GOAL}


def ratios_of_builds(results):
    """This build over the other: of the runs that stood beside each other, the median of their ratios; and of the best."""
    new, old = results["trainer"], results[OTHER]

    def pairs(key):
        return statistics.median(a[key] / b[key] for a, b in zip(new["runs"], old["runs"]))

    return {"speed_median_of_pairs": pairs("samples_per_second"), "memory_median_of_pairs": pairs("peak_bytes"),
            "speed_best": new["samples_per_second_best"] / old["samples_per_second_best"]}


def ratios_of_busy(results):
    """Beside busy processes: the speed over the faster PyTorch's, and the time a step over that of the idle run beside
    it, the median of both over the repetitions."""
    trainer, idle = results["trainer"]["runs"], results[IDLE]["runs"]
    peers = [result["runs"] for name, result in results.items() if name not in ("trainer", IDLE)]
    speeds = [run["samples_per_second"] / max(peer["samples_per_second"] for peer in others)
              for run, *others in zip(trainer, *peers)]
    return {"speed_median_of_turns": statistics.median(speeds), "speed_goal": BUSY_SPEED_GOAL,
            "slowdown_median_of_turns": statistics.median(a["step_seconds"] / b["step_seconds"]
                                                          for a, b in zip(trainer, idle)),
            "slowdown_goal": BUSY_SLOWDOWN_GOAL}


def print_busy(network, results, ratios, num_busy):
    print_network(network, results)
    speed, slowdown = ratios["speed_median_of_turns"], ratios["slowdown_median_of_turns"]
    print(f"  beside {num_busy} busy: speed {speed:.2f}x of the faster PyTorch beside as many, goal >= {BUSY_SPEED_GOAL}x: "
          f"{'met' if speed >= BUSY_SPEED_GOAL else 'not met'}")
    # The goal is for as many threads as cores, and one of them shared.
    judged = num_busy == 1 and len(os.sched_getaffinity(0)) == NUM_THREADS
    verdict = ("met" if slowdown <= BUSY_SLOWDOWN_GOAL else "not met") if judged else "for one busy process on two cores"
    print(f"  time a step {slowdown:.2f}x of its own idle, goal <= {BUSY_SLOWDOWN_GOAL}x: {verdict}")


def print_builds(network, results, ratios):
    print_network(network, results)
    print(f"  speed {ratios['speed_median_of_pairs']:.3f}x of the other build by the median of pairs, "
          f"{ratios['speed_best']:.3f}x by the best of each; memory {ratios['memory_median_of_pairs']:.3f}x")


def print_network(network, results):
    print(f"\n{network}, batch {NETWORKS[network][0]}")
    print(f"  {'':14}{'samples/s':>11}{'best':>10}{'ms/step':>10}{'best':>9}{'peak MiB':>10}{'above import':>14}")
    for name, result in results.items():
        above = result.get("peak_above_import_bytes")
        print(f"  {name:14}{result['samples_per_second_median']:11.1f}{result['samples_per_second_best']:10.1f}"
              f"{result['step_seconds_median'] * 1e3:10.2f}{result['step_seconds_best'] * 1e3:9.2f}"
              f"{result['peak_bytes'] / MIB:10.0f}" + (f"{above / MIB:14.0f}" if above is not None else ""))


def print_goals(network, results, ratios):
    print_network(network, results)
    print(f"  speed {ratios['speed_median']:.2f}x (best {ratios['speed_best']:.2f}x) of the faster PyTorch, "
          f"goal >= {ratios['speed_goal']}x: {'met' if ratios['speed_median'] >= ratios['speed_goal'] else 'not met'}")
    for key, what in ("memory", "of the smaller PyTorch"), ("memory_above_import", "of what it takes above import"):
        print(f"  memory {ratios[key]:.2f}x {what}, goal <= {MEMORY_GOAL}x: "
              f"{'met' if ratios[key] <= MEMORY_GOAL else 'not met'}")


def first_line(command):
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return result.stdout.strip().splitlines()[0] if result.returncode == 0 and result.stdout.strip() else ""


def environment(asks_trainer=True):
    """The machine and the versions, without names of hosts or folders."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        cpu = re.search(r"^model name\s*:\s*(.*)$", file.read(), re.MULTILINE)
    with open("/etc/os-release", encoding="utf-8") as file:
        system = re.search(r'^PRETTY_NAME="?([^"\n]*)', file.read(), re.MULTILINE)
    torch = first_line([str(PYTHON), "-c", "import torch; print(torch.__version__)"]) if PYTHON.exists() else ""
    onednn = first_line(["dpkg-query", "-W", "-f", "${Version}", "libdnnl-dev"])
    changed = first_line(["git", "status", "--porcelain", "--untracked-files=no"])
    return {"cpu": cpu.group(1) if cpu else platform.machine(), "num_cpus": len(os.sched_getaffinity(0)),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "system": system.group(1) if system else "",
            "trainer": first_line([str(TRAINER), "--version"]) if asks_trainer else "",
            "commit": first_line(["git", "rev-parse", "--short", "HEAD"]) + ("+changes" if changed else ""),
            "compiler": first_line(["g++", "--version"]), "libdnnl": onednn, "torch": torch, "threads": NUM_THREADS}


def write(report, name):
    path = pathlib.Path(name) if "/" in name else RESULTS / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(f"\nwritten to {path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0, help="timed part of one repetition")
    parser.add_argument("--busy", type=int, default=0, metavar="N",
                        help="beside N processes that keep a core busy each; trainer idle stands beside it")
    parser.add_argument("--against", type=pathlib.Path, metavar="BINARY",
                        help="in PyTorch's place another build of trainer: has this one become slower?")
    parser.add_argument("--keep", metavar="FILE",
                        help="with --against: where the figures go, in scripts/results/ if it names no folder; else nowhere")
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"{', '.join(NETWORKS)}; all where none is named")
    arguments = parser.parse_args()
    unknown = set(arguments.networks) - set(NETWORKS)
    if unknown:
        parser.error(f"unknown network {sorted(unknown)[0]}; there are {', '.join(NETWORKS)}")
    other = arguments.against and arguments.against.resolve()
    if other and not os.access(other, os.X_OK):
        parser.error(f"--against: {arguments.against} is no program")
    if arguments.busy < 0 or (arguments.busy and other):
        parser.error("--busy takes a number of processes, and not --against")
    if arguments.keep and not other:
        parser.error("--keep is for --against; figures beside PyTorch's are always kept")

    report = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "environment": environment(), "load_before": os.getloadavg()[0], "networks": {}}
    if arguments.busy:
        report["busy"] = arguments.busy
    if other:
        report["against"] = first_line([str(other), "--version"])
    try:
        for network in arguments.networks or NETWORKS:
            if arguments.busy:
                competitors = make_busy_competitors(network, arguments.busy)
            elif other:
                competitors = [Trainer(network), Trainer(network, OTHER, other)]
            else:
                competitors = make_competitors(network)
            results = measure(network, competitors, arguments.repetitions, arguments.seconds)
            if arguments.busy:
                ratios = ratios_of_busy(results)
                print_busy(network, results, ratios, arguments.busy)
            else:
                ratios = ratios_of_builds(results) if other else ratios_of(network, results)
                (print_builds if other else print_goals)(network, results, ratios)
            report["networks"][network] = {"results": results, "ratios": ratios}
    except RunFailed as failure:
        sys.exit(str(failure))
    if not other or arguments.keep:
        load = f"_busy{arguments.busy}" if arguments.busy else ""
        write(report, arguments.keep or f"cpu{load}_{report['date'][:10]}.json")


if __name__ == "__main__":
    main()
