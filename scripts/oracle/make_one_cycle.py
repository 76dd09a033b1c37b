#!/usr/bin/env python3
"""Steps torch.optim.lr_scheduler.OneCycleLR (cosine, momentum left alone) and writes tests/golden/one_cycle.txt: for each
setting and length of a run a line

  run TOTAL_STEPS WARMUP_FRACTION START_DIVISOR FINAL_DIVISOR

then a line for each step looked at, counted from 1: the step and its learning rate, where the highest is 0.5. PyTorch
divides its first learning rate, not its highest, by final_div_factor, which is FINAL_DIVISOR / START_DIVISOR therefore.
A step for which PyTorch divides by zero, since the rise ends where it begins, says nan.
usage: .venv/bin/python scripts/oracle/make_one_cycle.py
"""
import math
import pathlib
import warnings

import torch

GOLDEN = pathlib.Path(__file__).resolve().parent.parent.parent / "tests" / "golden" / "one_cycle.txt"
HIGHEST = 0.5
DEFAULTS = (0.25, 25.0, 1e5)
SETTINGS = {
    DEFAULTS: [*range(1, 14), 39, 40, 41, 100, 184, 1000, 9999, 10000],
    (0.3, 10.0, 100.0): [1, 2, 3, 4, 10, 37, 1000],
    (0.001, 25.0, 1e4): [1, 2, 999, 1000, 1001, 2500],
    (0.5, 4.0, 4.0): [1, 2, 3, 11],
    (1.0, 25.0, 1e5): [1, 2, 3, 10],
}


def learning_rates(total, fraction, start_divisor, final_divisor):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=HIGHEST)
    try:
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, HIGHEST, total_steps=total, pct_start=fraction, div_factor=start_divisor,
            final_div_factor=final_divisor / start_divisor, anneal_strategy="cos", cycle_momentum=False)
    except ZeroDivisionError:  # its first step
        if total == 1:
            return [math.nan]
        # The later steps of one that got past it: the same phases from the second step on.
        begin = torch.optim.lr_scheduler.OneCycleLR.get_lr
        torch.optim.lr_scheduler.OneCycleLR.get_lr = lambda self: [math.nan] if self.last_epoch == 0 else begin(self)
        try:
            return learning_rates(total, fraction, start_divisor, final_divisor)
        finally:
            torch.optim.lr_scheduler.OneCycleLR.get_lr = begin
    rates = [optimizer.param_groups[0]["lr"]]
    for _ in range(total - 1):
        optimizer.step()
        schedule.step()
        rates.append(optimizer.param_groups[0]["lr"])
    return rates


def looked_at(total, fraction):
    top = math.floor(fraction * total)
    return sorted({step for step in (1, 2, top // 2, top - 1, top, top + 1, (top + total) // 2, total - 1, total)
                   if 1 <= step <= total})


warnings.simplefilter("error")
num_runs = 0
with open(GOLDEN, "w", encoding="ascii") as file:
    for setting, totals in SETTINGS.items():
        for total in totals:
            print("run", total, *setting, file=file)
            rates = learning_rates(total, *setting)
            for step in looked_at(total, setting[0]):
                print(step, repr(float(rates[step - 1])), file=file)
            num_runs += 1
print(f"{GOLDEN}: {num_runs} runs, PyTorch {torch.__version__}")
