#!/usr/bin/env python3
"""Trains configs/shakespeare_gpt.yaml, smaller and shorter, in PyTorch and writes tests/runs/short_gpt/:

  input.txt            a text of made-up sentences
  initial.safetensors  the weights before the first step
  expected.json        `set`: what makes the recipe short; the loss of each step and of the evaluation behind the last, in
                       float64; `rounding`: how far the same training in float32 is from them at most

usage: .venv/bin/python scripts/oracle/make_short_gpt.py [--fresh]. Text and weights that exist are kept without --fresh.
"""
import argparse
import json
import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch.optim import lr_scheduler

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import safetensors_file  # noqa: E402
import training  # noqa: E402
from part_tokens import drawn_offset, windows  # noqa: E402
from pytorch_gpt import GPT  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parent.parent.parent / "tests" / "runs" / "short_gpt"
SEED, LENGTH, BATCH, STEPS, WARMUP, SPLIT = 1, 32, 8, 40, 5, 0.1
MODEL = {"depth": 2, "width": 48, "heads": 3, "vocabulary": 256, "length": LENGTH}
LR, FINAL_FACTOR, CLIP = 0.003, 0.1, 1.0
WORDS = {"a": "the my thy that this our no each".split(), "n": "king night crown heart sword moon sea ghost day".split(),
         "v": "loves fears calls breaks sees holds leaves".split(), "d": "gladly never softly again too now".split()}


def make_text(generator):
    sentences = []
    while sum(map(len, sentences)) < 14000:
        words = [str(generator.choice(WORDS[kind])) for kind in ("a", "n", "v", "a", "n", "d")]
        sentences.append(" ".join(words).capitalize() + (".\n" if generator.random() < 0.7 else "!\n"))
    return "".join(sentences)


def trainers_name(name):
    """As configs/models/gpt2.yaml calls what GPT calls `name`."""
    return name.replace("mlp.0.", "mlp.c_fc.").replace("mlp.2.", "mlp.c_proj.")


def train(weights, sets, dtype):
    """(loss of each step, loss of the evaluation behind the last)."""
    model = GPT(MODEL["depth"], MODEL["width"], MODEL["heads"], MODEL["vocabulary"], LENGTH)
    state = {name: torch.from_numpy(weights[trainers_name(name)]) for name in model.state_dict() if "lm_head" not in name}
    model.load_state_dict(state, strict=False)
    model = model.to(dtype)
    optimizer = training.make_optimizer({"type": "adamw", "lr": LR, "betas": [0.9, 0.99], "weight_decay": 0.1}, model)
    schedule = lr_scheduler.SequentialLR(optimizer, [
        lr_scheduler.LinearLR(optimizer, 1 / WARMUP, 1.0, WARMUP - 1),
        lr_scheduler.CosineAnnealingLR(optimizer, STEPS - WARMUP, eta_min=LR * FINAL_FACTOR)], [WARMUP])
    losses = []
    for begin in range(0, STEPS * BATCH, BATCH):
        tokens, targets = (torch.from_numpy(part[begin:begin + BATCH].astype(np.int64)) for part in sets["train"])
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(tokens), targets.flatten())
        loss.backward()
        training.clip(model, CLIP)
        losses.append(loss.item())
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        tokens, targets = (torch.from_numpy(part.astype(np.int64)) for part in sets["validation"])
        return losses, F.cross_entropy(model(tokens), targets.flatten()).item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fresh", action="store_true", help="make the text and the initial weights anew")
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    generator = np.random.default_rng(SEED)
    FOLDER.mkdir(parents=True, exist_ok=True)
    text, initial = FOLDER / "input.txt", FOLDER / "initial.safetensors"
    if arguments.fresh or not text.exists():
        text.write_text(make_text(generator), encoding="ascii")
    if arguments.fresh or not initial.exists():
        torch.manual_seed(SEED)
        model = GPT(MODEL["depth"], MODEL["width"], MODEL["heads"], MODEL["vocabulary"], LENGTH)
        safetensors_file.write(initial, {trainers_name(name): value.numpy() for name, value in model.state_dict().items()
                                         if "lm_head" not in name})
    tokens = np.frombuffer(text.read_bytes(), np.uint8)
    aside = round(SPLIT * len(tokens))
    parts = {"train": tokens[:-aside], "validation": tokens[-aside:]}
    sets = {part: windows(values, drawn_offset(SEED, LENGTH) if part == "train" else 0,
                          (len(values) - 1) // LENGTH - (part == "train"), LENGTH) for part, values in parts.items()}
    assert len(sets["train"][0]) >= STEPS * BATCH, "every step is of the first epoch"
    weights = safetensors_file.read(initial)
    exact, exact_evaluation = train(weights, sets, torch.float64)
    single, single_evaluation = train(weights, sets, torch.float32)
    recipe = [f"model.with={json.dumps({**MODEL, 'dropout': 0}).replace(chr(34), '')}", f"data.sequence_length={LENGTH}",
              "data.samples=0", "data.validation_samples=0", "data.shuffle=false", f"seed={SEED}", f"train.steps={STEPS}",
              f"train.batch_size={BATCH}", f"train.eval_every={STEPS}", f"optimizer.lr={LR}",
              f"schedule.warmup_steps={WARMUP}", f"train.clip_norm={CLIP}"]
    expected = {"set": recipe, "losses": exact, "evaluation_loss": exact_evaluation,
                "rounding": max(abs(a - b) for a, b in zip(exact + [exact_evaluation], single + [single_evaluation]))}
    (FOLDER / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")
    print(f"loss {exact[0]:.4f} -> {exact[-1]:.4f}, of the evaluation {exact_evaluation:.4f}, rounding "
          f"{expected['rounding']:.1e}")


if __name__ == "__main__":
    main()
