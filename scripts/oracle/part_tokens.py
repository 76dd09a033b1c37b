"""Networks over tokens: embeddings, with and without a head that shares their weight, position embeddings; the windows of
an epoch, each step's loss and gradients over whole updates, evaluations and their perplexity."""
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import part_networks
import philox
import rounding
import safetensors_file
import training

VOCABULARY, ROWS, LENGTH, WIDTH, PLACES = 13, 17, 6, 5, 9
TRAIN, VALIDATION, BATCH = 131, 53, 4
OFFSET_STREAM = 0xDA7A0009
# Whether the head shares the embedding's weight, batches an update, settings that promise the same numbers.
VARIANTS = [
    (False, 1, {}), (True, 1, {}), (False, 3, {}), (True, 3, {}), (True, 2, {"chunked_loss": 5}),
    (True, 1, {"update": "in_backward"}), (True, 1, {"in_place": False, "recompute_cheap": False}),
    (False, 2, {"allocator": "planned"}),
]


class Network(nn.Module):
    def __init__(self, is_tied):
        super().__init__()
        self.wte = nn.Embedding(ROWS if not is_tied else VOCABULARY, WIDTH)
        self.wpe = nn.Embedding(PLACES, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Identity() if is_tied else nn.Linear(WIDTH, VOCABULARY)
        self.is_tied = is_tied

    def forward(self, tokens):
        x = self.norm(self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1])))
        return self.head(F.linear(x, self.wte.weight) if self.is_tied else x)


def layers_of(is_tied):
    head = {"out": VOCABULARY, "name": "head", **({"bias": False, "share": "wte"} if is_tied else {})}
    return [{"embedding": {"num": VOCABULARY if is_tied else ROWS, "dim": WIDTH, "name": "wte"}},
            {"position_embedding": {"length": PLACES, "name": "wpe"}}, {"layernorm": {"name": "norm"}}, {"linear": head}]


def windows(tokens, first, count, length):
    """(tokens, targets), a row for each window."""
    at = first + np.arange(count)[:, None] * length + np.arange(length)
    return tokens[at], tokens[at + 1]


def drawn_offset(seed, length):
    """The token that the first epoch begins at."""
    words = philox.philox4x32((0, 0, OFFSET_STREAM, 0), (seed, 0))
    return (words[0] << 32 | words[1]) % length


class Twin:
    """`network` makes a module that takes tokens and returns logits, whose state_dict `weights` are."""

    def __init__(self, network, weights, sets, updates):
        self.network, self.weights, self.sets, self.updates = network, weights, sets, updates

    def compute(self, dtype, noise):
        model = self.network()
        model.load_state_dict({name: torch.from_numpy(array) for name, array in self.weights.items()})
        model = model.to(dtype)
        if noise:
            noise.attach(model)
        found = {}
        for step, update in enumerate(self.updates, 1):
            if noise:
                noise.of_tensors(model)
            model.zero_grad(set_to_none=True)
            batches = [self.batch("train", begin, end) for begin, end in update]
            whole = sum(self.num_counted(batch) for batch in batches)
            loss = sum(self.loss(model, batch) for batch in batches) / whole
            loss.backward()
            found[f"step {step} loss"] = np.array(loss.item())
            for name, parameter in model.named_parameters():
                found[f"step {step} gradient of {name}"] = parameter.grad.double().numpy().copy()
        with torch.no_grad():
            batch = self.batch("validation", 0, None)
            found["evaluation loss"] = np.array((self.loss(model, batch) / self.num_counted(batch)).item())
        return found

    def batch(self, part, begin, end):
        return [torch.from_numpy(array[begin:end].astype(np.int64)) for array in self.sets[part]]

    @staticmethod
    def num_counted(batch):
        return (batch[1] != -100).sum().item()

    @staticmethod
    def loss(model, batch):
        return F.cross_entropy(model(batch[0]).flatten(0, 1), batch[1].flatten(), reduction="sum")


def write_tokens(file, tokens, generator):
    """In one of the three forms that are told apart."""
    form = generator.integers(3)
    header = np.zeros(256, np.int32)
    header[:3] = [(0, 0, 0), (20240520, 1, len(tokens)), (20240801, 7, len(tokens))][form]
    body = tokens.astype(np.uint32 if form == 2 else np.uint16).tobytes()
    file.write_bytes((header.tobytes() if form else b"") + body)


def run(case):
    is_tied, accumulation, memory = VARIANTS[case.index]
    case.title = f"{'tied' if is_tied else 'untied'}, {accumulation} batches an update, {memory}"
    generator = np.random.default_rng(case.number)
    # The smallest and the largest token occur, others more often than once a window.
    tokens = {part: np.concatenate([[0, VOCABULARY - 1], generator.integers(0, VOCABULARY, count - 2)])
              for part, count in (("train", TRAIN), ("validation", VALIDATION))}
    for part, values in tokens.items():
        write_tokens(case.folder / f"{part}.bin", values, generator)
    num_windows = TRAIN // LENGTH - 1
    sets = {"train": windows(tokens["train"], drawn_offset(case.number, LENGTH), num_windows, LENGTH),
            "validation": windows(tokens["validation"], 0, (VALIDATION - 1) // LENGTH, LENGTH)}
    updates = training.updates_of(num_windows, BATCH, accumulation)
    weights = training.random_weights(Network(is_tied), generator)
    twin = Twin(lambda: Network(is_tied), weights, sets, updates)
    file = case.folder / "weights.safetensors"
    safetensors_file.write(file, weights)
    config = part_networks.gradient_probe({
        "seed": case.number,
        "data": {"type": "tokens", "train": str(case.folder / "train.bin"), "sequence_length": LENGTH,
                 "validation": str(case.folder / "validation.bin"), "classes": VOCABULARY, "shuffle": False},
        "model": {"layers": layers_of(is_tied)}, "memory": memory,
        "train": {"batch_size": BATCH, "epochs": 1, "accumulation_steps": accumulation}})
    run_ = case.trainer.run(case.folder, config, "--weights", file, name="tokens")
    measured = part_networks.measured(run_, len(updates))
    rounding.Reference(twin.compute, case.number).compare(case.findings, measured)
    evaluation = run_.evaluations[-1]
    case.findings.close("perplexity", evaluation["perplexity"], math.exp(evaluation["loss"]), 1e-9)


def num_cases(_options):
    return len(VARIANTS)
