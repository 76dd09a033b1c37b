"""bench_cpu.py --against, over two trainers that only pretend."""
import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import textwrap
import time
import unittest
from unittest import mock

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))
sys.dont_write_bytecode = True
import bench_cpu  # noqa: E402

# Writes what it is to the file `calls` beside it; its n-th run takes the n-th of its times a step, and then the last.
TRAINER = textwrap.dedent("""\
    #!{python} -IS
    import json, pathlib, sys
    if "--version" in sys.argv:
        print("trainer of {name}")
        sys.exit(0)
    with (pathlib.Path(__file__).parent / "calls").open("a+") as file:
        file.write("{name}\\n")
        file.seek(0)
        number = file.read().split().count("{name}")
    steps = int(dict(word.split("=", 1) for word in sys.argv if "=" in word)["train.steps"])
    seconds = {times}[min(number, len({times})) - 1]
    print(json.dumps(dict(event="start", parameters={parameters})))
    for _ in range(steps):
        print(json.dumps(dict(event="step", samples=10, step_seconds=seconds)))
    """)


class Pretended(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.new = self.pretend("new", [9, 0.010, 0.011, 0.020])
        self.old = self.pretend("old", [9, 0.020, 0.010, 0.030])

    def pretend(self, name, times, parameters=7):
        path = self.folder / name
        path.write_text(TRAINER.format(python=sys.executable, name=name, times=times, parameters=parameters))
        path.chmod(0o755)
        return path

    def bench(self, *words):
        printed = io.StringIO()
        with mock.patch.object(sys, "argv", ["bench_cpu.py", "--repetitions", "3", *words, "mlp"]), \
                mock.patch.object(bench_cpu, "TRAINER", self.new), \
                mock.patch.object(bench_cpu, "PYTHON", self.folder / "no python"), \
                mock.patch.object(bench_cpu, "RESULTS", self.folder / "results"), \
                contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()) as errors:
            try:
                bench_cpu.main()
            except SystemExit as end:
                return f"{end.code} {errors.getvalue()}"
        return printed.getvalue()


class Against(Pretended):
    def test_two_builds_alternate_and_their_order_too(self):
        printed = self.bench("--against", str(self.old))
        self.assertEqual((self.folder / "calls").read_text().split(),
                         ["new", "old", "new", "old", "old", "new", "new", "old"])
        # Pairs of 2.0, 0.91 and 1.5; the best of both 0.010 s a step.
        self.assertRegex(printed, r"speed 1\.500x of the other build by the median of pairs, 1\.000x by the best of each")
        self.assertFalse((self.folder / "results").exists())

    def test_figures_are_kept_where_it_is_asked_for(self):
        printed = self.bench("--against", str(self.old), "--keep", "builds.json")
        self.assertIn("written to", printed)
        kept = json.loads((self.folder / "results" / "builds.json").read_text())
        self.assertEqual((kept["environment"]["trainer"], kept["against"]), ("trainer of new", "trainer of old"))
        self.assertAlmostEqual(kept["networks"]["mlp"]["ratios"]["speed_median_of_pairs"], 1.5)
        self.assertEqual(len(kept["networks"]["mlp"]["results"]["other build"]["runs"]), 3)

    def test_what_makes_no_sense_is_refused(self):
        self.assertIn("is no program", self.bench("--against", str(self.folder / "none")))
        self.assertIn("--keep is for --against", self.bench("--keep", "x.json"))
        self.pretend("old", [0.01], parameters=8)
        self.assertIn("do not train the same mlp", self.bench("--against", str(self.old)))


class FakePyTorch:
    """Two modes, of which compile is the faster: 0.5 and 0.4 of what the pretended trainer does idle."""
    def __init__(self, network, mode):
        self.name, self.speed = f"torch {mode}", {"eager": 400.0, "compile": 500.0}[mode]

    def repetition(self, seconds):
        return {"samples_per_second": self.speed, "step_seconds": 10 / self.speed, "best_step_seconds": 10 / self.speed,
                "peak_bytes": 1, "imported_bytes": 0, "parameters": 7}


class Busy(Pretended):
    def bench_busy(self, *words):
        """What was printed, and how many busy processes there were when each repetition of the trainer ran."""
        busy, seen = [], []
        run = bench_cpu.Trainer.run

        def watched_run(trainer, num_steps):
            seen.append(len(busy))
            return run(trainer, num_steps)

        def started(command):
            busy.append(command)
            return command

        with mock.patch.object(bench_cpu, "PyTorch", FakePyTorch), mock.patch.object(bench_cpu.Trainer, "run", watched_run), \
                mock.patch.object(bench_cpu, "start", started), mock.patch.object(bench_cpu, "end_group", busy.remove):
            printed = self.bench(*words)
        self.assertEqual(busy, [])
        return printed, seen

    def test_busy_processes_run_beside_all_but_the_idle_trainer(self):
        # The probe, then idle and busy by turns: 0.010 and 0.020, 0.025 (busy first) and 0.010, 0.010 and 0.030.
        self.pretend("new", [9, 0.010, 0.020, 0.025, 0.010, 0.010, 0.030])
        printed, seen = self.bench_busy("--busy", "2")
        self.assertEqual(seen, [0, 0, 2, 2, 0, 0, 2])
        # 500, 400 and 333 samples/s over 500; 2.0, 2.5 and 3.0 times its own time.
        self.assertRegex(printed, r"beside 2 busy: speed 0\.80x of the faster PyTorch.*: not met")
        self.assertRegex(printed, r"time a step 2\.50x of its own idle")
        kept = json.loads(next((self.folder / "results").glob("cpu_busy2_*.json")).read_text())
        self.assertEqual(kept["busy"], 2)
        self.assertAlmostEqual(kept["networks"]["mlp"]["ratios"]["slowdown_median_of_turns"], 2.5)

    def test_busy_processes_keep_a_core_busy_and_end(self):
        begin = os.times().children_user
        competitor = mock.Mock(options=None)
        competitor.repetition = lambda seconds: time.sleep(seconds)
        bench_cpu.Beside(competitor, 1).repetition(0.5)
        self.assertGreater(os.times().children_user - begin, 0.05)

    def test_busy_and_against_exclude_each_other(self):
        self.assertIn("--busy takes a number", self.bench("--busy", "1", "--against", str(self.old)))


if __name__ == "__main__":
    unittest.main()
