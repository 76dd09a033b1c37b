#!/usr/bin/env python3
"""What `logging` costs a run: trainer with it and without, in turn, as ratios of runs beside each other: time of training and
processor time (user and system) of the whole process, their median shown. A network of tens of thousands of steps a second,
whose steps are thinned out, and one of some hundred milliseconds a step; one thread each. Every run writes events.jsonl. Writes
scripts/results/logging_<date>.json.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
GOAL = 1.005
TINY = ("data={type: digits}", "model.layers=[flatten, linear: {out: 10}]", "train.batch_size=1", "train.eval_every=10000000")
CNN = ("data={type: synthetic, shape: [28, 28, 1], classes: 10, samples: 4096, validation_samples: 64}",
       "model.layers=[conv2d: {out: 32, kernel: 3, padding: 1}, relu, maxpool2d, conv2d: {out: 64, kernel: 3, padding: 1}, relu, "
       "maxpool2d, flatten, linear: {out: 10}]", "train.batch_size=64", "train.eval_every=10000000")
# Keys, and steps of a run.
NETWORKS = {"tiny": (TINY, 250_000), "cnn": (CNN, 600)}
LOGGING = {
    "tensorboard": ("logging.tensorboard=true",),
    "all": ("logging.tensorboard=true", "logging.prometheus_file={folder}/metrics.prom", "logging.prometheus_port=0",
            "logging.mlflow={folder}/mlruns"),
}


class RunFailed(Exception):
    """A run did not end well."""


def run(trainer, folder, keys, num_steps, logging):
    """Seconds of training, and of processors, of a run."""
    output = folder / "run"
    words = [trainer, "run", ROOT / "tests/runs/digits_mlp.yaml", "-q", "--overwrite", f"output={output}", "device.threads=1",
             *keys, "train.epochs=10000000", f"train.steps={num_steps}", *(word.format(folder=folder) for word in logging)]
    process = os.posix_spawn(trainer, [os.fsencode(str(word)) for word in words], {**os.environ, "OMP_WAIT_POLICY": "passive"})
    _, status, usage = os.wait4(process, 0)
    if status != 0:
        raise RunFailed(f"{words} ended with {os.waitstatus_to_exitcode(status)}")
    with open(output / "events.jsonl", encoding="utf-8") as file:
        for line in file:
            last = line
    end = json.loads(last)
    return {"training_seconds": end["training_seconds"], "processor_seconds": usage.ru_utime + usage.ru_stime,
            "log_bytes": sum(path.stat().st_size for path in output.glob("*tfevents*")),
            "event_bytes": (output / "events.jsonl").stat().st_size}


def measure(trainer, folder, keys, num_steps, logging, pairs):
    runs = ([], [])
    for number in range(pairs):
        for which in (0, 1) if number % 2 == 0 else (1, 0):
            runs[which].append(run(trainer, folder, keys, num_steps, logging if which == 0 else ()))

    def ratio(key):
        return statistics.median(on[key] / off[key] for on, off in zip(*runs))

    return {"steps_per_second": num_steps / statistics.median(off["training_seconds"] for off in runs[1]),
            "time": ratio("training_seconds"), "processor": ratio("processor_seconds"),
            "log_bytes": runs[0][0]["log_bytes"], "event_bytes": runs[0][0]["event_bytes"], "on": runs[0], "off": runs[1]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", default=list(NETWORKS))
    parser.add_argument("--trainer", default=str(ROOT / "build/release/trainer"))
    parser.add_argument("--pairs", type=int, default=11)
    arguments = parser.parse_args()
    results = {"date": datetime.date.today().isoformat(), "machine": platform.processor() or platform.machine(),
               "load_before": os.getloadavg()[0], "pairs": arguments.pairs, "networks": {}}
    path = ROOT / "scripts/results" / f"logging_{results['date']}.json"
    print(f"with logging over without, the median of {arguments.pairs} pairs (goal ≤ {GOAL})\n"
          "network  logging        steps/s     time  processor  its files", flush=True)
    for network in arguments.networks:
        keys, num_steps = NETWORKS[network]
        found = results["networks"][network] = {}
        for name, logging in LOGGING.items():
            with tempfile.TemporaryDirectory() as folder:
                one = found[name] = measure(arguments.trainer, pathlib.Path(folder), keys, num_steps, logging, arguments.pairs)
            print(f"{network:<8} {name:<12} {one['steps_per_second']:9,.0f}  {one['time']:7.4f}  {one['processor']:9.4f}  "
                  f"{one['log_bytes'] / 1024:,.0f} KiB beside {one['event_bytes'] / 1024:,.0f} KiB of events", flush=True)
            results["load_after"] = os.getloadavg()[0]
            # After each, so that a stop leaves what is whole.
            path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(f"written to scripts/results/{path.name}")


if __name__ == "__main__":
    main()
