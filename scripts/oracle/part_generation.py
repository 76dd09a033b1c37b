"""Texts that `trainer generate` writes with GPT-2 and Llama, beside Hugging Face's transformers: greedy token for token, and
what is drawn as often as its logits processors say. Needs transformers; without it there is no case.
"""
import json
import sys

import numpy as np
import torch

import part_transformers
from part_transformers import Gpt2, Llama
from trainer_runs import RunFailed, config_text

# A network, how its weights are written, the lengths of prompts, new tokens, and overrides. Prompts of up to 64 tokens but the
# last are read in one piece.
GREEDY = [
    (lambda: Gpt2(2, 12, 2, 19, 80), "state_dict", (1, 2, 40, 79), 30, []),
    (lambda: Gpt2(3, 24, 3, 300, 200), "first published", (64, 65, 66, 130), 60, ["memory.allocator=planned"]),
    (lambda: Llama(2, 24, 40, 6, 2, True, 31, 500000), "saved", (1, 7), 100, []),
    (lambda: Llama(2, 32, 48, 4, 1, False, 50, 10000), "shards", (33, 129), 40, ["memory.in_place=false"]),
]
DRAWN = [{"temperature": 1.0}, {"temperature": 0.6, "top_k": 5}, {"temperature": 1.7, "top_p": 0.8},
         {"temperature": 0.9, "top_k": 9, "top_p": 0.5}]
NUM_DRAWN = 1500


def network_of(case, kind, form):
    """Hugging Face's, and the configuration that names the same weights."""
    state = part_transformers.random_state(kind, case.number)
    from transformers.utils import logging
    logging.set_verbosity_error()  # some texts are longer than those that it says it is for
    network = kind.network()
    network.load_state_dict({name: torch.from_numpy(array) for name, array in state.items()})
    network.generation_config.eos_token_id = None
    config = {"name": "text", "device": {"type": "cpu", "threads": 1},
              "data": {"type": "tokens", "train": "absent.bin", "sequence_length": min(kind.length, 16)},
              "model": {"file": f"models/{kind.file}.yaml", "with": kind.values},
              "weights": part_transformers.weights_section(case, kind, form, state)}
    (case.folder / "text.yaml").write_text(config_text(config), encoding="utf-8")
    return network.eval()


def written(case, prompt, *words):
    """The tokens of each sample."""
    numbers = ",".join(str(token) for token in prompt)
    code, out, error = case.trainer.ask(case.folder, "generate", "text.yaml", "--prompt-tokens", numbers, "--json", *words)
    if code != 0 or error:
        raise RunFailed(f"trainer generate with {' '.join(map(str, words))} ended with {code}:\n{error or out}")
    events = [json.loads(line) for line in out.splitlines()]
    case.findings.equal("the last event", events[-1]["event"], "text")
    samples = {}
    for event in events[:-1]:
        samples.setdefault(event["sample"], []).append(event["token"])
    case.findings.equal("prompt tokens told", events[-1]["prompt_tokens"], len(prompt))
    case.findings.equal("tokens told", events[-1]["tokens"], sum(len(tokens) for tokens in samples.values()))
    return [samples[sample] for sample in sorted(samples)]


def compare_greedy(case, variant):
    make, form, lengths, most, overrides = variant
    kind = make()
    case.title = f"{kind.file} {kind.values}, {form}, greedy, {overrides}"
    network = network_of(case, kind, form)
    generator = np.random.default_rng(case.number)
    for length in lengths:
        prompt = generator.integers(0, kind.vocabulary, length).tolist()
        count = min(most, kind.length - length) if isinstance(kind, Gpt2) else most
        found = written(case, prompt, *overrides, "--temperature", 0, "--tokens", count)
        with torch.no_grad():
            expected = network.generate(torch.tensor([prompt]), max_new_tokens=count, do_sample=False, use_cache=True,
                                        attention_mask=torch.ones(1, length, dtype=torch.int64), pad_token_id=0)
        case.findings.equal(f"tokens behind {length}", found, [expected[0, length:].tolist()])


def compare_drawn(case, variant):
    from transformers.generation.logits_process import (LogitsProcessorList, TemperatureLogitsWarper, TopKLogitsWarper,
                                                        TopPLogitsWarper)
    kind = Gpt2(2, 12, 2, 19, 40)
    case.title = f"{kind.file} {kind.values}, {variant}"
    network = network_of(case, kind, "state_dict")
    prompt = np.random.default_rng(case.number).integers(0, kind.vocabulary, 11).tolist()
    words = [word for key, value in variant.items() for word in ("--" + key.replace("_", "-"), value)]
    found = written(case, prompt, *words, "--tokens", 1, "--samples", NUM_DRAWN)
    with torch.no_grad():
        logits = network(torch.tensor([prompt])).logits[:, -1].double()
    processors = LogitsProcessorList([TemperatureLogitsWarper(variant["temperature"])])
    if "top_k" in variant:
        processors.append(TopKLogitsWarper(variant["top_k"]))
    if "top_p" in variant:
        processors.append(TopPLogitsWarper(variant["top_p"]))
    wanted = processors(None, logits)[0].softmax(0).numpy()
    counts = np.bincount([tokens[0] for tokens in found], minlength=kind.vocabulary)
    case.findings.equal("tokens that cannot come", np.flatnonzero(counts[wanted == 0]).tolist(), [])
    # Each share is about normal, and five standard deviations off once in a million.
    deviations = np.sqrt(wanted * (1 - wanted) / NUM_DRAWN + 1 / NUM_DRAWN**2)
    case.findings.close("shares, in standard deviations", (counts / NUM_DRAWN - wanted) / deviations, np.zeros(len(wanted)), 5)


def cases():
    return [*[(compare_greedy, variant) for variant in GREEDY], *[(compare_drawn, variant) for variant in DRAWN]]


def run(case):
    compare, variant = cases()[case.index]
    compare(case, variant)


def num_cases(_options):
    if not part_transformers.HAS_TRANSFORMERS:
        print("  without transformers: no text is compared; scripts/python_env.sh installs it", file=sys.stderr)
        return 0
    return len(cases())
