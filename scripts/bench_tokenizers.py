#!/usr/bin/env python3
"""Megabytes of text a second and core: trainer's encoding beside that of `tokenizers` and tiktoken.

Vocabularies are learned from the text, which is then encoded as a whole by all three by turns, each starting afresh, in
processor seconds of the one thread that encodes: without reading and writing, and `tokenizers` without offsets. Prints a
line of JSON a turn and the medians with their ratios; --json keeps all of it. Runs itself by .venv/bin/python
(scripts/python_env.sh) where this Python has no `tokenizers` and tiktoken.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import interpreters

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts" / "oracle"))
EXIT_SKIPPED = 77
SIDES = ("trainer", "tokenizers", "tiktoken")


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", metavar="FILE", help="UTF-8")
    parser.add_argument("--vocab", type=int, nargs="+", default=[10_000, 50_000], metavar="N", help="sizes (10000 50000)")
    parser.add_argument("--turns", type=int, default=5, metavar="N", help="of each side (5)")
    parser.add_argument("--trainer", default=str(ROOT / "build" / "release" / "trainer"), metavar="FILE", help="the program")
    parser.add_argument("--json", metavar="FILE", help="write every figure there")
    return parser.parse_args()


def timed(encode, text):
    begin = time.thread_time()
    count = len(encode(text))
    return count, time.thread_time() - begin


def turn(side, options, file, expression, text):
    """(tokens, processor seconds)"""
    import part_tokenizers
    import tiktoken
    import tokenizers
    if side == "trainer":
        out = subprocess.run([options.trainer, "tokenizer", "encode", str(file), options.text, "--json"], check=True,
                             stdout=subprocess.PIPE, text=True).stdout
        told = json.loads(out)
        return told["tokens"], told["seconds"]
    tokenizer = tokenizers.Tokenizer.from_file(str(file))
    if side == "tokenizers":
        return timed(lambda whole: tokenizer.encode_batch_fast([whole], add_special_tokens=False)[0].ids, text)
    encoding = tiktoken.Encoding("learned", pat_str=expression, mergeable_ranks=part_tokenizers.ranks_of(tokenizer),
                                 special_tokens={})
    return timed(encoding.encode_ordinary, text)


def main():
    options = parsed()
    if any(importlib.util.find_spec(name) is None for name in ("tokenizers", "tiktoken")):
        interpreters.go_on_in_environment()
        print("skipped: tokenizers or tiktoken is not installed; scripts/python_env.sh installs them", file=sys.stderr)
        return EXIT_SKIPPED
    # One thread each, the one that is timed.
    os.environ.update(TOKENIZERS_PARALLELISM="false", RAYON_NUM_THREADS="1")
    import part_tokenizers
    import tiktoken
    import tokenizers
    with open(options.text, encoding="utf-8", newline="") as file:
        text = file.read()
    num_bytes = len(text.encode())
    cases = []
    with tempfile.TemporaryDirectory() as name:
        for pattern, expression in (("gpt2", part_tokenizers.GPT2), ("llama3", part_tokenizers.LLAMA3)):
            for size in options.vocab:
                file = pathlib.Path(name) / f"{pattern}-{size}.json"
                subprocess.run([options.trainer, "tokenizer", "train", options.text, "--vocab", str(size), "--pattern",
                                pattern, "-o", str(file)], check=True, stdout=subprocess.DEVNULL)
                speeds, counts = {side: [] for side in SIDES}, set()
                for number in range(options.turns):
                    for side in SIDES:
                        count, seconds = turn(side, options, file, expression, text)
                        counts.add(count)
                        speeds[side].append(num_bytes / seconds / 1e6)
                        print(json.dumps({"pattern": pattern, "vocabulary": size, "turn": number, "side": side,
                                          "tokens": count, "megabytes_per_second": round(speeds[side][-1], 1)}), flush=True)
                medians = {side: statistics.median(values) for side, values in speeds.items()}
                cases.append({"pattern": pattern, "vocabulary": size, "tokens": sorted(counts),
                              "megabytes_per_second": speeds, "medians": medians,
                              "ratios": {f"trainer over {side}": medians["trainer"] / medians[side] for side in SIDES[1:]}})
    for case in cases:
        print(json.dumps({"pattern": case["pattern"], "vocabulary": case["vocabulary"],
                          "medians": {side: round(value, 1) for side, value in case["medians"].items()},
                          "ratios": {key: round(value, 1) for key, value in case["ratios"].items()}}))
    if options.json:
        summary = {"text": pathlib.Path(options.text).name, "bytes": num_bytes, "num_cpus": os.cpu_count(),
                   "load": os.getloadavg(), "tokenizers": tokenizers.__version__, "tiktoken": tiktoken.__version__,
                   "cases": cases}
        pathlib.Path(options.json).write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
