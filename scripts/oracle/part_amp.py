"""Mixed precision: gradients and losses of random networks within 16-bit rounding of f64, with PyTorch's autocast as
one witness, and the loss scale with its skipped steps by the rules of torch.amp.GradScaler."""
import numpy as np
import torch

import part_networks
import rounding
import safetensors_file
import training
from random_networks import NetworkMaker
from trainer_runs import gradient_probe

# Half the distance of two numbers around 1.
UNITS = {"bf16": 2.0**-8 / 2, "fp16": 2.0**-11}
LARGEST_FP16 = 65504.0
FACTOR, FLOOR, NUM_NOISY = 6, 4, 6
# Small enough for these networks not to overflow, large enough for small gradients not to vanish.
QUIET_SCALE = 256
MOST_NETWORKS = 30
# A bound that most gradients are not larger than would compare nothing.
MOST_OF_A_GRADIENT = 0.2


class Twin(part_networks.Twin):
    def autocast(self):
        # Without its cache, which would keep casts of the weights that the modules were made with.
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
            return super().compute(torch.float32, None)


def run_network(case, amp):
    random = case.random
    data = part_networks.draw_data(random)
    while data["form"] == "synthetic":
        data = part_networks.draw_data(random)
    seen = set()
    loss = part_networks.draw_loss(random, data, seen)
    section, sets = part_networks.write_data(case.folder, data, np.random.default_rng(case.number + 1), random)
    updates = training.updates_of(data["samples"], data["batch"])
    memory = {}
    if random.random() < 0.3:
        memory["gradients"] = "16bit"
    if amp == "bf16" and random.random() < 0.3:
        memory["master_weights"] = False
    twin, reference = draw_twin(case, amp, data, loss, sets, updates, memory)
    case.title, case.seen = f"{amp}, {len(twin.layers)} layers, {loss['type']}", {amp, *memory}
    file = case.folder / "weights.safetensors"
    safetensors_file.write(file, twin.weights)
    train = {"batch_size": data["batch"], "epochs": 1, "log_every": 1, "amp": amp}
    if amp == "fp16":
        train["loss_scale"] = {"initial": QUIET_SCALE}
    config = gradient_probe({"seed": case.number, "data": section, "model": {"layers": twin.layers}, "loss": loss,
                             "memory": memory, "train": train})
    run_ = case.trainer.run(case.folder, config, "--weights", file, name="network")
    if amp == "fp16":
        case.findings.equal("steps that overflow", [event["step"] for event in run_.steps if event["skipped"]], [])
    reference.compare(case.findings, part_networks.measured(run_, len(updates)))


def draw_twin(case, amp, data, loss, sets, updates, memory):
    """A network of which 16 bits leave something to compare: deep stacks of norms multiply their rounding."""
    for attempt in range(MOST_NETWORKS):
        layers = NetworkMaker(case.random, smooth=True).network(data["shape"], data["outputs"], 1, 4)
        weights = training.random_weights(training.torch_network.build(layers, data["shape"]),
                                          np.random.default_rng(case.number + attempt))
        if "master_weights" in memory:
            weights = {name: torch.from_numpy(array).bfloat16().float().numpy() if "running_" not in name else array
                       for name, array in weights.items()}
        twin = Twin(layers, data, loss, weights, sets, updates)
        # Scaled gradients below fp16's smallest normal number are rounded to multiples of 2⁻²⁴.
        quantum = 2.0**-25 / QUIET_SCALE if amp == "fp16" else 0.0
        reference = rounding.Reference(twin.compute, case.number, UNITS[amp], [twin.autocast()] if amp == "bf16" else [],
                                       FACTOR, FLOOR, NUM_NOISY, quantum)
        shares = [reference.allowed[name] / np.abs(value).max() for name, value in reference.exact.items()
                  if "gradient" in name and np.abs(value).max() > 0]
        if np.median(shares) < MOST_OF_A_GRADIENT:
            # Inside an op numbers are f32, which may lose what 16 bits around the op do not show.
            inside = rounding.Reference(twin.compute, case.number)
            reference.allowed = {name: allowed + inside.allowed[name] for name, allowed in reference.allowed.items()}
            return twin, reference
    raise ValueError(f"{MOST_NETWORKS} networks are all lost in 16-bit rounding")


# initial scale, growth, backoff, interval
SCALES = [(2.0**20, 2, 0.5, 3), (2.0**24, 4, 0.25, 2), (2.0**18, 1.5, 0.7, 1), (65536.0, 2, 0.5, 2000), (2.0**40, 2, 0.5, 5)]
SCALE_LAYERS = [{"linear": {"out": 20}}, "tanh", {"linear": {"out": 4}}]


def scaled_magnitudes(model, loss, inputs, targets):
    """The largest gradient of a weight, and the largest of all gradients, of the whole-batch mean."""
    largest = [0.0]
    hooks = [module.register_full_backward_hook(lambda _m, gin, gout: largest.append(max(
        float(g.abs().max()) for g in (*gin, *gout) if g is not None))) for module in model.modules()]
    model.zero_grad(set_to_none=True)
    training.loss_of(loss, model(inputs.clone().requires_grad_()), targets).backward()
    for hook in hooks:
        hook.remove()
    of_weights = max(float(p.grad.abs().max()) for p in model.parameters() if p.ndim > 1)
    return of_weights, max(*largest, *(float(p.grad.abs().max()) for p in model.parameters()))


