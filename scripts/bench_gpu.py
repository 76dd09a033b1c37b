#!/usr/bin/env python3
"""scripts/bench_gpu.py [--json FILE] [NETWORK …]: trainer against PyTorch (eager, and torch.compile in its modes) on a GPU.

Both sides start from the same weights and train on the same batches. First the 20 first losses of every competitor must
agree with trainer's; then repetitions alternate, one process each. In the same run the ceilings of the machine are
measured (GEMM rate, copy bandwidth, gap between the nodes of a CUDA graph), so that achieved / bound can be printed. The
figures go to scripts/results/gpu_bench_<date>.json, or FILE.

Needs a GPU, a PyTorch that sees it, and a trainer with the CUDA module. Without them it says SKIPPED and why, and exits
with 0; --rehearse runs all of it in small on the CPU instead, to try the script itself: its figures mean nothing and are
not kept.
"""
import argparse
import datetime
import json
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts" / "oracle"))
MIB = 2**20

# Batch size, the bench config with its overrides, and the goals: trainer's speed over eager and over compiled PyTorch.
NETWORKS = {
    "mlp_small": {"batch": 128, "lr": 0.01, "config": "mlp", "images": "mnist", "goals": (10.0, 2.0),
                  "overrides": ["model.layers.1.linear.out=256", "model.layers.3.linear.out=256"]},
    "mlp_wide": {"batch": 1024, "lr": 0.01, "config": "mlp", "images": "mnist", "goals": (None, None), "overrides": []},
    # Batch norm makes rounding grow from step to step: at a small rate slowly enough to compare 20 losses.
    "resnet18": {"batch": 256, "lr": 0.0003, "config": "resnet18", "images": "cifar10", "goals": (2.5, 1.3),
                 "overrides": []},
}
MEMORY_GOAL = 0.5
NUM_COMPARED = 20  # losses, and batches of data
# Different summation orders: what 20 steps of SGD make of rounding, and of TF32's 10 bits.
LOSS_TOLERANCE = {False: 2e-3, True: 2e-2}


class Failed(Exception):
    """A run that gave no result; the text is the end of what it said."""


