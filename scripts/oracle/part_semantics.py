"""What trainer does otherwise than PyTorch, or than the loop that its users usually write, on purpose. Each claim is a row
of the table in README.md, whose words in code style are the function's name."""
import numpy as np
import torch

import data_files
import part_networks
import safetensors_file
import training
from trainer_runs import DIVERGED, gradient_probe

LAYERS = [{"linear": {"out": 7}}, "layernorm", "tanh", {"linear": {"out": 3}}]
CONFIG_ERROR = 2


def table(case, layers=None, **changes):
    """(data, section, sets, weights, file of the weights) of a small task; layers are LAYERS."""
    data = {"form": "csv", "shape": [5], "batch": 6, "samples": 16, "validation": 7, "outputs": 3, "loss": "cross_entropy",
            **changes}
    generator = np.random.default_rng(case.number)
    section, sets = part_networks.write_data(case.folder, data, generator, case.random)
    weights = training.random_weights(training.torch_network.build(layers or LAYERS, data["shape"]), generator)
    file = case.folder / "weights.safetensors"
    safetensors_file.write(file, weights)
    return data, section, sets, weights, file


def tensors(sets, part="train"):
    samples, targets = sets[part]
    return training.torch_inputs(samples, torch.float64), torch.from_numpy(np.asarray(targets, np.float64))


def distance(one, other):
    return max(float(np.abs(one[name].astype(np.float64) - other[name]).max()) for name in other)


def trained(case, layers, weights, inputs, targets, batches, make, rates=None, momenta=None):
    """State after one update a batch; `make` makes the optimizer from the model."""
    model = training.model_of(layers, case.shape, weights, torch.float64).train()
    optimizer = make(model)
    for step, (begin, end) in enumerate(batches):
        for group in optimizer.param_groups:
            if rates:
                group["lr"] = rates[step]
            if momenta:
                group["momentum"] = momenta[step]
        optimizer.zero_grad()
        training.loss_of({}, model(inputs[begin:end]), targets[begin:end]).backward()
        optimizer.step()
    return training.state_arrays(model)


def agrees_with_one_of(case, measured, expected, other, name):
    """Near to what trainer says it does, and far from the other way: a claim that cannot tell them apart claims nothing."""
    near, far = distance(measured, expected), distance(measured, other)
    case.findings.close(name, near, 0.0, 5e-6)
    case.findings.holds(f"{name}: the other way is another", far > 1e-3, f"{far}")


def norms_and_biases_do_not_decay(case):
    _, section, sets, weights, file = table(case)
    case.shape = [5]
    for decay_all in (False, True):
        options = {"type": "sgd", "lr": 0.1, "weight_decay": 0.5, "decay_norms_and_biases": decay_all}
        run_ = case.trainer.run(case.folder, {"data": section, "model": {"layers": LAYERS}, "optimizer": options, "train": {
            "batch_size": 16, "epochs": 3}}, "--weights", file, name=f"decay_all_{decay_all}")
        plain = trained(case, LAYERS, weights, *tensors(sets), [(0, 16)] * 3, lambda model: torch.optim.SGD(
            model.parameters(), lr=0.1, weight_decay=0.5))
        apart = trained(case, LAYERS, weights, *tensors(sets), [(0, 16)] * 3, lambda model: torch.optim.SGD(
            [{"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": 0.5},
             {"params": [p for p in model.parameters() if p.ndim == 1]}], lr=0.1))
        agrees_with_one_of(case, run_.weights(3), *((plain, apart) if decay_all else (apart, plain)),
                           f"weights, decay_norms_and_biases {decay_all}")


def accumulation_divides_by_real_samples(case):
    _, section, sets, weights, file = table(case)
    run_ = case.trainer.run(case.folder, gradient_probe({"data": section, "model": {"layers": LAYERS}, "train": {
        "batch_size": 6, "accumulation_steps": 3, "epochs": 1, "log_every": 1}}), "--weights", file)
    inputs, targets = tensors(sets)
    expected, usual = [], []
    for result, parts in ((expected, [(0, 16, 1.0)]), (usual, [(0, 6, 1 / 3), (6, 12, 1 / 3), (12, 16, 1 / 3)])):
        model = training.model_of(LAYERS, [5], weights, torch.float64)
        for begin, end, share in parts:
            (training.loss_of({}, model(inputs[begin:end]), targets[begin:end]) * share).backward()
        result.append({name: p.grad.numpy() for name, p in model.named_parameters()})
    agrees_with_one_of(case, run_.gradients(1), expected[0], usual[0], "gradients of 6 + 6 + 4 samples")
    case.findings.equal("samples of the update", run_.steps[0]["samples"], 16)


