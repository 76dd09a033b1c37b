"""check_rank_predictions.py, over a trainer that only pretends and counters of no system."""
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
import check_rank_predictions as check  # noqa: E402

# Two ranks of which each computes for 8 of 10 seconds and sends 1,000 bytes in a step.
TRAINER = textwrap.dedent("""\
    #!{python} -IS
    import json, sys
    if sys.argv[1] == "plan":
        ranks = dict(bubble=0.25, communicated_bytes=1000, plans=[dict(num_ranks=1, compute_seconds=8) for _ in range(2)])
        print(json.dumps(dict(event="plan", step_seconds=10, rates=dict(origin="assumed"), ranks=ranks)))
    elif "--json" in sys.argv:
        steps = int(next(word for word in sys.argv if word.startswith("train.steps=")).split("=")[1])
        for step in range(1, steps + 1):
            print(json.dumps(dict(event="step", step=step)))
    """)


class PretendedMachines:
    """Whose ranks send `by_step` bytes in each step, and 5,000 more in a run."""

    def __init__(self, by_step):
        self.by_step, self.sent = by_step, [0, 0]

    def __call__(self, num_machines):
        assert num_machines == len(self.sent)
        return contextlib.nullcontext(self)

    def run_ranks(self, words):
        num_steps = int(next(word for word in words if str(word).startswith("train.steps=")).split("=")[1])
        self.sent = [sent + 5000 + num_steps * by_step for sent, by_step in zip(self.sent, self.by_step)]

    def sent_bytes(self):
        return self.sent


class Predictions(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.trainer = self.folder / "trainer"
        self.trainer.write_text(TRAINER.format(python=sys.executable))
        self.trainer.chmod(0o755)

    def check(self, *words, **patches):
        """The exit code, what was printed and what was kept."""
        printed = io.StringIO()
        with mock.patch.object(sys, "argv", ["check_rank_predictions.py", "--trainer", str(self.trainer), *words]), \
                mock.patch.multiple(check, RESULTS=self.folder, **patches), contextlib.redirect_stdout(printed):
            code = check.main()
        return code, printed.getvalue(), json.loads(next(self.folder.glob("rank_predictions_*.json")).read_text())

    def test_bytes_are_of_the_steps_of_the_rank_that_sends_most(self):
        layouts = {"pipeline": ["parallel.pipeline=2"]}
        code, printed, kept = self.check("bytes", Machines=PretendedMachines([900, 1100]), BYTES_LAYOUTS=layouts)
        self.assertEqual(code, 0)
        self.assertRegex(printed, r"mlp +pipeline +2 +1,000 +1,100 +\+10\.0%\n")
        self.assertEqual(kept["bytes"]["gpt"]["pipeline"]["measured_bytes"], [900, 1100])
        code, printed, _ = self.check("bytes", Machines=PretendedMachines([500, 400]), BYTES_LAYOUTS=layouts)
        self.assertEqual(code, 1)
        self.assertIn("-50.0%  off by more than 15 %", printed)

    def check_waiting(self, running):
        """Each rank runs for that many of 20 seconds, and is ready for 4."""
        counts = [check.Spent(0, 0, 0)] * 2 + [check.Spent(running, 4, 20)] * 2
        return self.check("waiting", "--repetitions", "1", "--steps", "5", "--micro-batches", "4",
                          spent=mock.Mock(side_effect=counts), SCHEDULES={"1f1b": "[h.2]"})

    def test_waiting_is_neither_running_nor_ready_to_run(self):
        code, printed, kept = self.check_waiting(running=11)
        self.assertEqual(code, 0)
        self.assertRegex(printed, r"1f1b +4 +20\.0% +25\.0%\n")
        found = kept["waiting"]["1f1b"]["4"]
        self.assertAlmostEqual(found["difference"], 0.05)
        self.assertEqual((found["runs"][0]["ready"], found["runs"][0]["step_seconds"]), (0.2, 20))
        code, printed, _ = self.check_waiting(running=8)
        self.assertEqual(code, 1)
        self.assertIn("off by more than 15 %", printed)


if __name__ == "__main__":
    unittest.main()