def run_process(command, timeout):
    try:
        result = subprocess.run([str(word) for word in command], cwd=ROOT, capture_output=True, text=True, check=False,
                                timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Failed(f"no end within {timeout:.0f} s: {' '.join(map(str, command))}") from None
    if result.returncode != 0:
        raise Failed("\n".join((result.stderr or result.stdout).strip().splitlines()[-4:]))
    return result.stdout


def write_data(folder, images, batch):
    """The same random images for both sides: files of a format that trainer reads, and a safetensors file."""
    import numpy as np
    import safetensors_file
    generator = np.random.default_rng(1)
    samples = NUM_COMPARED * batch
    shape = (1, 28, 28) if images == "mnist" else (3, 32, 32)
    targets = generator.integers(0, 10, samples)
    # A little of the class in the pixels, so that there is something to learn.
    pixels = generator.integers(0, 206, (samples, *shape)) + 5 * targets[:, None, None, None]
    pixels = pixels.astype(np.uint8)
    if images == "mnist":
        (folder / "train-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 2051, samples, 28, 28) + pixels.tobytes())
        (folder / "train-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, samples)
                                                         + targets.astype(np.uint8).tobytes())
    else:
        records = np.concatenate([targets.astype(np.uint8)[:, None], pixels.reshape(samples, -1)], axis=1)
        for number, part in enumerate(np.array_split(records, 5), 1):
            (folder / f"data_batch_{number}.bin").write_bytes(part.tobytes())
    safetensors_file.write(folder / "data.safetensors", {"images": pixels, "targets": targets.astype(np.int32)})


class Trainer:
    name = "trainer"

    def __init__(self, network, folder, options):
        self.network, self.folder, self.options = NETWORKS[network], folder, options

    def run(self, steps):
        kind = "idx" if self.network["images"] == "mnist" else "cifar10"
        with tempfile.TemporaryDirectory() as output:
            text = run_process(
                [self.options.trainer, "run", f"configs/bench/{self.network['config']}.yaml", "--json",
                 "--weights", self.folder / "weights.safetensors",
                 f"data={{type: {kind}, root: {self.folder}, shuffle: false, normalize: {{mean: 0.5, std: 0.25}}}}",
                 f"device={{type: {'cpu' if self.options.rehearse else 'cuda'}"
                 + ("}" if self.options.rehearse else f", tf32: {str(self.options.tf32).lower()}, autotune: true}}"),
                 f"train.batch_size={self.options.batch or self.network['batch']}",
                 f"optimizer.lr={self.network['lr']}", f"train.steps={NUM_COMPARED + steps}", f"output={output}/run", *self.network["overrides"]],
                self.options.timeout)
        events = [json.loads(line) for line in text.splitlines()]
        all_steps = [event for event in events if event["event"] == "step"]
        timed = all_steps[NUM_COMPARED:]
        end = events[-1]
        seconds = sum(event["step_seconds"] for event in timed)
        return {"losses": [event["loss"] for event in all_steps[:NUM_COMPARED]],
                "samples_per_second": sum(event["samples"] for event in timed) / seconds,
                "step_seconds": seconds / len(timed),
                "peak_allocated": end["peak_allocated"], "peak_reserved": end["peak_reserved"],
                "process_bytes": end["peak_used"], "passes": end.get("passes"),
                "parameters": next(event["parameters"] for event in events if event["event"] == "start")}


class PyTorch:
    def __init__(self, network, folder, options, mode):
        self.network, self.folder, self.options, self.mode = network, folder, options, mode
        self.name = f"torch {mode}"

    def run(self, steps):
        command = [sys.executable, ROOT / "scripts" / "bench_gpu_torch.py", self.network, self.mode,
                   "--device", "cpu" if self.options.rehearse else "cuda", "--weights",
                   self.folder / "weights.safetensors", "--data", self.folder / "data.safetensors", "--batch",
                   self.options.batch or NETWORKS[self.network]["batch"], "--steps", steps,
                   "--lr", NETWORKS[self.network]["lr"]]
        if self.options.tf32:
            command.append("--tf32")
        return json.loads(run_process(command, self.options.timeout).splitlines()[-1])


def largest_difference(losses, expected):
    if len(losses) != len(expected):
        return float("inf")
    return max(abs(a - b) / max(1.0, abs(b)) for a, b in zip(losses, expected))


def flops_of_step(options, network):
    """Of one step at the benchmark's batch size, as trainer counts them."""
    entry = NETWORKS[network]
    text = run_process([options.trainer, "summary", f"configs/bench/{entry['config']}.yaml", "--json", "device.type=cpu",
                        f"train.batch_size={options.batch or entry['batch']}", *entry["overrides"]], options.timeout)
    return json.loads(text)["flops"]


def measure(network, options):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        batch = options.batch or NETWORKS[network]["batch"]
        write_data(folder, NETWORKS[network]["images"], batch)
        modes = ["eager"] if options.rehearse else ["eager", "compile", "compile reduce-overhead"]
        peers = [PyTorch(network, folder, options, mode) for mode in modes]
        peers[0].run(2)  # writes the weights
        competitors = [Trainer(network, folder, options)]
        reference = competitors[0].run(2)
        steps = {"trainer": options.steps_for(reference["step_seconds"])}
        notes = []
        for peer in peers:
            try:
                first = peer.run(2)
            except Failed as failure:
                notes.append(f"{peer.name}: {failure}")
                continue
            difference = largest_difference(first["losses"], reference["losses"])
            print(f"{network}: {peer.name}: first {NUM_COMPARED} losses differ by at most {difference:.1e}", flush=True)
            if not difference <= LOSS_TOLERANCE[options.tf32]:
                raise Failed(f"{network}: {peer.name} and trainer do not train alike: their losses differ by "
                             f"{difference:.1e}\n  trainer {reference['losses'][:5]}\n  peer    {first['losses'][:5]}")
            if first["parameters"] != reference["parameters"]:
                raise Failed(f"{network}: {peer.name} has {first['parameters']} parameters, trainer "
                             f"{reference['parameters']}")
            steps[peer.name] = options.steps_for(first["step_seconds"])
            competitors.append(peer)
        runs = {competitor.name: [] for competitor in competitors}
        for _ in range(options.repetitions):
            for competitor in competitors:
                runs[competitor.name].append(competitor.run(steps[competitor.name]))
    results = {}
    for name, repetitions in runs.items():
        results[name] = {key: statistics.median(run[key] for run in repetitions)
                         for key in ("samples_per_second", "step_seconds", "peak_allocated", "peak_reserved",
                                     "process_bytes") if key in repetitions[0]}
        results[name]["samples_per_second_runs"] = [run["samples_per_second"] for run in repetitions]
        if repetitions[0].get("passes"):
            results[name]["passes"] = repetitions[-1]["passes"]
    return {"batch": batch, "results": results, "notes": notes, "flops_per_step": flops_of_step(options, network)}


def ratios_of(network, measured):
    results = measured["results"]
    own = results["trainer"]
    eager = results.get("torch eager")
    compiled = [result for name, result in results.items() if name.startswith("torch compile")]
    ratios = {}
    if eager:
        ratios["speed_over_eager"] = own["samples_per_second"] / eager["samples_per_second"]
    if compiled:
        ratios["speed_over_compiled"] = own["samples_per_second"] / max(r["samples_per_second"] for r in compiled)
    peers = [result for name, result in results.items() if name != "trainer" and "peak_reserved" in result]
    for key in ("peak_allocated", "peak_reserved", "process_bytes"):
        smallest = min((peer[key] for peer in peers if peer.get(key)), default=0)
        if smallest:
            ratios[key] = own[key] / smallest
    ratios["goals"] = {"speed_over_eager": NETWORKS[network]["goals"][0],
                       "speed_over_compiled": NETWORKS[network]["goals"][1], "peak_reserved": MEMORY_GOAL}
    return ratios


def report(network, measured, bounds):
    print(f"\n{network}, batch {measured['batch']}, {measured['flops_per_step'] / 1e9:.3g} GFLOP a step")
    print(f"  {'':26}{'samples/s':>12}{'ms/step':>10}{'of GEMM bound':>15}{'allocated':>11}{'reserved':>10}{'process':>9} MiB")
    for name, result in measured["results"].items():
        bound = measured["flops_per_step"] / bounds["flops_per_second"] if bounds else 0
        memory = [f"{result[key] / MIB:.0f}" if result.get(key) else "-"
                  for key in ("peak_allocated", "peak_reserved", "process_bytes")]
        print(f"  {name:26}{result['samples_per_second']:12.0f}{result['step_seconds'] * 1e3:10.3f}"
              + (f"{bound / result['step_seconds']:14.0%} " if bounds else f"{'-':>15}")
              + f"{memory[0]:>11}{memory[1]:>10}{memory[2]:>9}")
    for key, goal in measured["ratios"]["goals"].items():
        value = measured["ratios"].get(key)
        if value is None or goal is None:
            continue
        met = value <= goal if key == "peak_reserved" else value >= goal
        print(f"  {key.replace('_', ' ')} {value:.2f}×, goal {'≤' if key == 'peak_reserved' else '≥'} {goal}×: "
              + ("met" if met else "not met"))
    for note in measured["notes"]:
        print(f"  {note}")


def obstacle(options):
    """Why nothing can be measured here; empty: it can."""
    if not pathlib.Path(options.trainer).exists():
        return f"{options.trainer} does not exist: build trainer first, or name it with --trainer"
    try:
        import numpy  # noqa: F401
        import torch
    except ImportError as error:
        return f"{sys.executable} has no PyTorch ({error})"
    if options.rehearse:
        return ""
    if not torch.cuda.is_available():
        return "PyTorch sees no GPU"
    facts = subprocess.run([options.trainer, "doctor", "--json"], capture_output=True, text=True, check=False)
    if facts.returncode != 0 or '"kind":"cuda"' not in facts.stdout:
        return "trainer has no CUDA device here (see trainer doctor)"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=pathlib.Path, help="where the figures go; else scripts/results/")
    parser.add_argument("--trainer", default=os.environ.get("TRAINER") or str(ROOT / "build" / "release" / "trainer"),
                        help="the binary; else $TRAINER, else that of scripts/trainer")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="timed part of one repetition")
    parser.add_argument("--timeout", type=float, default=240, help="seconds after which one run is given up")
    parser.add_argument("--tf32", action="store_true", help="both sides may use TF32 products")
    parser.add_argument("--batch", type=int, default=0, help="another batch size for all networks")
    parser.add_argument("--rehearse", action="store_true", help="try the script on the CPU")
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"{', '.join(NETWORKS)}; all where none is named")
    options = parser.parse_args()
    unknown = set(options.networks) - set(NETWORKS)
    if unknown:
        parser.error(f"unknown network {sorted(unknown)[0]}; there are {', '.join(NETWORKS)}")
    if options.rehearse:
        options.repetitions, options.seconds, options.batch = 1, 0.2, options.batch or 8
    options.steps_for = lambda step_seconds: max(5, min(20000, round(options.seconds / step_seconds)))
    why_not = obstacle(options)
    if why_not:
        print(f"SKIPPED: {why_not}")
        return 0

    bounds = None
    if not options.rehearse:
        command = [sys.executable, ROOT / "scripts" / "bench_gpu_torch.py", "ceilings"]
        bounds = json.loads(run_process(command + (["--tf32"] if options.tf32 else []), options.timeout))
        print(f"{bounds['device']}: {bounds['flops_per_second'] / 1e12:.1f} TFLOP/s f32"
              f"{' (TF32)' if options.tf32 else ''} products, copies {bounds['bytes_per_second'] / 1e12:.2f} TB/s, "
              f"{bounds['node_seconds'] * 1e6:.2f} µs a node of a CUDA graph")
    figures = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "tf32": options.tf32,
               "ceilings": bounds, "networks": {}}
    failed = False
    for network in options.networks or NETWORKS:
        try:
            measured = measure(network, options)
            measured["ratios"] = ratios_of(network, measured)
            report(network, measured, bounds)
            figures["networks"][network] = measured
        except Failed as failure:  # the other networks' figures are not lost for it
            failed = True
            print(f"\n{network}: FAILED: {failure}")
            figures["networks"][network] = {"failed": str(failure)}
    if not options.rehearse:
        path = options.json or ROOT / "scripts" / "results" / f"gpu_bench_{figures['date'][:10]}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
        print(f"\nwritten to {path}")
    return 1 if failed else 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
