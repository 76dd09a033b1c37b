#!/usr/bin/env python3
"""Steps torch.amp.GradScaler with SGD and AdamW through good and overflowing steps and writes
tests/golden/grad_scaler.txt: for each sequence a line

  sequence NAME INIT_SCALE GROWTH BACKOFF INTERVAL STEPS

then a line for each step: the gradient of the weights before scaling (inf where the step overflows), then what is there
behind the step: scale, growth tracker, the weight under SGD (lr 0.1, momentum 0.9), the weight under AdamW (lr 0.01).
usage: .venv/bin/python scripts/oracle/make_grad_scaler.py
"""
import math
import pathlib

import torch

GOLDEN = pathlib.Path(__file__).resolve().parent.parent.parent / "tests" / "golden" / "grad_scaler.txt"
# name: init scale, growth, backoff, interval, steps, those that overflow
SEQUENCES = {
    "defaults": (65536.0, 2.0, 0.5, 2000, 12, {0, 1, 7}),
    "short_interval": (65536.0, 2.0, 0.5, 3, 40, {0, 5, 6, 9, 10, 11, 25}),
    "odd_factors": (1000.0, 1.7, 0.3, 2, 30, {4, 5, 17}),
    "largest_scale": (2.0**126, 2.0, 0.5, 1, 8, {5}),
}


def run(init_scale, growth, backoff, interval, steps, overflows):
    scaler = torch.amp.GradScaler("cpu", init_scale=init_scale, growth_factor=growth, backoff_factor=backoff,
                                  growth_interval=interval)
    weights = [torch.nn.Parameter(torch.tensor([0.5])) for _ in range(2)]
    optimizers = [torch.optim.SGD([weights[0]], lr=0.1, momentum=0.9), torch.optim.AdamW([weights[1]], lr=0.01)]
    for step in range(steps):
        # Small enough for the largest scale, and representable in f32.
        gradient = torch.tensor(math.sin(step + 1) * 0.5).item()
        for weight, optimizer in zip(weights, optimizers):
            optimizer.zero_grad()
            scaler.scale((weight * gradient).sum()).backward()
            if step in overflows:
                weight.grad.fill_(math.inf)
            scaler.step(optimizer)
        scaler.update()
        yield (math.inf if step in overflows else gradient, scaler.get_scale(), scaler._get_growth_tracker(),
               weights[0].item(), weights[1].item())


with open(GOLDEN, "w", encoding="ascii") as file:
    for name, (init_scale, growth, backoff, interval, steps, overflows) in SEQUENCES.items():
        print("sequence", name, repr(init_scale), growth, backoff, interval, steps, file=file)
        for values in run(init_scale, growth, backoff, interval, steps, overflows):
            print(*values, file=file)
print(f"{GOLDEN}: {len(SEQUENCES)} sequences, PyTorch {torch.__version__}")
