"""Random networks: gradients of every step, losses, running statistics and evaluation against PyTorch in f64."""
import numpy as np
import torch

import data_files
import data_probe
import rounding
import safetensors_file
import training
from random_networks import EVERYTHING, NetworkMaker
from trainer_runs import gradient_probe

MOST_DRAWS = 12
MOST_NETWORKS = 20
NUMERIC_LOSSES = ["mse", "l1", "smooth_l1", "bce_with_logits"]


def draw_data(random):
    """The samples' shape, the task and how many of them."""
    batch = random.randint(4, 9)
    samples = batch * random.randint(1, 2) + random.choice([0, random.randint(2, batch - 1)])
    form = random.choice(["idx", "idx", "idx", "csv", "csv", "synthetic"])
    if form == "csv":
        shape = [random.randint(2, 12)]
        loss = random.choice(["cross_entropy", "cross_entropy", *NUMERIC_LOSSES])
    else:
        shape = [random.randint(5, 12), random.randint(5, 12), random.randint(1, 3)]
        loss = "cross_entropy"
        if form == "synthetic":
            loss = random.choice(NUMERIC_LOSSES)
            if random.random() < 0.4:
                shape = [random.randint(2, 12)]
    outputs = random.randint(2, min(9, samples))
    if loss != "cross_entropy":
        outputs = 1 if form == "csv" else random.choice([1, 2, 4, 8])
    return {"form": form, "shape": shape, "outputs": outputs, "batch": batch, "samples": samples,
            "validation": random.randint(5, 17), "loss": loss}


def draw_loss(random, data, seen):
    options = {"type": data["loss"]}
    seen.add(data["loss"])
    if data["loss"] == "smooth_l1" and random.random() < 0.7:
        options["beta"] = random.choice([0.1, 0.5, 2.0])
    if data["loss"] == "cross_entropy":
        if random.random() < 0.4:
            options["label_smoothing"] = random.choice([0.05, 0.1, 0.3])
            seen.add("label_smoothing")
        if random.random() < 0.4:
            options["class_weights"] = [round(random.uniform(0.2, 3), 3) for _ in range(data["outputs"])]
            seen.add("class_weights")
    return options


def draw_ways(random, loss, seen):
    """Settings that promise the same numbers."""
    memory, train = {}, {}
    choices = [(memory, "in_place", False), (memory, "recompute_cheap", False), (memory, "allocator", "planned"),
               (memory, "chunked_loss", 3), (memory, "update", "in_backward"), (train, "checkpointing", "sqrt"),
               (train, "checkpointing", {"every": 2})]
    for section, key, value in choices:
        if random.random() < 0.15 and (key != "chunked_loss" or loss["type"] == "cross_entropy"):
            section[key] = value
            seen.add(f"{key} {value}")
    if random.random() < 0.3:
        train["accumulation_steps"] = random.randint(2, 3)
        memory.pop("update", None)  # which cannot wait for several batches
        seen.add("accumulation_steps")
    if random.random() < 0.15:
        train["drop_last"] = True
    if random.random() < 0.5:
        train["eval_batch_size"] = random.randint(1, 7)
        seen.add("eval_batch_size")
    return memory, train


