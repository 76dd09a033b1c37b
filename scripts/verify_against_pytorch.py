#!/usr/bin/env python3
"""Compares trainer with PyTorch, NumPy and pandas, from outside: configurations in, events and files out.

Random networks' gradients against f64, optimizers, schedules, initial weights, mixed precision, resumed runs, data
readers, metrics, and the semantics that differ on purpose. scripts/oracle/README.md tells what each part compares and
how far numbers may be off. Runs itself by .venv/bin/python (scripts/python_env.sh) where this Python has no PyTorch.
"""
import argparse
import json
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts" / "oracle"))
import findings  # noqa: E402
import suite  # noqa: E402
from trainer_runs import TrainerBinary  # noqa: E402

EXIT_FAILED, EXIT_USAGE, EXIT_SKIPPED = 1, 2, 77
NEEDED = ("torch", "numpy", "pandas")
SHORT = {"networks": 12}


def parsed(words):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog=(
        "exit codes: 0 everything agrees, 1 something does not, 2 wrong usage or no trainer, "
        "77 skipped: PyTorch, NumPy or pandas is not installed"))
    parser.add_argument("--networks", type=int, default=100, metavar="N", help="random networks (100)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="what random cases are drawn from (1)")
    parser.add_argument("--short", action="store_true", help="fewer and smaller cases, for every build")
    parser.add_argument("--only", nargs="+", choices=suite.PARTS, metavar="PART", help=f"of {', '.join(suite.PARTS)}")
    parser.add_argument("--case", metavar="PART:SEED:INDEX", help="one case alone, as a failure names it")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), metavar="N", help="cases at a time (2)")
    parser.add_argument("--json", metavar="FILE", help="write every figure there")
    parser.add_argument("--keep", metavar="FOLDER", default=str(ROOT / "runs" / "verify_against_pytorch"),
                        help="where the files of cases that fail are kept (runs/verify_against_pytorch)")
    parser.add_argument("--trainer", metavar="FILE", default=os.environ.get("TRAINER_BINARY"),
                        help="the program (build/release/trainer, or TRAINER_BINARY)")
    options = parser.parse_args(words)
    options.index, options.parts = None, options.only or suite.PARTS
    if options.case:
        part, _, rest = options.case.partition(":")
        seed, _, index = rest.partition(":")
        if part not in suite.PARTS or not seed.isdigit() or not index.isdigit():
            parser.error(f"--case {options.case}: expected PART:SEED:INDEX")
        options.parts, options.seed, options.index = [part], int(seed), int(index)
    if options.networks < 1 or options.jobs < 1:
        parser.error("--networks and --jobs: at least 1")
    if options.short:
        options.networks = min(options.networks, SHORT["networks"])
    binary = pathlib.Path(options.trainer or ROOT / "build" / "release" / "trainer").resolve()
    if not os.access(binary, os.X_OK):
        parser.error(f"no trainer at {binary}; scripts/trainer builds it")
    options.trainer = str(binary)
    return options


def missing_modules():
    missing = []
    for name in NEEDED:
        try:
            __import__(name)
        except ImportError:
            missing.append(name)
    return missing


def run_by_environment(words):
    """Goes on as the Python of scripts/python_env.sh where this one lacks something and that one exists."""
    python = ROOT / ".venv" / "bin" / "python"
    if python.exists() and pathlib.Path(sys.prefix).resolve() != (ROOT / ".venv").resolve():
        os.execv(python, [str(python), str(pathlib.Path(__file__).resolve()), *words])


def compare(options):
    import torch
    torch.set_num_threads(1)
    trainer = TrainerBinary(options.trainer)
    results = []
    for part in options.parts:
        print(f"{part} …", file=sys.stderr, flush=True)
        result = suite.run_part(part, options, trainer, progress=lambda case: case.failed and print(
            f"  {case.name} failed", file=sys.stderr, flush=True))
        results.append(result)
    return results


def main(words):
    os.environ["OMP_NUM_THREADS"] = "1"
    options = parsed(words)
    missing = missing_modules()
    if missing:
        run_by_environment(words)
        print(f"skipped: {', '.join(missing)} not installed; scripts/python_env.sh installs what this needs",
              file=sys.stderr)
        return EXIT_SKIPPED
    results = compare(options)
    print(findings.table(results))
    for part in results:
        if part.missing:
            print(f"{part.part} never met {', '.join(part.missing)}")
    for case in [case for part in results for case in part.cases if case.failed]:
        print(f"\n{findings.failure_text(case)}")
        print(f"  alone: scripts/verify_against_pytorch.py {'--short ' if options.short else ''}--case {case.name}")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(findings.as_json(results), indent=1) + "\n", encoding="utf-8")
    return EXIT_FAILED if any(part.failed for part in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