def run_scale(case, optimizer):
    """Steps that overflow are skipped; the scale follows GradScaler; what is trained is trained on the other steps."""
    initial, growth, backoff, interval = SCALES[case.index % len(SCALES)]
    case.title, case.seen = f"loss scale {initial:g}, {optimizer['type']}", {"skipped steps"}
    random = case.random
    data = {"form": "csv", "shape": [9], "batch": 8, "samples": 40, "validation": 5, "outputs": 4, "loss": "cross_entropy"}
    loss = {"type": "cross_entropy"}
    section, sets = part_networks.write_data(case.folder, data, np.random.default_rng(case.number), random)
    epochs = 8
    updates = training.updates_of(data["samples"], data["batch"]) * epochs
    weights = training.random_weights(training.torch_network.build(SCALE_LAYERS, [9]), np.random.default_rng(case.number))
    file = case.folder / "weights.safetensors"
    safetensors_file.write(file, weights)
    config = {"data": section, "model": {"layers": SCALE_LAYERS}, "optimizer": optimizer,
              "train": {"batch_size": data["batch"], "epochs": epochs, "log_every": 1, "amp": "fp16", "loss_scale": {
                  "initial": initial, "growth": growth, "backoff": backoff, "interval": interval}},
              "checkpoint": {"every": 1, "keep": 1000}}
    run_ = case.trainer.run(case.folder, config, "--weights", file, name="network")
    skipped = [event["skipped"] for event in run_.steps]
    # The scale behind each step, by GradScaler itself over steps that overflow where trainer's did.
    scaler = torch.amp.GradScaler("cpu", init_scale=initial, growth_factor=growth, backoff_factor=backoff,
                                  growth_interval=interval)
    parameter = torch.nn.Parameter(torch.zeros(1))
    dummy = torch.optim.SGD([parameter], lr=0.0)
    scales = [initial]
    for overflow in skipped:
        scaler.scale(parameter.sum()).backward()
        parameter.grad.fill_(float("inf") if overflow else 1.0)
        scaler.step(dummy)
        scaler.update()
        scales.append(scaler.get_scale())
    case.findings.equal("number of steps", len(skipped), len(updates))
    for step, event in enumerate(run_.steps, 1):
        case.findings.close(f"scale behind step {step}", event["loss_scale"], scales[step], 1e-6 * scales[step])
    case.findings.equal("skipped updates at the end", run_.of_kind("end")[0]["skipped_updates"], sum(skipped))
    if initial > 2.0**17:
        case.findings.holds("some steps are skipped", any(skipped))
    case.findings.holds("some steps are not skipped", not all(skipped))
    compare_skipping(case, run_, skipped, scales, weights, sets, loss, updates, optimizer)


def compare_skipping(case, run_, skipped, scales, weights, sets, loss, updates, optimizer):
    """Whether the right steps were skipped, and that they changed nothing while the others did what PyTorch does."""
    inputs = training.torch_inputs(sets["train"][0], torch.float64)
    targets = torch.from_numpy(np.asarray(sets["train"][1]))
    for step, update in enumerate(updates, 1):
        before = weights if step == 1 else run_.weights(step - 1)
        after = run_.weights(step)
        changed = any(not np.array_equal(before[name], after[name]) for name in after)
        case.findings.equal(f"step {step} changes weights", changed, not skipped[step - 1])
        model = training.model_of(SCALE_LAYERS, [9], before, torch.float64)
        (begin, end), = update
        of_weights, of_all = scaled_magnitudes(model, loss, inputs[begin:end], targets[begin:end])
        scale = scales[step - 1]
        if of_weights * scale > 1.5 * LARGEST_FP16:
            case.findings.equal(f"step {step}, gradients of {of_weights * scale:.3g}, is skipped", skipped[step - 1], True)
        elif of_all * scale < 0.6 * LARGEST_FP16:
            case.findings.equal(f"step {step}, gradients of {of_all * scale:.3g}, is skipped", skipped[step - 1], False)

    def compute(dtype, noise):
        model = training.model_of(SCALE_LAYERS, [9], weights, dtype)
        if noise:
            noise.attach(model)
        torch_optimizer = training.make_optimizer(optimizer, model)
        x = inputs.to(dtype)
        found = {}
        for step, ((begin, end),) in enumerate(updates, 1):
            torch_optimizer.zero_grad(set_to_none=True)
            value = training.loss_of(loss, model(x[begin:end]), targets[begin:end])
            value.backward()
            found[f"step {step} loss"] = np.array(value.item())
            if not skipped[step - 1]:
                torch_optimizer.step()
        return {**found, **{f"end {name}": array for name, array in training.state_arrays(model).items()}}
    reference = rounding.Reference(compute, case.number, UNITS["fp16"], [], FACTOR, FLOOR, NUM_NOISY)
    reference.compare(case.findings, {**{f"step {event['step']} loss": event["loss"] for event in run_.steps},
                                      **{f"end {name}": array for name, array in run_.weights(len(updates)).items()}})


OPTIMIZERS = [{"type": "sgd", "lr": 0.1, "momentum": 0.9}, {"type": "adam", "lr": 0.01}, {"type": "adamw", "lr": 0.01}]


def num_networks(options):
    return 4 if options.short else 40


def run(case):
    if case.index < num_networks(case.options):
        return run_network(case, ["bf16", "fp16"][case.index % 2])
    return run_scale(case, OPTIMIZERS[(case.index - num_networks(case.options)) % len(OPTIMIZERS)])


def num_cases(options):
    return num_networks(options) + (3 if options.short else 15)


def everything(_options):
    return {"bf16", "fp16", "skipped steps"}