def write_data(folder, data, generator, random):
    """(the data section, {train, validation: (samples as the model sees them in f64, targets)})."""
    if data["form"] == "synthetic":
        return None, None
    sets, section = {}, {"shuffle": False}
    if data["form"] == "csv":
        section.update(type="csv", train="train.csv", validation="validation.csv", root=str(folder))
        del section["root"]
    for part in ("train", "validation"):
        count = data["samples"] if part == "train" else data["validation"]
        if data["loss"] == "cross_entropy":
            # Every class occurs in training.
            targets = np.concatenate([np.arange(data["outputs"]), generator.integers(0, data["outputs"], count)])[:count]
        elif data["loss"] != "bce_with_logits":
            targets = np.round(generator.normal(size=count) * 256) / 256
        else:
            targets = generator.integers(0, 2, count)
        if data["form"] == "idx":
            images = generator.integers(0, 256, (count, *data["shape"]), dtype=np.uint8)
            stem = {"train": "train", "validation": "t10k"}[part]
            data_files.write_idx(folder / f"{stem}-images-idx3-ubyte",
                                 images[..., 0] if data["shape"][2] == 1 else images)
            data_files.write_idx(folder / f"{stem}-labels-idx1-ubyte", targets.astype(np.uint8))
            sets[part] = images, targets
        else:
            # Short fractions, which f32 holds exactly.
            rows = np.round(generator.normal(size=(count, data["shape"][0])) * 64) / 64
            columns = [f"x{i}" for i in range(data["shape"][0])] + ["y"]
            data_files.write_csv(folder / f"{part}.csv", columns, [[*map(float, row), target.item()] for row, target
                                                                    in zip(rows, targets)])
            section[part] = str(folder / f"{part}.csv")
            sets[part] = rows, targets
    if data["form"] == "idx":
        mean = [round(random.uniform(0.2, 0.6), 2) for _ in range(data["shape"][2])]
        std = [round(random.uniform(0.2, 0.6), 2) for _ in range(data["shape"][2])]
        section.update(type="idx", root=str(folder), classes=data["outputs"], normalize={"mean": mean, "std": std})
        return section, {part: (data_files.standardised_pixels(images, mean, std), targets)
                         for part, (images, targets) in sets.items()}
    section["target_type"] = "categorical" if data["loss"] == "cross_entropy" else "numeric"
    train = sets["train"][0]
    return section, {part: (data_files.standardised(rows, train), targets) for part, (rows, targets) in sets.items()}


def synthetic_data(case, data):
    """What trainer makes up, found out by a probe; validation samples are made like those behind the training's."""
    count = data["samples"] + data["validation"]
    section = {"type": "synthetic", "shape": data["shape"], "classes": data["outputs"], "target_type": "numeric",
               "shuffle": False}
    seen, _ = data_probe.seen_samples(case.trainer, case.folder, {**section, "samples": count}, data["outputs"],
                                      numeric=True, seed=case.number)
    samples = np.array([sample for sample, _ in seen])
    if len(data["shape"]) == 3:
        height, width, channels = data["shape"]
        # They are pixels, so their exact values are known.
        samples = np.round(samples * 255).reshape(-1, channels, height, width).transpose(0, 2, 3, 1) / 255
    targets = np.array([target for _, target in seen])
    first = data["samples"]
    return ({**section, "samples": first, "validation_samples": data["validation"]},
            {"train": (samples[:first], targets[:first]), "validation": (samples[first:], targets[first:])})


class Twin:
    """The run in PyTorch: weights stay, gradients are taken, running statistics go on."""

    def __init__(self, layers, data, loss, weights, sets, updates):
        self.layers, self.data, self.loss, self.weights, self.updates = layers, data, loss, weights, updates
        self.sets = sets
        self.kinks = None
        self.metrics = {}

    def tensors(self, part, dtype, noise):
        samples, targets = self.sets[part]
        inputs = training.torch_inputs(samples, dtype)
        if noise:
            inputs = noise.of_input(inputs)
        targets = torch.from_numpy(np.asarray(targets, np.float64))
        return inputs, targets.reshape(len(samples), -1) if self.loss["type"] != "cross_entropy" else targets

    def compute(self, dtype, noise):
        model = training.model_of(self.layers, self.data["shape"], self.weights, dtype)
        if noise:
            noise.attach(model)
        elif dtype == torch.float64:
            self.kinks = rounding.KinkWatch(model)
        inputs, targets = self.tensors("train", dtype, noise)
        found = {}
        model.train()
        for step, update in enumerate(self.updates, 1):
            if noise:
                noise.of_tensors(model)
            model.zero_grad(set_to_none=True)
            found[f"step {step} loss"] = np.array(training.accumulate(model, self.loss, inputs, targets, update))
            for name, parameter in model.named_parameters():
                found[f"step {step} gradient of {name}"] = parameter.grad.double().numpy().copy()
            for name, array in training.state_arrays(model).items():
                if "running_" in name:
                    found[f"step {step} {name}"] = array
        model.eval()
        inputs, targets = self.tensors("validation", dtype, noise)
        with torch.no_grad():
            outputs = model(inputs)
            found["evaluation loss"] = np.array(training.loss_of(self.loss, outputs, targets).item())
        if dtype == torch.float64 and not noise:
            self.metrics = training.counted(self.loss, outputs, targets)
        return found