def class_weights_are_those_of_the_update(case):
    """Over micro-batches, too, the mean divides by the weights of all samples of the update."""
    _, section, sets, weights, file = table(case)
    loss = {"type": "cross_entropy", "class_weights": [0.1, 1.0, 5.0]}
    run_ = case.trainer.run(case.folder, gradient_probe({
        "data": section, "model": {"layers": LAYERS}, "loss": loss,
        "train": {"batch_size": 6, "accumulation_steps": 3, "epochs": 1, "log_every": 1}}), "--weights", file)
    inputs, targets = tensors(sets)
    results = []
    for parts in ([(0, 16, 1.0)], [(0, 6, 6 / 16), (6, 12, 6 / 16), (12, 16, 4 / 16)]):
        model = training.model_of(LAYERS, [5], weights, torch.float64)
        total = 0.0
        for begin, end, share in parts:
            value = training.loss_of(loss, model(inputs[begin:end]), targets[begin:end]) * share
            value.backward()
            total += value.item()
        results.append(({name: p.grad.numpy() for name, p in model.named_parameters()}, total))
    agrees_with_one_of(case, run_.gradients(1), results[0][0], results[1][0], "gradients")
    case.findings.close("loss of the step", run_.steps[0]["loss"], results[0][1], 1e-5)


def batch_norm_sees_micro_batches(case):
    layers = [{"conv2d": {"out": 4, "kernel": 2}}, "batchnorm2d", "tanh", "flatten", {"linear": {"out": 3}}]
    data, section, sets, weights, file = table(case, layers, form="idx", shape=[4, 4, 1])
    run_ = case.trainer.run(case.folder, gradient_probe({"data": section, "model": {"layers": layers}, "train": {
        "batch_size": 8, "accumulation_steps": 2, "epochs": 1, "log_every": 1}}), "--weights", file)
    inputs, targets = tensors(sets)
    results = []
    for update in ([(0, 8), (8, 16)], [(0, 16)]):
        model = training.model_of(layers, data["shape"], weights, torch.float64).train()
        training.accumulate(model, {}, inputs, targets, update)
        results.append({name: p.grad.numpy() for name, p in model.named_parameters()})
    agrees_with_one_of(case, run_.gradients(1), *results, "gradients of 8 + 8 samples")


def loss_of_a_step_is_before_its_update(case):
    _, section, sets, weights, file = table(case)
    case.shape = [5]
    run_ = case.trainer.run(case.folder, {
        "data": section, "model": {"layers": LAYERS}, "optimizer": {"type": "sgd", "lr": 1.0},
        "train": {"batch_size": 16, "epochs": 1, "log_every": 1}}, "--weights", file)
    inputs, targets = tensors(sets)
    before = training.loss_of({}, training.model_of(LAYERS, [5], weights, torch.float64)(inputs), targets).item()
    behind = training.loss_of({}, training.model_of(LAYERS, [5], run_.weights(1), torch.float64)(inputs), targets).item()
    case.findings.close("loss of step 1", run_.steps[0]["loss"], before, 1e-6)
    case.findings.holds("the loss behind it is another", abs(before - behind) > 1e-3)


def dropout_masks_are_trainers_own(case):
    """A linear layer of zero weights behind dropout shows the mask of each step in its gradient."""
    count, p = 2000, 0.3
    images = np.full((3, 50, 40), 255, np.uint8)
    data_files.write_idx(case.folder / "train-images-idx3-ubyte", images)
    data_files.write_idx(case.folder / "train-labels-idx1-ubyte", np.zeros(3, np.uint8))
    section = {"type": "idx", "root": str(case.folder), "classes": 2, "shuffle": False}
    masks = {}
    for name, seed in (("one", case.number), ("again", case.number), ("other", case.number + 1)):
        run_ = case.trainer.run(case.folder, gradient_probe({
            "seed": seed, "data": section, "train": {"batch_size": 1, "epochs": 2, "log_every": 1},
            "model": {"init": "zeros", "layers": ["flatten", {"dropout": {"p": p}}, {"linear": {"out": 2}}]}}), name=name)
        masks[name] = [-2 * run_.gradients(step)["2.weight"][0] for step in range(1, 7)]
    kept = np.array(masks["one"])
    case.findings.equal("values", sorted({round(float(value), 5) for value in kept.ravel()}), [0.0, round(1 / (1 - p), 5)])
    # Behind a step that kept an element, the probe's momentum of 1e-38 is there instead of 0.
    dropped = kept < 0.5
    case.findings.close("share of zeros", float(dropped.mean()), p, 6 * (p * (1 - p) / (6 * count))**0.5)
    for one in range(6):
        for other in range(one):
            both = float((dropped[one] & dropped[other]).mean())
            case.findings.close(f"steps {other + 1} and {one + 1} are independent", both, p * p, 6 * (p * p / count)**0.5)
    case.findings.holds("the seed decides", all(np.array_equal(a, b) for a, b in zip(masks["one"], masks["again"])))
    case.findings.holds("another seed has others", not np.array_equal(masks["one"][0], masks["other"][0]))


