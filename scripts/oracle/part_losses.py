"""Losses of pixels and their sums: each step's loss, terms and gradients, over whole updates, and what evaluations count."""
import numpy as np
import torch
import torch.nn.functional as F

import data_files
import part_networks
import rounding
import safetensors_file
import training

HEIGHT, WIDTH, CHANNELS = 5, 7, 2
SAMPLES, VALIDATION, BATCH = 22, 11, 4
VOID = 255
CE, DICE = {"type": "cross_entropy"}, {"type": "dice"}
# Terms, classes, logits, batches an update. Where VOID is ignored, masks hold it.
VARIANTS = [
    ([CE], 4, 4, 1), ([{**CE, "ignore_index": VOID}], 4, 4, 1), ([{**CE, "ignore_index": VOID}], 3, 3, 3),
    ([{**CE, "ignore_index": 1}], 3, 3, 2),
    ([{**CE, "ignore_index": VOID, "class_weights": [0.4, 2.0, 1.1], "label_smoothing": 0.1}], 3, 3, 2),
    ([DICE], 3, 3, 1), ([{**DICE, "smooth": 1.0, "ignore_index": VOID}], 4, 4, 3), ([{**DICE, "ignore_index": 0}], 3, 3, 1),
    ([{**DICE, "ignore_index": VOID, "smooth": 0.5}], 2, 1, 2),
    ([{**CE, "ignore_index": VOID}, {**DICE, "weight": 0.5, "ignore_index": VOID}], 3, 3, 1),
    ([{**CE, "weight": 0.3, "class_weights": [1.0, 0.2, 3.0]}, {**CE, "label_smoothing": 0.2}, {**DICE, "weight": 2.0}], 3, 3, 2),
]


def term_loss(term, logits, targets):
    """(sum, what its mean divides by) of logits (N, K, H, W) and classes (N, H, W)."""
    void = term.get("ignore_index", -100)
    if term["type"] == "cross_entropy":
        weights = torch.tensor(term["class_weights"], dtype=logits.dtype) if "class_weights" in term else None
        each = F.cross_entropy(logits, targets, weight=weights, ignore_index=void, reduction="sum",
                               label_smoothing=term.get("label_smoothing", 0.0))
        counted = targets[targets != void]
        return each, (weights[counted].sum() if weights is not None else torch.tensor(float(counted.numel())))
    # Soft Dice as MONAI writes it, with batch=True: over (N, H, W) for each class, then the mean over the classes.
    kept = (targets != void).to(logits.dtype)[:, None]
    classes = torch.where(targets == void, 0, targets)
    if logits.shape[1] == 1:
        guess, truth = torch.sigmoid(logits), (classes == 1).to(logits.dtype)[:, None]
    else:
        guess = torch.softmax(logits, dim=1)
        truth = F.one_hot(classes, logits.shape[1]).permute(0, 3, 1, 2).to(logits.dtype)
    guess, truth = guess * kept, truth * kept
    smooth = term.get("smooth", 1e-5)
    overlap, total = (guess * truth).sum(dim=(0, 2, 3)), (guess + truth).sum(dim=(0, 2, 3))
    loss = (1 - (2 * overlap + smooth) / (total + smooth)).mean()
    return loss * len(logits), torch.tensor(float(len(logits)))


def of_batches(terms, model, inputs, targets, batches):
    """The mean of each term over all batches together."""
    means = []
    outputs = [(model(inputs[begin:end]), targets[begin:end]) for begin, end in batches]
    for term in terms:
        parts = [term_loss(term, logits, classes) for logits, classes in outputs]
        means.append(sum(part[0] for part in parts) / sum(part[1] for part in parts))
    return means


class Twin:
    def __init__(self, terms, layers, weights, sets, updates):
        self.terms, self.layers, self.weights, self.sets, self.updates = terms, layers, weights, sets, updates
        self.confusion = None
        self.margin = 0.0

    def compute(self, dtype, noise):
        model = training.model_of(self.layers, [HEIGHT, WIDTH, CHANNELS], self.weights, dtype)
        if noise:
            noise.attach(model)
        found = {}
        inputs, targets = self.tensors("train", dtype)
        for step, update in enumerate(self.updates, 1):
            if noise:
                noise.of_tensors(model)
            model.zero_grad(set_to_none=True)
            self.add(found, f"step {step}", of_batches(self.terms, model, inputs, targets, update), backward=True)
            for name, parameter in model.named_parameters():
                found[f"step {step} gradient of {name}"] = parameter.grad.double().numpy().copy()
        inputs, targets = self.tensors("validation", dtype)
        with torch.no_grad():
            batches = [(begin, min(begin + BATCH, VALIDATION)) for begin in range(0, VALIDATION, BATCH)]
            self.add(found, "evaluation", of_batches(self.terms, model, inputs, targets, batches))
            if dtype == torch.float64 and not noise:
                self.count(model(inputs), targets)
        return found

    def add(self, found, where, means, backward=False):
        total = sum(term.get("weight", 1.0) * mean for term, mean in zip(self.terms, means))
        if backward:
            total.backward()
        found[f"{where} loss"] = np.array(total.item())
        if len(means) > 1:
            found[f"{where} losses"] = np.array([mean.item() for mean in means])

    def tensors(self, part, dtype):
        samples, targets = self.sets[part]
        return training.torch_inputs(samples, dtype), torch.from_numpy(targets.astype(np.int64))

    def count(self, logits, targets):
        """By truth and guess, and how near the guesses are to another one."""
        logits, targets = logits.numpy(), targets.numpy()
        void = self.terms[0].get("ignore_index", -100)
        if logits.shape[1] == 1:
            guess, classes, gap = (logits[:, 0] > 0).astype(int), 2, np.abs(logits)
        else:
            ordered = np.sort(logits, axis=1)
            guess, classes, gap = logits.argmax(axis=1), logits.shape[1], ordered[:, -1] - ordered[:, -2]
        self.margin = float(gap.min() / np.abs(logits).max())
        kept = targets != void
        self.confusion = np.zeros((classes, classes), int)
        np.add.at(self.confusion, (targets[kept], guess[kept]), 1)


