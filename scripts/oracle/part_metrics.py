"""Loss, accuracy and top-5 over a validation set whose last batch is odd, whatever the batches of evaluation."""
import numpy as np
import torch

import part_networks
import rounding
import safetensors_file
import training

LAYERS = [{"linear": {"out": 20}}, "tanh"]
# The loss, classes or outputs, samples of validation.
VARIANTS = [
    ({"type": "cross_entropy"}, 12, 101), ({"type": "cross_entropy", "label_smoothing": 0.2}, 7, 53),
    ({"type": "cross_entropy", "class_weights": "random"}, 12, 97),
    ({"type": "cross_entropy", "class_weights": "random", "label_smoothing": 0.1}, 6, 41),
    ({"type": "cross_entropy", "class_weights": "one is zero"}, 8, 61), ({"type": "cross_entropy"}, 5, 29),
    ({"type": "cross_entropy"}, 2, 31), ({"type": "mse"}, 1, 47), ({"type": "l1"}, 1, 37),
    ({"type": "smooth_l1", "beta": 0.3}, 1, 53), ({"type": "bce_with_logits"}, 1, 43),
    ({"type": "cross_entropy"}, 1500, 2011),  # where memory.chunked_loss: auto takes a few rows at a time
]
BATCHES = [1, 7, 1000]


def run(case):
    options, outputs, count = VARIANTS[case.index]
    loss = dict(options)
    generator = np.random.default_rng(case.number)
    if "class_weights" in loss:
        weights = [round(float(value), 3) for value in generator.uniform(0.2, 3, outputs)]
        if loss["class_weights"] == "one is zero":
            weights[1] = 0
        loss["class_weights"] = weights
    case.title = f"{loss['type']}, {outputs} outputs, {count} samples"
    data = {"form": "csv", "shape": [6], "batch": 8, "samples": max(24, outputs), "validation": count, "outputs": outputs,
            "loss": loss["type"]}
    section, sets = part_networks.write_data(case.folder, data, generator, case.random)
    layers = [*LAYERS, {"linear": {"out": outputs}}]
    weights = training.random_weights(training.torch_network.build(layers, [6]), generator)
    file = case.folder / "weights.safetensors"
    safetensors_file.write(file, weights)
    twin = part_networks.Twin(layers, data, loss, weights, sets, [[(0, 8)]])
    reference = rounding.Reference(twin.compute, case.number)
    name = "evaluation loss"
    for batch in BATCHES if count < 1000 else [300]:
        config = {"data": section, "model": {"layers": layers}, "loss": loss, "optimizer": {"type": "sgd", "lr": 0},
                  "train": {"batch_size": 8, "steps": 1, "eval_batch_size": batch}}
        run_ = case.trainer.run(case.folder, config, "--weights", file, name=f"batches_of_{batch}")
        event = run_.evaluations[-1]
        case.findings.close(f"{name}, batches of {batch}", event["loss"], float(reference.exact[name]),
                            reference.allowed[name])
        case.findings.equal(f"samples, batches of {batch}", event["samples"], count)
        part_networks.compare_metrics(case.findings, twin.metrics, event)
        end = run_.of_kind("end")[0]
        case.findings.equal(f"the end repeats them, batches of {batch}", [end["loss"], end["accuracy"], end["top5"]],
                            [event["loss"], event["accuracy"], event["top5"]])
    if "class_weights" in loss:
        # The mean of PyTorch's batches would be another number than that over all samples: the check can tell them apart.
        inputs, targets = twin.tensors("validation", torch.float64, None)
        with torch.no_grad():
            outputs = training.model_of(layers, [6], weights, torch.float64).eval()(inputs)
        of_batches = [training.loss_of(loss, outputs[i:i + 7], targets[i:i + 7]).item() for i in range(0, count, 7)]
        case.findings.holds("batches have means of their own", abs(np.mean(of_batches) - float(reference.exact[name])) >
                            10 * reference.allowed[name])


def num_cases(_options):
    return len(VARIANTS)