def files_are_pytorchs(case):
    """A module with the layers' names loads model.safetensors and computes the same, `flatten` included; the counter that
    PyTorch's batch norm saves is not there, and may be in files that trainer is given."""
    layers = [{"conv2d": {"out": 4, "kernel": 3, "groups": 1}}, "batchnorm2d", "silu",
              {"residual": {"layers": [{"conv2d": {"out": 4, "kernel": 1}}]}}, "flatten", {"linear": {"out": 3}}]
    data, section, sets, weights, _ = table(case, layers, form="idx", shape=[5, 6, 2])
    file = case.folder / "from_pytorch.safetensors"
    safetensors_file.write(file, {**weights, "1.num_batches_tracked": np.array(17, np.int64)})
    run_ = case.trainer.run(case.folder, {"data": section, "model": {"layers": layers}, "train": {"batch_size": 6,
                                                                                                 "epochs": 2}},
                            "--weights", file)
    saved = run_.weights(run_.saved_steps()[-1])
    case.findings.equal("names of counters", [name for name in saved if name.endswith("num_batches_tracked")], [])
    model = training.torch_network.build(layers, data["shape"])
    model.load_state_dict({name: torch.from_numpy(array) for name, array in saved.items()}, strict=True)
    inputs, targets = tensors(sets, "validation")
    with torch.no_grad():
        value = training.loss_of({}, model.double().eval()(inputs), targets).item()
    case.findings.close("evaluation loss", run_.evaluations[-1]["loss"], value, 1e-5)


def one_cycle_leaves_momentum(case):
    _, section, sets, weights, file = table(case)
    case.shape = [5]
    run_ = case.trainer.run(case.folder, {
        "data": section, "model": {"layers": LAYERS}, "optimizer": {"type": "sgd", "lr": 0.3, "momentum": 0.95},
        "schedule": {"type": "one_cycle"}, "train": {"batch_size": 16, "epochs": 12, "log_every": 1}}, "--weights", file)
    rates = [event["lr"] for event in run_.steps]
    parameter = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.3, momentum=0.95)
    cycle = torch.optim.lr_scheduler.OneCycleLR(parameter, 0.3, total_steps=12, pct_start=0.25)
    momenta = []
    for step in range(12):
        momenta.append(parameter.param_groups[0]["momentum"])
        parameter.step()
        if step < 11:
            cycle.step()

    def make(model):
        return torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.95)
    expected = trained(case, LAYERS, weights, *tensors(sets), [(0, 16)] * 12, make, rates)
    cycled = trained(case, LAYERS, weights, *tensors(sets), [(0, 16)] * 12, make, rates, momenta)
    near, far = distance(run_.weights(12), expected), distance(run_.weights(12), cycled)
    case.findings.close("weights", near, 0.0, 1e-4)
    case.findings.holds("cycled momentum is another", far > 20 * max(near, 1e-4), f"{far}")


def ties_go_to_the_lower_class(case):
    """As argmax; torch.topk says nothing of ties."""
    data, section, sets, _, _ = table(case, outputs=8, validation=19)
    run_ = case.trainer.run(case.folder, {"data": section, "model": {"init": "zeros", "layers": [{"linear": {"out": 8}}]},
                                          "optimizer": {"type": "sgd", "lr": 0}, "train": {"batch_size": data["batch"],
                                                                                         "steps": 1}})
    targets = np.asarray(sets["validation"][1])
    case.findings.close("accuracy", run_.evaluations[0]["accuracy"], float((targets < 1).mean()), 1e-12)
    case.findings.close("top5", run_.evaluations[0]["top5"], float((targets < 5).mean()), 1e-12)


