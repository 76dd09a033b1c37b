#!/usr/bin/env python3
"""Plans and runs random small trainings (scripts/random_layouts.py) in random layouts of ranks, processes on the CPU,
and once more in one process: what is planned must be what is held, and the losses those of one process. Writes
scripts/results/layouts_<date>.json.

Of rank 0 bytes are compared step by step, of others over the whole run, which is what plans tell of them. Losses and
metrics of all ranks are the same; beside one process they agree to rounding, and stages alone have the same bits, also
in their checkpoints. What plan refuses, run refuses in the same words, which name a key, and what does not fit ends with
the exit codes for that. Any other end, or none in time, is a failure. Ends with 1 where there is one.
"""
import argparse
import collections
import dataclasses
import datetime
import json
import math
import pathlib
import re
import shutil
import sys
import tempfile
import time

import bench_cpu
from child_process import Failed, outcome_of
from losses import largest_difference
from random_layouts import draw_case
from trainer_events import EXIT_DOES_NOT_FIT, EXIT_REFUSED, ROOT, Trainer
from findings import Findings  # of scripts/oracle, which random_layouts has put on the path
from trainer_runs import config_text

EXIT_OUT_OF_MEMORY = 3
STEP_BYTES = ("requested", "peak_requested", "allocated", "peak_allocated", "reserved", "peak_reserved")
RUN_BYTES = ("peak_requested", "peak_allocated", "peak_reserved")
METRICS = ("loss", "accuracy", "top5", "samples", "best")
CAPACITY = 256 << 20
KEY = re.compile(r"\b(parallel|train|memory|data|device|model|checkpoint|average|loss)\.[a-z_]+")
CARET = re.compile(r"^ +\| +\^~+$", re.MULTILINE)
# Said of layouts that cannot be; whatever else is refused is a failure.
EXPECTED_REFUSALS = tuple(map(re.compile, (
    r"parallel\.tensor: \d+ ranks cannot share the \d+ (features|heads|.*) of layer",
    r"parallel\.tensor: nothing of the model can be cut",
    r"a list of \d+ layers is not cut into \d+ parts",
    r"with parallel\.shard: (gradients|parameters) each of \d+ ranks needs a sample in each of \d+ micro-batches",
    r"\d+ ranks share a batch, and train\.batch_size is \d+",
    r"memory\.chunked_loss is \d+, but ranks that share layers \(parallel\.tensor\) add up what the last one makes",
    r"memory\.chunked_loss is \d+, but the last layer's weight is frozen",
    r"no part of the list of layers can begin at",  # at one that has no op, such as a pad by nothing
    r"one value a channel has no variance")))  # of a batch norm, in a micro-batch of one sample


class Unexpected(Exception):
    """A command that ended as none may."""


@dataclasses.dataclass
class Result:
    """`verdict`: passed, refused, does not fit, failed. `refusal`: its text without numbers."""
    case: object
    verdict: str
    findings: Findings
    refusal: str = ""
    error: str = ""
    difference: float | None = None
    seconds: float = 0.0

    def problems(self):
        return [self.error] if self.error else [f"{each.name}: {each.detail}" for each in self.findings.failed()]


