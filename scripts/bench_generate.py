#!/usr/bin/env python3
"""Tokens a second that GPT-2 writes on the CPU: `trainer generate` beside `generate` of Hugging Face's transformers.

Both write the same greedy text with the same random weights, as transformers saves them, in f32 on all cores, by turns and
each starting afresh; transformers keeps keys and values too. Told are the seconds of the prompt, the tokens a second behind
it, and the resident peak above what importing takes. Prints a line of JSON a turn, then the medians with their ratios;
--json keeps all of it. Runs itself by .venv/bin/python (scripts/python_env.sh) where this Python has no transformers.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import interpreters

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXIT_SKIPPED = 77
SIZES = {"124M": {"n_layer": 12, "n_embd": 768, "n_head": 12}, "355M": {"n_layer": 24, "n_embd": 1024, "n_head": 16}}
SIDES = ("trainer", "transformers")
FIGURES = ("prompt_seconds", "tokens_per_second", "mib_above_import")


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="124M", help="of GPT-2 (124M)")
    parser.add_argument("--prompt", type=int, default=64, metavar="N", help="tokens (64)")
    parser.add_argument("--tokens", type=int, default=128, metavar="N", help="that are written (128)")
    parser.add_argument("--turns", type=int, default=5, metavar="N", help="of each side (5)")
    parser.add_argument("--trainer", default=str(ROOT / "build" / "release" / "trainer"), metavar="FILE", help="the program")
    parser.add_argument("--json", metavar="FILE", help="write every figure there")
    parser.add_argument("--part", nargs=2, help=argparse.SUPPRESS)  # of a process that this script starts, and its folder
    return parser.parse_args()


def prompt_of(options):
    return [(17 * i * i + 3 * i) % 50_000 for i in range(options.prompt)]


def peak_mib(who):
    return resource.getrusage(who).ru_maxrss / 1024


def save_network(options, folder):
    import torch
    import transformers
    torch.manual_seed(1)
    network = transformers.GPT2LMHeadModel(transformers.GPT2Config(**SIZES[options.size]))
    # Larger than they start, so that no two logits are so close that rounding decides which one is the larger.
    for parameter in network.parameters():
        parameter.data.mul_(3 if parameter.ndim > 1 else 1)
    network.save_pretrained(folder)
    return {"torch": torch.__version__, "transformers": transformers.__version__}


def transformers_turn(options, folder):
    """Its figures, and the tokens."""
    import torch
    import transformers
    imported = peak_mib(resource.RUSAGE_SELF)
    network = transformers.GPT2LMHeadModel.from_pretrained(folder).eval()
    network.generation_config.eos_token_id = None
    prompt = torch.tensor([prompt_of(options)])
    mask = torch.ones_like(prompt)

    def write(count):
        begin = time.perf_counter()
        tokens = network.generate(prompt, attention_mask=mask, do_sample=False, max_new_tokens=count, min_new_tokens=count,
                                  pad_token_id=0)
        return time.perf_counter() - begin, tokens[0, options.prompt:].tolist()
    write(1)  # what the first call prepares
    prompt_seconds, _ = write(1)
    seconds, tokens = write(options.tokens)
    return {"prompt_seconds": prompt_seconds, "tokens_per_second": (options.tokens - 1) / (seconds - prompt_seconds),
            "mib_above_import": peak_mib(resource.RUSAGE_SELF) - imported, "written": tokens}


def trainer_turn(options, folder):
    """The same of the program, whose own size counts as what importing takes."""
    config = folder / "text.json"  # which YAML is, too
    config.write_text(json.dumps({
        "name": "text", "device": {"type": "cpu"},
        "data": {"type": "tokens", "train": "absent.bin", "sequence_length": 16},
        "model": {"file": str(ROOT / "configs" / "models" / "gpt2.yaml"), "with": {"size": options.size}},
        "weights": {"file": str(folder), "map": "hub"}}), encoding="utf-8")
    idle = os.wait4(subprocess.Popen([options.trainer, "--version"], stdout=subprocess.DEVNULL).pid, 0)[2].ru_maxrss / 1024
    process = subprocess.Popen(
        [options.trainer, "generate", str(config), "--prompt-tokens", ",".join(map(str, prompt_of(options))), "--tokens",
         str(options.tokens), "--temperature", "0", "--json"], stdout=subprocess.PIPE, text=True)
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        sys.exit(f"bench_generate: trainer generate ended with {os.waitstatus_to_exitcode(status)}")
    events = [json.loads(line) for line in out.splitlines()]
    return {"prompt_seconds": events[-1]["prompt_seconds"], "tokens_per_second": events[-1]["tokens_per_second"],
            "mib_above_import": usage.ru_maxrss / 1024 - idle, "written": [event["token"] for event in events[:-1]]}


def ask_part(part, options, folder):
    """What a process of its own prints: a child's peak is never below that of the process which started it."""
    words = [sys.executable, __file__, "--part", part, str(folder), "--size", options.size, "--prompt", str(options.prompt),
             "--tokens", str(options.tokens)]
    return json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)


def turn(side, options, folder):
    return trainer_turn(options, folder) if side == "trainer" else ask_part(side, options, folder)


def main():
    options = parsed()
    if any(importlib.util.find_spec(name) is None for name in ("transformers", "torch")):
        interpreters.go_on_in_environment()
        print("skipped: transformers is not installed; scripts/python_env.sh installs it", file=sys.stderr)
        return EXIT_SKIPPED
    if options.part:
        part, folder = options.part
        print(json.dumps((save_network if part == "save" else transformers_turn)(options, folder)))
        return 0
    found, texts = {side: [] for side in SIDES}, {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        versions = ask_part("save", options, folder)
        for number in range(options.turns):
            for side in SIDES:
                figures = turn(side, options, folder)
                texts[side] = figures.pop("written")
                found[side].append(figures)
                print(json.dumps({"turn": number, "side": side, **{key: round(value, 3) for key, value in figures.items()}}),
                      flush=True)
    medians = {side: {key: statistics.median(turn[key] for turn in turns) for key in FIGURES} for side, turns in found.items()}
    ratios = {key: medians["trainer"][key] / medians["transformers"][key] for key in FIGURES}
    alike = sum(a == b for a, b in zip(texts["trainer"], texts["transformers"]))
    summary = {"size": options.size, "prompt": options.prompt, "tokens": options.tokens, "same_tokens": alike,
               "num_cpus": os.cpu_count(), "load": os.getloadavg(), "medians": medians, "trainer_over_transformers": ratios}
    print(json.dumps(summary))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({**summary, **versions, "turns": found}, indent=1) + "\n",
                                              encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