def not_finite_ends_the_run(case):
    """PyTorch trains on with NaN."""
    _, section, _, _, file = table(case)
    run_ = case.trainer.run(case.folder, {
        "data": section, "model": {"layers": LAYERS}, "optimizer": {"type": "sgd", "lr": 1e38},
        "train": {"batch_size": 16, "epochs": 9, "log_every": 1}}, "--weights", file, accept=(DIVERGED,))
    case.findings.equal("exit code", run_.exit_code, DIVERGED)
    case.findings.equal("events of divergence", len(run_.of_kind("diverged")), 1)


def skipped_steps_are_steps_of_the_schedule(case):
    """The learning rate goes on; Adam's count of updates does not, as under GradScaler."""
    _, section, sets, weights, file = table(case)
    case.shape = [5]
    run_ = case.trainer.run(case.folder, {
        "data": section, "model": {"layers": LAYERS}, "optimizer": {"type": "adam", "lr": 0.05},
        "schedule": {"type": "cosine"}, "train": {"batch_size": 16, "epochs": 12, "log_every": 1, "amp": "fp16",
                                                  "loss_scale": {"initial": 2.0**24}}}, "--weights", file)
    skipped = [event["skipped"] for event in run_.steps]
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 12)
    rates = []
    for _ in range(12):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    case.findings.close("learning rates", [event["lr"] for event in run_.steps], rates, 1e-9)
    case.findings.holds("some of the first steps are skipped", any(skipped[:6]) and not all(skipped), f"{skipped}")
    taken = [rate for rate, skip in zip(rates, skipped) if not skip]
    expected = trained(case, LAYERS, weights, *tensors(sets), [(0, 16)] * len(taken), lambda model: torch.optim.Adam(
        model.parameters(), lr=0.05), taken)
    moved = distance(expected, weights)
    case.findings.close("weights, as a share of how far they moved", distance(run_.weights(12), expected) / moved, 0.0, 0.1)


def same_seed_same_bits(case):
    _, section, _, _, _ = table(case)
    section = {**section, "shuffle": True}
    config = {"seed": case.number, "data": section, "model": {"layers": [*LAYERS[:3], {"dropout": {"p": 0.4}}, LAYERS[3]]},
              "optimizer": "adamw", "train": {"batch_size": 5, "epochs": 6}}
    one, again = (case.trainer.run(case.folder, config, name=name) for name in ("one", "again"))
    step = one.saved_steps()[-1]
    case.findings.holds("weights", all(np.array_equal(array, again.weights(step)[name])
                                       for name, array in one.weights(step).items()))


def drop_last_leaves_something(case):
    """PyTorch's DataLoader makes empty epochs of a batch larger than the data; trainer's full batch is then all of it, or
    it refuses."""
    _, section, _, _, _ = table(case)
    run_ = case.trainer.run(case.folder, {"data": {**section, "drop_last": True}, "model": {"layers": LAYERS}, "train": {
        "batch_size": 17, "epochs": 2, "log_every": 1}}, accept=(0, CONFIG_ERROR))
    if run_.exit_code == 0:
        case.findings.equal("samples of the steps", [event["samples"] for event in run_.steps], [16, 16])
    else:
        case.findings.equal("steps of a run that is refused", len(run_.steps), 0)


def batch_norm_over_one_value_is_not_silent(case):
    """PyTorch refuses to train with one value a channel: the output would be the shift, whatever the input."""
    first, last = {"conv2d": {"out": 3, "kernel": 4}}, ["flatten", {"linear": {"out": 3}}]
    _, section, _, _, _ = table(case, [first, *last], form="idx", shape=[4, 4, 1])
    for norms in (["batchnorm2d"], ["instancenorm2d"], ["flatten", "batchnorm1d"]):
        layers = [first, *norms, *last]
        told(case, {"data": section, "model": {"layers": layers}, "train": {"batch_size": 1}})


def group_norm_over_one_value_is_not_silent(case):
    """PyTorch refuses it for one sample, and computes 0 of every value for several: what is before it learns nothing."""
    first, last = {"conv2d": {"out": 4, "kernel": 4}}, ["flatten", {"linear": {"out": 3}}]
    _, section, _, _, _ = table(case, [first, *last], form="idx", shape=[4, 4, 1])
    told(case, {"data": section, "model": {"layers": [first, {"groupnorm": {"groups": 4}}, *last]}, "train": {"batch_size": 4}})


def targets_of_bce_are_probabilities(case):
    """PyTorch computes a loss of any targets, which may be negative."""
    file = case.folder / "train.csv"
    data_files.write_csv(file, ["a", "y"], [[0.5, 3.0], [1.5, -2.0], [2.5, 5.0]])
    told(case, {"data": {"type": "csv", "train": str(file), "target_type": "numeric"}, "loss": "bce_with_logits",
                "model": {"layers": [{"linear": {"out": 1}}]}})


