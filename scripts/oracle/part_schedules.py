"""The learning rate of every step against torch.optim.lr_scheduler, for runs of 1 to 10,000 steps."""
import torch
from torch.optim import lr_scheduler

LR = 0.07
SAMPLES = 6  # of an epoch, one a step
LENGTHS = [1, 2, 3, 7, 100, 1000, 10000]
SHORT_LENGTHS = [1, 2, 3, 7, 100]
# A recursive scheduler of PyTorch adds up roundings of doubles.
ALLOWED = 1e-9 * LR


def constant(optimizer, _steps):
    return lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)


def decay(every, gamma):
    return lambda optimizer, _steps: lr_scheduler.StepLR(optimizer, every, gamma)


def cosine(final_factor):
    return lambda optimizer, steps: lr_scheduler.CosineAnnealingLR(optimizer, steps, eta_min=LR * final_factor)


def one_cycle(warmup_fraction, start_divisor, final_divisor):
    """PyTorch's final learning rate is a share of the first one, trainer's of the highest; momentum stays."""
    return lambda optimizer, steps: lr_scheduler.OneCycleLR(
        optimizer, max_lr=LR, total_steps=steps, pct_start=warmup_fraction, anneal_strategy="cos",
        div_factor=start_divisor, final_div_factor=final_divisor / start_divisor, cycle_momentum=False)


# The section, and the scheduler over (optimizer, steps behind the warmup).
SCHEDULES = [
    ({"type": "constant"}, constant),
    ({"type": "constant", "warmup_steps": 5}, constant),
    ({"type": "warmup", "warmup_steps": 4}, constant),
    ({"type": "step", "every": 3, "gamma": 0.5}, decay(3, 0.5)),
    ({"type": "step", "every": "2ep", "gamma": 0.9}, decay(2 * SAMPLES, 0.9)),
    ({"type": "step", "every": 10, "gamma": 0.1, "warmup_steps": 2}, decay(10, 0.1)),
    ({"type": "cosine"}, cosine(0)),
    ({"type": "cosine", "final_factor": 0.1}, cosine(0.1)),
    ({"type": "cosine", "final_factor": 0.02, "warmup_steps": 3}, cosine(0.02)),
    ({"type": "one_cycle"}, one_cycle(0.25, 25, 1e5)),
    ({"type": "one_cycle", "warmup_fraction": 0.4, "start_divisor": 10, "final_divisor": 1000}, one_cycle(0.4, 10, 1000)),
    ({"type": "one_cycle", "warmup_fraction": 1, "start_divisor": 4}, one_cycle(1.0, 4, 1e5)),
]


def rates(make, steps):
    """The learning rates of that many steps of a scheduler."""
    if steps == 0:
        return []
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=LR)
    scheduler = make(optimizer, steps)
    result = []
    for _ in range(steps):
        result.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if len(result) < steps:
            scheduler.step()
    return result


def rising(warmup):
    """In the last step of the warmup the learning rate is whole, in the first it is 1 / warmup of that."""
    return lambda optimizer, _steps: (
        lr_scheduler.LinearLR(optimizer, 1 / warmup, 1.0, warmup - 1) if warmup > 1 else constant(optimizer, _steps))


def lengths(options):
    return SHORT_LENGTHS if options.short else LENGTHS


def run(case):
    section, make = SCHEDULES[case.index % len(SCHEDULES)]
    steps = lengths(case.options)[case.index // len(SCHEDULES)]
    section = dict(section)
    if section.get("warmup_fraction") == 1:
        steps = max(2, steps)  # PyTorch's divides by zero for one step
    warmup = section.get("warmup_steps", 0)
    if warmup >= steps:
        warmup = section["warmup_steps"] = steps - 1
    case.title = f"{section['type']}, {steps} steps, warmup {warmup}"
    case.seen = {section["type"]}
    if section["type"] == "warmup" and warmup == 0:
        section["type"] = "constant"
    config = {
        "data": {"type": "synthetic", "shape": [2], "classes": 2, "samples": SAMPLES},
        "model": {"layers": [{"linear": {"out": 2}}]}, "optimizer": {"type": "sgd", "lr": LR}, "schedule": section,
        "train": {"batch_size": 1, "epochs": -(-steps // SAMPLES), "steps": steps, "log_every": 1}}
    run_ = case.trainer.run(case.folder, config)
    case.findings.equal("steps", [event["step"] for event in run_.steps], list(range(1, steps + 1)))
    expected = (rates(rising(warmup), warmup) if warmup else []) + rates(make, steps - warmup)
    measured = [event["lr"] for event in run_.steps]
    off = max(range(len(expected)), key=lambda i: abs(measured[i] - expected[i]) if i < len(measured) else 0)
    case.findings.close("learning rates", measured, expected, ALLOWED)
    # The step that is furthest off says more than the largest deviation.
    case.findings.close(f"learning rate of step {off + 1}", measured[off], expected[off], ALLOWED)


def num_cases(options):
    return len(SCHEDULES) * len(lengths(options))


def everything(_options):
    return {"constant", "warmup", "step", "cosine", "one_cycle"}