class CaseRun:
    """The commands of one case, in a folder of its own."""

    def __init__(self, case, trainer, folder, timeout):
        self.case, self.trainer, self.folder, self.timeout = case, trainer, folder, timeout
        self.findings = Findings()

    def write(self, name, config):
        memory = {"limit": CAPACITY, **config["memory"]}
        whole = {"name": name, **config, "memory": memory, "output": str(self.folder / name)}
        (self.folder / f"{name}.yaml").write_text(config_text(whole), encoding="utf-8")

    def ask(self, command, name, accept, *words):
        """What a command ends with, and its stdout and stderr."""
        asked = [str(self.trainer.binary), command, f"{name}.yaml", "--json", *words]
        try:
            code, output, errors = outcome_of(asked, self.timeout, self.folder,
                                              {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"})
        except Failed as failure:
            raise Unexpected(str(failure)) from None
        if code not in accept:
            said = "\n".join((errors.strip() or output.strip()).splitlines()[:12])
            asked = f"trainer {command} {name}.yaml {' '.join(words)}"
            raise Unexpected(f"{asked} ended with {code}, not {accept}:\n{said}")
        return code, output, errors

    def plan(self, name, *words):
        return self.ask("plan", name, (0, EXIT_REFUSED, EXIT_DOES_NOT_FIT), *words)

    def events(self, name, rank=0):
        place = self.folder / name / (f"ranks/{rank}" if rank else "") / "events.jsonl"
        try:
            return [json.loads(line) for line in place.read_text(encoding="utf-8").splitlines()]
        except OSError as error:
            raise Unexpected(f"{place.relative_to(self.folder)}: {error.strerror}") from None

    def compare_refusals(self, errors):
        """Of plan and of run. The refusal, without numbers."""
        _, _, of_run = self.ask("run", "ranks", (EXIT_REFUSED,))
        self.findings.equal("the refusal of run", error_lines(of_run), error_lines(errors))
        is_named = KEY.search(errors) or CARET.search(errors)
        self.findings.holds("the refusal names a key, or shows its place", is_named, errors)
        expected = self.case.must_be_refused or any(pattern.search(errors) for pattern in EXPECTED_REFUSALS)
        self.findings.holds("the refusal is an expected one", expected, errors)
        return re.sub(r"\d+", "N", re.sub(r"^.*?error: ", "", next(iter(error_lines(errors)), "")))

    def limit_of(self, planned):
        """The capacity that the case asks for: all that its ranks reserve, or less."""
        if self.case.limit is None:
            return []
        most = max(each["peak_reserved"] for each in planned["ranks"]["plans"])
        return [f"memory.limit={math.floor(most * self.case.limit)}"]

    def compare_with_plan(self, name, planned):
        """Of each rank what it held with what is planned. The events of all."""
        plans = planned["ranks"]["plans"] if "ranks" in planned else [
            {"first_rank": 0, "num_ranks": 1, "stride": 1, **{key: planned[key] for key in (*RUN_BYTES[1:], "by_category")}}]
        told = {}
        for plan in plans:
            first = plan["first_rank"]
            for rank in range(first, first + plan["num_ranks"] * plan["stride"], plan["stride"]):
                told[rank] = self.events(name, rank)
                end = told[rank][-1]
                for key in RUN_BYTES[1:]:
                    self.findings.equal(f"bytes: rank {rank} of {name}, {key}", end.get(key), plan[key])
                self.findings.equal(f"bytes: rank {rank} of {name}, by category", end.get("peak_by_category"),
                                    plan["by_category"])
                self.findings.equal(f"status of rank {rank} of {name}", end.get("status"), "done")
        for event in told[0]:
            if event["event"] in ("step", "eval"):
                expected = planned_memory(planned, event["step"], event["event"] == "eval")
                for key in STEP_BYTES:
                    self.findings.equal(f"bytes: {name}, {event['event']} {event['step']}, {key}", event["memory"][key],
                                        expected and expected[key])
        end = told[0][-1]
        self.findings.equal(f"bytes: {name}, peak_requested", end.get("peak_requested"), planned["peak_requested"])
        return [told[rank] for rank in sorted(told)]

    def compare_losses(self, ranks):
        """Of all ranks with each other, and with one process where that has the same. Their largest difference."""
        case, findings = self.case, self.findings
        findings.equal("number of ranks", len(ranks), case.num_ranks)
        for rank, told in enumerate(ranks[1:], 1):
            for mine, first in zip(metrics_of(told), metrics_of(ranks[0])):
                findings.equal(f"losses: rank {rank}, {first['event']} {first['step']}", mine, first)
            findings.equal(f"events of rank {rank}", len(metrics_of(told)), len(metrics_of(ranks[0])))
        self.write("one", case.one_process())
        _, output, _ = self.ask("plan", "one", (0,))
        self.ask("run", "one", (0,))
        (told,) = self.compare_with_plan("one", json.loads(output))
        findings.equal("samples beside one process", *([(each["event"], each["step"], each["samples"])
                                                        for each in metrics_of(events)] for events in (ranks[0], told)))
        if not case.compares_losses():
            return None
        if case.has_same_bits():
            for mine, one in zip(metrics_of(ranks[0]), metrics_of(told)):
                findings.equal(f"bits: {one['event']} {one['step']}", mine, one)
            self.compare_checkpoints()
        difference = 0.0
        for kind in ("step", "eval"):
            losses = [[event["loss"] for event in events if event["event"] == kind] for events in (ranks[0], told)]
            if losses[1]:
                apart = largest_difference(*losses)
                findings.close(f"losses: {kind}s beside one process", apart, 0.0, case.tolerance())
                difference = max(difference, apart)
        return difference

    def compare_checkpoints(self):
        """The last ones, which are the same file by file."""
        for file in sorted((self.folder / "one" / "checkpoints" / "latest").glob("*.safetensors")):
            other = self.folder / "ranks" / "checkpoints" / "latest" / file.name
            if other.exists():  # ranks may have written shards instead
                self.findings.holds(f"bits: {file.name}", file.read_bytes() == other.read_bytes(), "is another file")

    def result(self):
        """Of all commands."""
        case = self.case
        self.write("ranks", case.config)
        code, output, errors = self.plan("ranks")
        if code == EXIT_REFUSED:
            refusal = self.compare_refusals(errors)
            return Result(case, "refused", self.findings, refusal=refusal)
        self.findings.holds("is refused", not case.must_be_refused, "a layout that cannot be is planned")
        if case.must_be_refused:
            return Result(case, "passed", self.findings)
        planned = json.loads(output)
        limit = self.limit_of(planned)
        if limit:
            code, output, _ = self.plan("ranks", *limit)
            planned = json.loads(output)
        if code == EXIT_DOES_NOT_FIT:
            self.ask("run", "ranks", (EXIT_OUT_OF_MEMORY,), *limit)
            return Result(case, "does not fit", self.findings)
        self.ask("run", "ranks", (0,), *limit)
        ranks = self.compare_with_plan("ranks", planned)
        return Result(case, "passed", self.findings, difference=self.compare_losses(ranks))


def error_lines(errors):
    """Without who says it: any of the ranks may be the first to find what all of them find."""
    said = [line for line in errors.splitlines() if "error: " in line]
    return [re.sub(r"^error: rank \d+: ", "", line).removeprefix("error: ") for line in said]


def metrics_of(events):
    return [{"event": event["event"], "step": event["step"], **{key: event[key] for key in METRICS if key in event}}
            for event in events if event["event"] in ("step", "eval")]


def planned_memory(plan, step, is_evaluation):
    """What is planned of a step, or of the evaluation behind it; None where there is none."""
    cycle = plan["cycle"]
    if cycle["num_steps"] > 0 and cycle["first_step"] + cycle["num_steps"] <= step < cycle["end"]:
        step = cycle["first_step"] + (step - cycle["first_step"]) % cycle["num_steps"]
    return next((each for each in plan["steps"] if each["evaluation"] == is_evaluation
                 and each["first_step"] <= step < each["first_step"] + each["count"]), None)


def check(case, trainer, timeout, keep=None):
    """The result of a case. Its folder is left, under `keep`, where it failed."""
    folder, begin = pathlib.Path(tempfile.mkdtemp(prefix="trainer-layouts-")), time.monotonic()
    run = CaseRun(case, trainer, folder, timeout)
    try:
        result = run.result()
    except Unexpected as failure:
        result = Result(case, "failed", run.findings, error=str(failure).replace(f"{folder}/", ""))
    if result.findings.failed():
        result.verdict = "failed"
    result.seconds = time.monotonic() - begin
    if keep and result.verdict == "failed":
        shutil.copytree(folder, keep / f"{case.seed}-{case.number}", dirs_exist_ok=True)
    shutil.rmtree(folder)
    return result


def failure_of(result):
    case = result.case
    return {"seed": case.seed, "case": case.number, "title": case.title, "problems": result.problems()[:12],
            "num_problems": len(result.problems()), "config": case.config}


def summary_of(results):
    """What is written of all cases."""
    compared = collections.Counter(finding.name.split(":")[0] if ":" in finding.name else "other"
                                   for result in results for finding in result.findings.all)
    differences = collections.defaultdict(float)
    for result in results:
        if result.difference is not None:
            amp = result.case.config["train"]["amp"]
            differences[amp] = max(differences[amp], result.difference)
    layouts = collections.defaultdict(collections.Counter)
    for result in results:
        layouts[result.case.layout][result.verdict] += 1
    return {"cases": len(results), "verdicts": dict(collections.Counter(result.verdict for result in results)),
            "layouts": {name: dict(counts) for name, counts in sorted(layouts.items())},
            "chosen": dict(sorted(collections.Counter(tag for result in results for tag in result.case.tags).items())),
            "compared": dict(compared), "largest_loss_difference": dict(differences),
            "longest_seconds": round(max((result.seconds for result in results), default=0), 1),
            "refusals": dict(collections.Counter(result.refusal for result in results if result.refusal)),
            "failures": [failure_of(result) for result in results if result.verdict == "failed"]}


VERDICTS = ("passed", "refused", "does not fit", "failed")


def table(summary):
    lines = [f"{'ranks share':<26}" + "".join(f"{verdict:>14}" for verdict in VERDICTS)]
    for name, counts in [*summary["layouts"].items(), ("all", summary["verdicts"])]:
        lines.append(f"{name:<26}" + "".join(f"{counts.get(verdict, 0):14}" for verdict in VERDICTS))
    compared = ", ".join(f"{count:,} of {name}" for name, count in sorted(summary["compared"].items()))
    apart = ", ".join(f"{value:.1e} ({amp})" for amp, value in sorted(summary["largest_loss_difference"].items()))
    lines += [f"compared: {compared}", f"losses beside one process, largest difference by train.amp: {apart or 'none'}"]
    return "\n".join([*lines, *(f"{count:4} refused: {text}" for text, count in summary["refusals"].items())])


def parsed(words):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200, help="cases (200)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, metavar="N", help="the number of the first case (0)")
    parser.add_argument("--case", type=int, metavar="N", help="this one alone")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no case behind these")
    parser.add_argument("--timeout", type=float, default=120, metavar="SECONDS", help="of each command (120)")
    parser.add_argument("--without", action="append", default=[], metavar="WORD",
                        help="leave out cases with this: zero_bubble, bf16, shard, unet …")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER", help="for the files of cases that fail")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="for the figures, not scripts/results/")
    parser.add_argument("--trainer", metavar="FILE", help="the program (scripts/trainer)")
    return parser.parse_args(words)


def check_all(options):
    """Case by case."""
    trainer, begin = Trainer(options.trainer), time.monotonic()
    numbers = [options.case] if options.case is not None else range(options.first, options.first + options.count)
    for number in numbers:
        if time.monotonic() - begin > 60 * options.minutes:
            break
        case = draw_case(options.seed, number)
        if not case.tags.intersection(options.without):
            yield check(case, trainer, options.timeout, options.keep)


def main(words=None):
    options = parsed(words)
    begin, results = time.monotonic(), []
    for result in check_all(options):
        results.append(result)
        if result.verdict == "failed":
            problems = "\n  ".join(result.problems()[:6])
            print(f"case {result.case.number} of seed {result.case.seed} failed: {result.case.title}\n  {problems}",
                  flush=True)
    date = datetime.date.today().isoformat()
    seconds = round(time.monotonic() - begin, 1)
    summary = {"date": date, "seed": options.seed, "first": options.first, "without": options.without,
               "seconds": seconds, "environment": bench_cpu.environment(asks_trainer=False), **summary_of(results)}
    print(table(summary))
    if options.case is None:
        bench_cpu.write(summary, str(options.json or ROOT / "scripts" / "results" / f"layouts_{date}.json"))
    return 1 if summary["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
