"""check_layouts.py: some of its cases over a trainer (TRAINER_BINARY), that wrong numbers in what it tells are seen, and
so are trainers that end as none may."""
import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import check_layouts  # noqa: E402
import random_layouts  # noqa: E402
from trainer_events import Trainer  # noqa: E402

TRAINER = Trainer(os.environ.get("TRAINER_BINARY", ROOT / "build" / "release" / "trainer"))
SEED = 1
PIPELINE, DATA_AND_TENSOR, DATA, REFUSED = CASES = (51, 35, 99, 59)


def changed(name, kind, change):
    """CaseRun.events() with `change` made to the first event of that kind, of the run and the rank of `name`."""
    read = check_layouts.CaseRun.events

    def events(self, run, rank=0):
        told = read(self, run, rank)
        if (run, rank) == name:
            change(next(event for event in told if event["event"] == kind))
        return told
    return mock.patch.object(check_layouts.CaseRun, "events", events)


def more_bytes(key):
    def change(event):
        event["memory"][key] += 512
    return change


def other(key, difference):
    def change(event):
        event[key] += difference
    return change


class Layouts(unittest.TestCase):
    def check(self, number, timeout=60):
        return check_layouts.check(random_layouts.draw_case(SEED, number), TRAINER, timeout)

    def test_cases_pass(self):
        for number, verdict in zip(CASES, ("passed", "passed", "passed", "refused")):
            result = self.check(number)
            self.assertEqual(result.problems(), [])
            self.assertEqual(result.verdict, verdict)
            self.assertGreater(len(result.findings.all), 50 if verdict == "passed" else 2)

    def test_wrong_numbers_are_seen(self):
        for number, name, kind, change, word in (
                (PIPELINE, ("ranks", 0), "step", more_bytes("peak_allocated"), "step 1, peak_allocated"),
                (PIPELINE, ("ranks", 0), "eval", more_bytes("reserved"), ", reserved"),
                (PIPELINE, ("ranks", 1), "end", other("peak_reserved", 1), "rank 1 of ranks, peak_reserved"),
                (PIPELINE, ("ranks", 0), "step", other("loss", 1e-15), "bits: step 1"),
                (DATA, ("ranks", 1), "step", other("loss", 1e-15), "losses: rank 1, step 1"),
                (DATA, ("one", 0), "step", other("loss", 1e-3), "steps beside one process"),
                (DATA, ("one", 0), "step", other("samples", 1), "samples beside one process")):
            with self.subTest(word), changed(name, kind, change):
                result = self.check(number)
                self.assertEqual(result.verdict, "failed")
                self.assertTrue(any(word in problem for problem in result.problems()), result.problems())

    def test_a_layout_that_should_have_been_refused_fails(self):
        case = random_layouts.draw_case(SEED, PIPELINE)
        case.must_be_refused = True
        self.assertEqual(check_layouts.check(case, TRAINER, 60).problems(),
                         ["is refused: a layout that cannot be is planned"])


class PretendedTrainers(unittest.TestCase):
    """Whatever is asked, all that they do is a line of sh."""

    def run_all(self, line, *words):
        """The exit code, what is printed, and the figures."""
        with tempfile.TemporaryDirectory() as folder:
            program, figures = pathlib.Path(folder) / "trainer", pathlib.Path(folder) / "figures.json"
            program.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
            program.chmod(0o755)
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                code = check_layouts.main(["--count", "2", "--trainer", str(program), "--json", str(figures),
                                           "--keep", f"{folder}/kept", *words])
            return code, out.getvalue(), json.loads(figures.read_text(encoding="utf-8"))

    def test_one_that_breaks_fails_with_what_reproduces_it(self):
        code, printed, figures = self.run_all("echo 'internal error: broken' >&2; exit 1", "--seed", "7")
        self.assertEqual(code, 1)
        self.assertIn("case 1 of seed 7 failed", printed)
        self.assertIn("internal error: broken", printed)
        self.assertEqual([(failure["seed"], failure["case"]) for failure in figures["failures"]], [(7, 0), (7, 1)])
        self.assertEqual(figures["failures"][0]["config"], random_layouts.draw_case(7, 0).config)

    def test_one_that_does_not_end_fails(self):
        code, printed, _ = self.run_all("sleep 60", "--timeout", "0.2", "--count", "1")
        self.assertEqual(code, 1)
        self.assertIn("no end within", printed)

    def test_a_refusal_without_a_key_or_an_expected_reason_fails(self):
        code, printed, figures = self.run_all("echo 'error: this cannot be' >&2; exit 2")
        self.assertEqual(code, 1)
        self.assertIn("the refusal names a key", printed)
        self.assertIn("the refusal is an expected one", printed)
        self.assertEqual(figures["refusals"], {"this cannot be": 2})

    def test_cases_can_be_left_out(self):
        tag = sorted(random_layouts.draw_case(1, 0).tags)[0]
        _, _, figures = self.run_all("exit 1", "--count", "1", "--without", tag)
        self.assertEqual(figures["cases"], 0)


if __name__ == "__main__":
    unittest.main()
