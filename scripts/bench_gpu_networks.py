"""What bench_gpu.py measures: the networks, their data and first weights, and trainer's side of it."""
import json
import pathlib
import random
import struct
import tempfile

from child_process import Failed, run_process

ROOT = pathlib.Path(__file__).resolve().parent.parent
NUM_COMPARED = 20  # first losses, which are not timed
NUM_WARM = 5       # steps of a first run behind those, from which the length of the repetitions is estimated
MNIST, CIFAR = (1, 28, 28), (3, 32, 32)

# The goals stand for trainer's speed over: PyTorch compiled, compiled with CUDA graphs, eager; by precision. The weight is
# the network's part of a budget, 1 where it has none; what has goals comes first.
NETWORKS = {
    "mlp_small": {"config": "configs/bench/mlp.yaml", "batch": 128, "lr": 0.01, "shape": MNIST, "num_batches": 200,
                  "weight": 2,
                  "overrides": ["model.layers.1.linear.out=256", "model.layers.3.linear.out=256"],
                  "goals": {precision: {"compiled with graphs": 3.0} for precision in ("f32", "tf32", "bf16", "fp16")}},
    # Batch norm makes rounding grow from step to step: at a small rate slowly enough to compare 20 losses.
    "resnet18": {"config": "configs/bench/resnet18.yaml", "batch": 256, "lr": 0.0003, "shape": CIFAR, "num_batches": 20,
                 "weight": 4,
                 "overrides": [], "goals": {precision: {"compiled": 1.15, "eager": 2.0} for precision in ("bf16", "fp16")}},
    "mlp_wide": {"config": "configs/bench/mlp.yaml", "batch": 1024, "lr": 0.01, "shape": MNIST, "num_batches": 20,
                 "overrides": [], "goals": {}},
    # The most parameters of all in configs/: 104 million, four products of 5000 × 5000.
    "mlp_deep": {"config": "configs/challenges/deep_network.yaml", "batch": 32, "lr": 0.01, "shape": MNIST,
                 "num_batches": 20, "overrides": [], "goals": {}},
}
MEMORY_GOAL = 0.6  # of what PyTorch reserves

# What trainer is told, and how far two sides may differ in the first losses (of the larger of 1 and the loss): different
# orders of summation, over 20 steps of SGD. 16 bit keep 8 (bf16) and 11 digits (fp16), TF32 as many as fp16.
PRECISIONS = {
    "bf16": {"tf32": True, "amp": "bf16", "tolerance": 5e-2},
    "fp16": {"tf32": True, "amp": "fp16", "tolerance": 2e-2},
    "f32": {"tf32": False, "amp": "off", "tolerance": 2e-3},
    "tf32": {"tf32": True, "amp": "off", "tolerance": 2e-2},
}