def a_batch_without_class_weight_is_not_silent(case):
    """PyTorch's mean is 0 / 0 there, so that all weights become NaN."""
    layers = [{"linear": {"out": 2}}]
    file = case.folder / "train.csv"
    data_files.write_csv(file, ["a", "y"], [[0.5, 0], [1.5, 0], [2.5, 1], [3.5, 1]])
    told(case, {"data": {"type": "csv", "train": str(file), "shuffle": False}, "model": {"layers": layers},
                "loss": {"type": "cross_entropy", "class_weights": [0, 1]}, "train": {"batch_size": 2}}, (DIVERGED,))


def told(case, config, also=()):
    """Refused as a configuration or as data, or warned of."""
    run_ = case.trainer.run(case.folder, config, accept=(0, CONFIG_ERROR, 6, *also))
    warned = bool(run_.of_kind("warning")) or "warning" in run_.said
    case.findings.holds("it is refused or warned of", run_.exit_code != 0 or warned, "the run ends with 0 and says nothing")


def linear_takes_the_last_dimension(case):
    """Of an image that is its channels, for trainer's images are H, W, C; PyTorch's last dimension is the width."""
    layers = [{"linear": {"out": 5}}, "tanh", {"residual": {"layers": [{"linear": {"out": 5, "bias": False}}]}}, "flatten",
              {"linear": {"out": 3}}]
    data, section, sets, weights, _ = table(case, layers, form="idx", shape=[4, 3, 2])
    section["drop_last"] = False
    twin = part_networks.Twin(layers, data, {"type": "cross_entropy"}, weights, sets,
                              training.updates_of(data["samples"], data["batch"]))
    part_networks.compare_twin(case, twin, section)


def layernorm_takes_the_last_dimension(case):
    layers = [{"conv2d": {"out": 4, "kernel": 1}}, "layernorm", "tanh", "flatten", {"linear": {"out": 3}}]
    data, section, sets, weights, _ = table(case, layers, form="idx", shape=[4, 3, 2])
    section["drop_last"] = False
    twin = part_networks.Twin(layers, data, {"type": "cross_entropy"}, weights, sets,
                              training.updates_of(data["samples"], data["batch"]))
    part_networks.compare_twin(case, twin, section)


def accuracy_of_bce_counts_numbers(case):
    """Each output for itself, where some count a sample as right only if all are."""
    data = {"form": "synthetic", "shape": [6], "batch": 6, "samples": 12, "validation": 23, "outputs": 4,
            "loss": "bce_with_logits"}
    section, sets = part_networks.synthetic_data(case, data)
    weights = training.random_weights(training.torch_network.build([{"linear": {"out": 4}}], [6]),
                                      np.random.default_rng(case.number))
    file = case.folder / "weights.safetensors"
    safetensors_file.write(file, weights)
    run_ = case.trainer.run(case.folder, {"seed": case.number, "data": section, "loss": "bce_with_logits", "model": {
        "layers": [{"linear": {"out": 4}}]}, "optimizer": {"type": "sgd", "lr": 0}, "train": {"batch_size": 6, "steps": 1}},
        "--weights", file)
    inputs, targets = tensors(sets, "validation")
    with torch.no_grad():
        right = (training.model_of([{"linear": {"out": 4}}], [6], weights, torch.float64)(inputs) > 0) == (targets > 0.5)
    case.findings.close("accuracy", run_.evaluations[-1]["accuracy"], right.double().mean().item(), 1e-12)
    case.findings.holds("that of whole samples is another", right.all(1).double().mean() != right.double().mean())


CLAIMS = [
    norms_and_biases_do_not_decay, accumulation_divides_by_real_samples, class_weights_are_those_of_the_update,
    batch_norm_sees_micro_batches, loss_of_a_step_is_before_its_update, dropout_masks_are_trainers_own, files_are_pytorchs,
    one_cycle_leaves_momentum, ties_go_to_the_lower_class, accuracy_of_bce_counts_numbers, not_finite_ends_the_run,
    skipped_steps_are_steps_of_the_schedule, same_seed_same_bits, drop_last_leaves_something,
    batch_norm_over_one_value_is_not_silent, group_norm_over_one_value_is_not_silent, targets_of_bce_are_probabilities, a_batch_without_class_weight_is_not_silent,
    linear_takes_the_last_dimension, layernorm_takes_the_last_dimension]


def run(case):
    claim = CLAIMS[case.index]
    case.title = claim.__name__
    claim(case)


def num_cases(_options):
    return len(CLAIMS)
