"""gpu_check.py without a GPU: what becomes of each part, over a trainer that only pretends."""
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import textwrap
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import gpu_check  # noqa: E402

PRETENDER = textwrap.dedent("""\
    #!{python} -IS
    # Answers as trainer does; what it gets wrong on purpose stands in the file beside it.
    import json, pathlib, sys
    wrong = (pathlib.Path(__file__).parent / "wrong").read_text()
    words = sys.argv[1:]
    peaks = dict(peak_requested=10, peak_allocated=512, peak_reserved=2097152)
    if words[0] == "doctor":
        print(json.dumps(dict(event="doctor", devices=[dict(kind="cpu", total=1 << 30)], cuda={{}})))
    elif words[0] == "plan":
        print(json.dumps(dict(event="plan", **peaks)))
    elif "memory.preflight=false" in words:
        print(json.dumps(dict(event="start" if wrong == "oom" else "oom")))
        print("no memory", file=sys.stderr)
        sys.exit(0 if wrong == "exit" else 3)
    else:
        is_second = any("other" in word for word in words)
        for step in range(20):
            loss = 2.0 / (step + 1)
            if wrong == "losses" and is_second and step == 19: loss += 0.001
            print(json.dumps(dict(event="step", loss=loss)))
        if wrong == "peaks" and "mnist_cnn" in words[1]: peaks["peak_reserved"] += 1
        print(json.dumps(dict(event="end", peak_used=5 << 20, outside_allocator=dict(bytes=2 << 20), **peaks)))
    """)


class PretendedTree(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name) / "tree"
        (self.tree / "tests").mkdir(parents=True)
        self.say("")
        self.program("trainer", PRETENDER.format(python=sys.executable))
        self.program("tests/test_core", "#!/bin/sh\necho fine\n")
        self.program("tests/test_memory", "#!/bin/sh\necho SKIPPED: no reason\n")
        self.out = pathlib.Path(folder.name) / "out"
        few = list(gpu_check.configurations(rehearse=True))[:6]  # each is two processes
        patch = mock.patch.object(gpu_check, "configurations", return_value=few)
        patch.start()
        self.addCleanup(patch.stop)

    def program(self, name, text):
        path = self.tree / name
        path.write_text(text)
        path.chmod(0o755)

    def say(self, wrong):
        (self.tree / "wrong").write_text(wrong)

    def check(self, *words):
        """(exit code, what is printed, the file) of the whole script."""
        printed = io.StringIO()
        arguments = ["gpu_check.py", "--build", str(self.tree), "--out", str(self.out), *words]
        with mock.patch.object(sys, "argv", arguments), contextlib.redirect_stdout(printed), \
                contextlib.redirect_stderr(io.StringIO()):
            code = gpu_check.main()
        files = sorted(self.out.glob("*.json"))
        report = json.loads(files[-1].read_text()) if files else None
        for file in files:
            file.unlink()
        return code, printed.getvalue(), report

    def statuses(self, report):
        return {row["part"]: row["status"] for row in report["parts"]}

    def test_without_a_gpu_every_part_is_skipped_with_its_reason_and_nothing_fails(self):
        with mock.patch.object(gpu_check, "query_gpu", return_value={}):
            code, printed, report = self.check()
        self.assertEqual(code, 0)
        self.assertIsNone(report)
        for part in gpu_check.PARTS:
            self.assertRegex(printed, rf"(?m)^{part} +SKIPPED .*no GPU")

    def test_a_rehearsal_runs_the_parts_and_writes_one_file(self):
        code, _, report = self.check("--rehearse")
        self.assertEqual(self.statuses(report), {
            "tests": "passed", "memcheck": "SKIPPED", "losses": "passed", "peaks": "passed", "oom": "passed",
            "bench": "SKIPPED", "traces": "SKIPPED"}, report)
        self.assertEqual(code, 0)
        self.assertTrue(report["rehearsal"])
        peaks = next(row for row in report["parts"] if row["part"] == "peaks")["details"]["rows"]
        self.assertEqual(peaks[0]["used"], {"planned": 4 << 20, "measured": 5 << 20})

    def test_what_goes_wrong_is_a_row_and_the_other_parts_go_on(self):
        for wrong, part, words in (("losses", "losses", "6 networks"), ("peaks", "peaks", "apart"),
                                   ("exit", "oom", "ended with 0"), ("oom", "oom", "no oom event")):
            with self.subTest(wrong):
                self.say(wrong)
                code, printed, report = self.check("--rehearse", "--only", "losses", "peaks", "oom")
                expected = {name: "FAILED" if name == part else "passed" for name in ("losses", "peaks", "oom")}
                self.assertEqual(self.statuses(report), expected)
                self.assertEqual(code, 1)
                self.assertRegex(printed, rf"(?m)^{part} +FAILED .*{words}")

    def test_a_test_program_that_fails_is_named(self):
        self.program("tests/test_core", "#!/bin/sh\necho broken; exit 3\n")
        code, printed, report = self.check("--rehearse", "--only", "tests")
        self.assertEqual(code, 1)
        self.assertIn("failed: test_core", printed)
        self.assertIn("broken", report["parts"][0]["details"][0]["output"])

    def test_a_part_whose_time_is_over_says_so_and_takes_none_of_the_next(self):
        self.program("tests/test_core", "#!/bin/sh\nsleep 60\n")
        with mock.patch.dict(gpu_check.BUDGETS, {"tests": 1, "losses": 60}):
            code, _, report = self.check("--rehearse", "--only", "tests", "losses")
        self.assertEqual(self.statuses(report), {"tests": "partly", "losses": "passed"})
        self.assertLess(report["parts"][0]["seconds"], 10)
        self.assertEqual(code, 0)

    def test_a_tree_without_a_program_is_skipped(self):
        (self.tree / "trainer").unlink()
        with mock.patch.object(gpu_check, "ROOT", self.tree):
            _, printed, _ = self.check("--rehearse")
        self.assertIn("no built trainer", printed)

    def test_an_installed_tree_is_found(self):
        (self.tree / "bin").mkdir()
        for name in ("trainer", "tests/test_core"):
            (self.tree / name).rename(self.tree / "bin" / pathlib.Path(name).name)
        (self.tree / "tests" / "test_memory").unlink()
        trainer, tests = gpu_check.find_tree(self.tree)
        self.assertEqual((trainer, tests), ((self.tree / "bin" / "trainer").resolve(), (self.tree / "bin").resolve()))


class Plan(unittest.TestCase):
    def test_at_least_forty_different_configurations_are_compared(self):
        every = [(file, tuple(overrides)) for file, overrides in gpu_check.configurations(rehearse=False)]
        self.assertEqual(len(set(every)), len(every))
        self.assertGreaterEqual(len(every), 40)

    def test_all_of_it_takes_less_than_nine_minutes(self):
        self.assertEqual(gpu_check.BUDGETS.keys(), gpu_check.PARTS.keys())
        self.assertLess(sum(gpu_check.BUDGETS.values()), 9 * 60)


if __name__ == "__main__":
    unittest.main()