def measured(run, num_steps):
    found = {}
    for event in run.steps:
        found[f"step {event['step']} loss"] = event["loss"]
    for step in range(1, num_steps + 1):
        for name, array in run.gradients(step).items():
            found[f"step {step} gradient of {name}"] = array
        for name, array in run.weights(step).items():
            if "running_" in name:
                found[f"step {step} {name}"] = array
    if run.evaluations:
        found["evaluation loss"] = run.evaluations[-1]["loss"]
    return found


def compare_metrics(findings, metrics, evaluation):
    for name in ("accuracy", "top5", "mae", "r2"):
        if name in metrics:
            low, high = metrics[name]
            if evaluation.get(name) is None:
                findings.equal(f"evaluation {name}", evaluation.get(name), high)
            else:
                findings.within(f"evaluation {name}", evaluation[name], low - 1e-12, high + 1e-12)
        else:
            findings.equal(f"evaluation {name}", evaluation.get(name), None)


def twin_without_kinks(number, layers, data, loss, sets, updates, num_draws):
    """A twin whose weights let no ReLU or maximum be so near to its kink that rounding decides; None: not found."""
    generator = np.random.default_rng(number)
    for _ in range(num_draws):
        model = training.torch_network.build(layers, data["shape"])
        twin = Twin(layers, data, loss, training.random_weights(model, generator), sets, updates)
        twin.compute(torch.float64, None)
        if not twin.kinks.near:
            return twin
    return None


def compare_twin(case, twin, section, memory=None, train=None):
    """Runs what the twin describes and compares every number."""
    weights_file = case.folder / "weights.safetensors"
    safetensors_file.write(weights_file, twin.weights)
    config = gradient_probe({"seed": case.number, "device": {"type": "cpu", "threads": 1 + case.number % 2},
                             "data": section, "model": {"layers": twin.layers}, "loss": twin.loss, "memory": memory or {},
                             "train": {"batch_size": twin.data["batch"], "epochs": 1, "log_every": 1, **(train or {})}})
    run = case.trainer.run(case.folder, config, "--weights", weights_file, name="network")
    rounding.Reference(twin.compute, case.number).compare(case.findings, measured(run, len(twin.updates)))
    case.findings.equal("samples of the steps", [event["samples"] for event in run.steps],
                        [sum(end - begin for begin, end in update) for update in twin.updates])
    case.findings.equal("evaluated samples", run.evaluations[-1]["samples"], len(twin.sets["validation"][0]))
    compare_metrics(case.findings, twin.metrics, run.evaluations[-1])
    case.findings.equal("weights stay as given", [
        name for name, array in twin.weights.items()
        if "running_" not in name and not np.array_equal(run.weights(1).get(name), array)], [])


def run(case):
    random = case.random
    data = draw_data(random)
    seen = {data["form"]}
    loss = draw_loss(random, data, seen)
    memory, train = draw_ways(random, loss, seen)
    section, sets = write_data(case.folder, data, np.random.default_rng(case.number + 1), random)
    if section is None:
        section, sets = synthetic_data(case, data)
    section["drop_last"] = train.pop("drop_last", False)
    updates = training.updates_of(data["samples"], data["batch"], train.get("accumulation_steps", 1), section["drop_last"])
    for attempt in range(MOST_NETWORKS):
        maker = NetworkMaker(random, smallest_batch=min(end - begin for update in updates for begin, end in update))
        layers = maker.network(data["shape"], data["outputs"])
        twin = twin_without_kinks(case.number + attempt, layers, data, loss, sets, updates, MOST_DRAWS)
        if twin:
            break
    else:
        raise ValueError(f"{MOST_NETWORKS} networks all have a kink within rounding")
    case.seen = seen | maker.seen
    case.title = f"{len(layers)} layers, {data['form']}, {loss['type']}"
    compare_twin(case, twin, section, memory, train)


def num_cases(options):
    return options.networks


def everything(options):
    """What enough random networks must have met between them."""
    if options.networks < 100:
        return set()
    return EVERYTHING | {"idx", "csv", "synthetic", "cross_entropy", *NUMERIC_LOSSES, "label_smoothing",
                         "class_weights", "accumulation_steps", "eval_batch_size"}
