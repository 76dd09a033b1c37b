"""bench_tensor.py, over a trainer and a PyTorch that only pretend."""
import contextlib
import io
import json
import os
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
import bench_ranks  # noqa: E402
import bench_tensor  # noqa: E402

# Both write what they are asked to the file `calls` beside them. Of several ranks the losses are {off} larger than of one, and
# the last rank holds most.
BEGIN = textwrap.dedent("""\
    #!{python} -IS
    import json, pathlib, sys
    with (pathlib.Path(__file__).parent / "calls").open("a") as file:
        file.write(" ".join(["{name}", *sys.argv[1:]]) + "\\n")
    words = dict(word.lstrip("-").split("=", 1) for word in sys.argv if "=" in word)
    """)
TRAINER = BEGIN + textwrap.dedent("""\
    num_ranks = int(sys.argv[sys.argv.index("--ranks") + 1])
    def tell(rank):
        yield dict(event="start", parameters=7)
        for step in range(int(words["train.steps"])):
            yield dict(event="step", samples=10, step_seconds=0.5, loss=2 - step / 100 + (num_ranks > 1) * {off})
        yield dict(event="end", peak_resident=150 + 10 * rank,
                   process=dict(parts=[dict(name="program and libraries", bytes=100)]))
    for event in tell(0):
        print(json.dumps(event))
    for rank in range(1, num_ranks):
        path = pathlib.Path(words["output"]) / "ranks" / str(rank) / "events.jsonl"
        path.parent.mkdir(parents=True)
        path.write_text("".join(json.dumps(event) + "\\n" for event in tell(rank)))
    """)
PYTORCH = BEGIN + textwrap.dedent("""\
    losses = [3 + (int(words["ranks"]) > 1) * {off} for _ in range(int(words["warmup-steps"]))]
    print(json.dumps(dict(samples_per_second=8, step_seconds=1, best_step_seconds=1, peak_bytes=640,
                          above_import_bytes=120, parameters=7, losses=losses)))
    """)


class Tensor(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        bench_ranks.first_losses.cache_clear()

    def pretend(self, name, text, off):
        path = self.folder / name
        path.write_text(text.format(python=sys.executable, name=name, off=off))
        path.chmod(0o755)
        return path

    def bench(self, *words, trainer_off=1e-6, pytorch_off=1e-6):
        printed = io.StringIO()
        results = self.folder / "results"
        results.mkdir(exist_ok=True)
        with mock.patch.object(sys, "argv", ["bench_tensor.py", "--repetitions", "3", "--seconds", "1", *words]), \
                mock.patch.object(bench_ranks, "TRAINER", self.pretend("trainer", TRAINER, trainer_off)), \
                mock.patch.object(bench_ranks, "PYTHON", self.pretend("pytorch", PYTORCH, pytorch_off)), \
                mock.patch.object(bench_ranks, "RESULTS", results), \
                contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()) as errors:
            try:
                bench_tensor.main()
            except SystemExit as end:
                return f"{end.code} {errors.getvalue()}"
        return printed.getvalue()

    def calls(self, name, *words):
        lines = (self.folder / "calls").read_text().splitlines()
        return [line for line in lines if line.startswith(name + " ") and all(word in line.split() for word in words)]

    def test_ratios_are_of_ranks_that_share_layers_and_are_kept(self):
        printed = self.bench("mlp")
        # 20 over 8 samples a second, 60 over 120 bytes of the rank that holds most.
        self.assertRegex(printed, r"mlp +2\.50  0\.50  \(0 of 0 MiB\) +met\n")
        kept = json.loads(next((self.folder / "results").glob("tensor_????-??-??.json")).read_text())
        self.assertEqual((kept["ranks"], kept["busy"]), (2, 0))
        found = kept["networks"]["mlp"]
        self.assertEqual((found["speed"], found["memory"], found["memory_above_import"]), (2.5, 0.25, 0.5))
        self.assertEqual([len(runs) for runs in found["runs"].values()], [3, 3])
        self.assertAlmostEqual(found["loss_difference"]["trainer"], 1e-6 / 2, delta=1e-7)
        # To find what a step takes, and the repetitions; one process for its losses.
        self.assertEqual(len(self.calls("trainer", "--ranks", "2", "parallel.tensor=2")), 4)
        self.assertEqual(len(self.calls("trainer", "parallel.tensor=1")), 1)
        self.assertEqual(len(self.calls("pytorch", "--ranks=2")), 4)
        self.assertEqual(len(self.calls("pytorch", "--ranks=1")), 1)

    def test_a_program_that_trains_to_other_losses_than_one_process_is_no_competitor(self):
        for off in ({"trainer_off": 1e-3}, {"pytorch_off": 1e-3}):
            with self.subTest(off), self.assertRaisesRegex(bench_cpu.RunFailed, "trains mlp to other losses"):
                bench_ranks.first_losses.cache_clear()
                self.bench("mlp", **off)

    def test_where_ranks_do_not_divide_the_heads_both_have_others(self):
        self.bench("--ranks", "4", "gpt_mini")
        self.assertEqual(len(self.calls("trainer")), len(self.calls("trainer", "model.with.heads=4")))
        self.assertEqual(len(self.calls("pytorch")), len(self.calls("pytorch", "--heads=4")))
        self.assertEqual(len(list((self.folder / "results").glob("tensor_*_4_ranks.json"))), 1)
        self.assertIsNone(bench_tensor.heads_for("gpt_mini", 2))

    def test_what_is_no_network_is_refused(self):
        self.assertIn("unknown network cnn; there are mlp, gpt_mini", self.bench("cnn"))
        self.assertFalse(os.listdir(self.folder / "results"))


if __name__ == "__main__":
    unittest.main()