def write_data(folder, network, batch):
    """The same random images for both sides: in a format that trainer reads, and as plain bytes. A little of the class
    is in the pixels, so that there is something to learn."""
    channels, rows, columns = network["shape"]
    generator = random.Random(1)
    samples = network["num_batches"] * batch
    targets = [generator.randrange(10) for _ in range(samples)]
    tables = [bytes(value * 206 // 256 + 5 * target for value in range(256)) for target in range(10)]
    images = [generator.randbytes(channels * rows * columns).translate(tables[target]) for target in targets]
    pixels, classes = b"".join(images), bytes(targets)
    (folder / "images.u8").write_bytes(pixels)
    (folder / "targets.u8").write_bytes(classes)
    if network["shape"] == MNIST:
        (folder / "train-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 2051, samples, rows, columns) + pixels)
        (folder / "train-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, samples) + classes)
    else:
        records = [bytes([target]) + image for target, image in zip(targets, images)]
        for number in range(5):
            part = records[samples * number // 5:samples * (number + 1) // 5]
            (folder / f"data_batch_{number + 1}.bin").write_bytes(b"".join(part))


class Trainer:
    """trainer in one precision. Each run is a process of its own; what `device.autotune` times is kept in one cache."""
    mode = "trainer"

    def __init__(self, name, precision, folder, options):
        self.name, self.precision, self.folder, self.options = name, precision, folder, options
        self.network = NETWORKS[name]

    def words(self):
        """The experiment, without its length and place."""
        settings = PRECISIONS[self.precision]
        kind = "idx" if self.network["shape"] == MNIST else "cifar10"
        channels, rows, columns = self.network["shape"]
        if self.options.rehearse:
            device = "{type: cpu}"
        else:
            device = f"{{type: cuda, tf32: {str(settings['tf32']).lower()}, autotune: true}}"
        samples = self.network["num_batches"] * self.options.batch_of(self.network)
        return [self.network["config"], f"device={device}",
                f"data={{type: {kind}, root: {self.folder}, shuffle: false, normalize: {{mean: 0.5, std: 0.25}}, "
                f"shape: [{rows}, {columns}, {channels}], classes: 10, samples: {samples}, validation_samples: 0}}",
                f"train.batch_size={self.options.batch_of(self.network)}", f"train.amp={settings['amp']}",
                f"optimizer={{type: sgd, lr: {self.options.lr_of(self.network)}, momentum: 0.9}}",
                *self.network["overrides"], *self.options.set]

    def ask(self, *words, seconds):
        """What it prints. Its cache, with what autotune timed, lies beside the data: there need be no home."""
        return run_process([self.options.trainer, *words], seconds, ROOT, {"XDG_CACHE_HOME": str(self.folder / "cache")})

    def write_weights(self, seconds):
        """The first weights of all sides, under PyTorch's names in trainer's layers."""
        with tempfile.TemporaryDirectory(dir=self.folder) as output:
            self.ask("run", *self.words(), "device={type: cpu}", "train.amp=off", "train.steps=0", f"output={output}/run",
                     seconds=seconds)
            weights, = pathlib.Path(output).glob("run/checkpoints/step-*/model.safetensors")
            weights.rename(self.folder / "weights.safetensors")

    def plan(self, seconds):
        """What trainer says of a step beforehand; the plan event."""
        return json.loads(self.ask("plan", *self.words(), "--json", seconds=seconds))

    def prepare(self, seconds):
        return self.run(NUM_WARM, seconds)

    def run(self, steps, seconds):
        epochs = -(-(NUM_COMPARED + steps) // self.network["num_batches"])
        with tempfile.TemporaryDirectory(dir=self.folder) as output:
            self.ask("run", *self.words(), "--weights", self.folder / "weights.safetensors",
                     f"train.steps={NUM_COMPARED + steps}", f"train.epochs={epochs}", "train.log_every=1000000000",
                     "checkpoint.every=1000000000", f"output={output}/run", seconds=seconds)
            lines = (pathlib.Path(output) / "run" / "events.jsonl").read_text().splitlines()
        # Long runs: the first lines, and of the others what is needed.
        events = [json.loads(line) for line in lines]
        return figures_of(events, NUM_COMPARED + steps)


def figures_of(events, num_steps):
    """What the events of a run of trainer say of it: the first losses, the speed of the steps behind them, the memory."""
    steps = [event for event in events if event["event"] == "step"]
    if len(steps) != num_steps or events[-1]["event"] != "end":
        raise Failed(f"{len(steps)} steps are told of {num_steps}, and the last event is '{events[-1]['event']}'")
    timed, end = steps[NUM_COMPARED:], events[-1]
    seconds = sum(event["step_seconds"] for event in timed)
    start = next(event for event in events if event["event"] == "start")
    outside = end["outside_allocator"].get("parts", [])
    others = sum(part["bytes"] for part in outside if part["name"] == "other processes and the driver")
    figures = {"losses": [event["loss"] for event in steps[:NUM_COMPARED]], "parameters": start["parameters"],
               "step_seconds": seconds / len(timed), "samples_per_second": sum(e["samples"] for e in timed) / seconds,
               "memory": {"reserved": end["peak_reserved"], "reserved_steady": end["peak_reserved"],
                          "allocated": end["peak_allocated"], "driver": end["peak_used"] - others,
                          "driver_counts": "all processes, less those before" if others else "this process",
                          "outside_allocator": outside},
               "replayed": end["passes"]}
    if any(event.get("skipped") for event in timed):
        figures["skipped_updates"] = sum(event["skipped"] for event in timed)
    return figures