def expected_metrics(confusion, void):
    """By the sets of pixels: intersection over union and the like, class by class."""
    hits, truth, guess = np.diag(confusion), confusion.sum(axis=1), confusion.sum(axis=0)
    with np.errstate(invalid="ignore"):
        iou, dice = hits / (truth + guess - hits), 2 * hits / (truth + guess)
    kept = [c for c in range(len(hits)) if truth[c] + guess[c] > 0 and c != void]
    return {"accuracy": hits.sum() / confusion.sum(), "mean_iou": iou[kept].mean(), "dice": dice[kept].mean()}, iou, dice


def run(case):
    terms, classes, outputs, accumulation = VARIANTS[case.index]
    case.title = " + ".join(term["type"] for term in terms) + f", {classes} classes, {accumulation} batches an update"
    generator = np.random.default_rng(case.number)
    void = terms[0].get("ignore_index", -100)
    sets = {}
    for part, count in (("train", SAMPLES), ("validation", VALIDATION)):
        images = generator.integers(0, 256, (count, HEIGHT, WIDTH, CHANNELS), dtype=np.uint8)
        masks = generator.integers(0, classes, (count, HEIGHT, WIDTH))
        if void == VOID:
            # Samples differ in how much of them counts, so that a mean of means is another number.
            masks[generator.random(masks.shape) < generator.random((count, 1, 1))] = VOID
        stem = {"train": "train", "validation": "t10k"}[part]
        data_files.write_idx(case.folder / f"{stem}-images-idx4-ubyte", images)
        data_files.write_idx(case.folder / f"{stem}-labels-idx3-ubyte", masks.astype(np.uint8))
        sets[part] = data_files.standardised_pixels(images, [0.4] * CHANNELS, [0.5] * CHANNELS), masks
    section = {"type": "idx", "train": str(case.folder / "train-images-idx4-ubyte"),
               "train_labels": str(case.folder / "train-labels-idx3-ubyte"),
               "validation": str(case.folder / "t10k-images-idx4-ubyte"),
               "validation_labels": str(case.folder / "t10k-labels-idx3-ubyte"), "classes": classes, "shuffle": False,
               "normalize": {"mean": 0.4, "std": 0.5}}
    layers = [{"conv2d": {"out": 6, "kernel": 3, "padding": 1}}, "tanh", {"conv2d": {"out": outputs, "kernel": 1}}]
    updates = training.updates_of(SAMPLES, BATCH, accumulation)
    for _ in range(20):
        model = training.torch_network.build(layers, [HEIGHT, WIDTH, CHANNELS])
        twin = Twin(terms, layers, training.random_weights(model, generator), sets, updates)
        twin.compute(torch.float64, None)
        if twin.margin > 1e-5:
            break
    else:
        raise ValueError("no weights decide every pixel clearly")
    file = case.folder / "weights.safetensors"
    safetensors_file.write(file, twin.weights)
    config = part_networks.gradient_probe({
        "data": section, "model": {"layers": layers}, "loss": terms if len(terms) > 1 else terms[0],
        "train": {"batch_size": BATCH, "epochs": 1, "accumulation_steps": accumulation}})
    run_ = case.trainer.run(case.folder, config, "--weights", file, name="pixels")
    measured = part_networks.measured(run_, len(updates))
    evaluation = run_.evaluations[-1]
    for event in run_.steps:
        measured[f"step {event['step']} losses"] = event.get("losses")
    measured["evaluation losses"] = evaluation.get("losses")
    rounding.Reference(twin.compute, case.number).compare(case.findings, measured)
    metrics, iou, dice = expected_metrics(twin.confusion, void)
    for name, value in metrics.items():
        case.findings.close(name, evaluation[name], float(value), 1e-12)
    for name, values in (("class_iou", iou), ("class_dice", dice)):
        found = np.array([np.nan if value is None else value for value in evaluation[name]], float)
        case.findings.close(name, np.nan_to_num(found, nan=-1), np.nan_to_num(values, nan=-1), 1e-12)
    case.findings.equal("confusion matrix", run_.of_kind("end")[0]["confusion_matrix"], twin.confusion.tolist())


def num_cases(_options):
    return len(VARIANTS)
