"""Runs the cases of the parts, each in a folder of its own, and keeps the folders of those that fail."""
import concurrent.futures
import importlib
import multiprocessing
import pathlib
import random
import shutil
import tempfile
import time
import traceback
import zlib

from findings import CaseResult, Findings, PartResult

PARTS = ["networks", "tokens", "attention", "optimizers", "stages", "averages", "ranks", "schedules", "initialisers", "amp", "resume", "data", "images",
         "metrics", "losses", "features", "mixing", "semantics", "tokenizers", "torchvision", "transformers",
         "generation", "lr_find", "predict"]


class Case:
    """One case: what it may draw from, where it may write, and what it found."""

    def __init__(self, part, seed, index, trainer, folder, options):
        self.part, self.seed, self.index = part, seed, index
        self.trainer, self.folder, self.options = trainer, folder, options
        self.random = random.Random(self.name)
        self.number = zlib.crc32(self.name.encode()) % 1_000_000  # a seed for generators that want a number
        self.findings = Findings()
        self.title = ""
        self.seen = set()

    @property
    def name(self):
        return f"{self.part}:{self.seed}:{self.index}"


def module_of(part):
    return importlib.import_module(f"part_{part}")


def run_case(part, seed, index, trainer, options):
    """(result, what it has met)."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"oracle-{part}-{seed}-{index}-"))
    case = Case(part, seed, index, trainer, folder, options)
    error = ""
    try:
        module_of(part).run(case)
    except Exception:  # pylint: disable=broad-except  # whatever it is, the case has not passed and the others go on
        error = traceback.format_exc()
    result = CaseResult(case.name, case.title, case.findings, error)
    if result.failed and options.keep:
        kept = pathlib.Path(options.keep) / case.name.replace(":", "-")
        shutil.rmtree(kept, ignore_errors=True)
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(folder, kept)
        result.kept = str(kept)
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return result, case.seen


def run_part(part, options, trainer, progress=lambda result: None):
    """All cases of a part, options.jobs at a time; each is the same however many run beside it."""
    begin = time.monotonic()
    module = module_of(part)
    indices = list(range(module.num_cases(options))) if options.index is None else [options.index]
    results, seen = [], set()

    def take(found):
        result, met = found
        results.append(result)
        seen.update(met)
        progress(result)

    if options.jobs == 1 or len(indices) == 1:
        for index in indices:
            take(run_case(part, options.seed, index, trainer, options))
    else:
        context = multiprocessing.get_context("fork")
        with concurrent.futures.ProcessPoolExecutor(options.jobs, mp_context=context) as pool:
            for found in pool.map(run_case, *zip(*[(part, options.seed, index, trainer, options) for index in indices])):
                take(found)
    missing = []
    if options.index is None and hasattr(module, "everything"):
        missing = sorted(module.everything(options) - seen)
    return PartResult(part, results, time.monotonic() - begin, missing)
