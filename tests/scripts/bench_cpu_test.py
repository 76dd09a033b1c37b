"""bench_cpu.py --against, over two trainers that only pretend."""
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import textwrap
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


class Against(unittest.TestCase):
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
                mock.patch.object(bench_cpu, "RESULTS", self.folder / "results"), \
                contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()) as errors:
            try:
                bench_cpu.main()
            except SystemExit as end:
                return f"{end.code} {errors.getvalue()}"
        return printed.getvalue()

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


if __name__ == "__main__":
    unittest.main()
