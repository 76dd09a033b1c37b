"""plan_llama.py over a trainer that only pretends, and small networks over the real one.

Environment: TRAINER_BINARY, the real one.
"""
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
import plan_llama  # noqa: E402
from trainer_events import Trainer, TrainerFailed  # noqa: E402

# A kind of ranks for each stage, of which the first holds most; writes what it is asked to the file `calls` beside it.
PRETENDER = textwrap.dedent("""\
    #!{python} -IS
    import json, pathlib, sys
    with (pathlib.Path(__file__).parent / "calls").open("a") as file:
        file.write(" ".join(sys.argv[1:]) + "\\n")
    if sys.argv[1] == "summary":
        print(json.dumps(dict(event="summary", parameters=1234)))
        sys.exit()
    words = dict(word.split("=", 1) for word in sys.argv if "=" in word)
    GIB = 1 << 30
    stages = int(words.get("parallel.pipeline", 1)) + {more}
    ranks = int(words.get("parallel.data", 1)) * int(words.get("parallel.tensor", 1))
    held = dict(parameter=1 * GIB, gradient=2 * GIB, optimizer_state=4 * GIB, activation=8 * GIB, input=GIB // 2)
    plans = [dict(first_rank=stage * ranks, num_ranks=ranks, layers=f"stage {{stage}}", fits={fits}, capacity=20 * GIB,
                  peak_allocated=31 * GIB // 2 - stage * GIB, peak_reserved=16 * GIB - stage * GIB,
                  by_category=dict(held, activation=8 * GIB - stage * GIB)) for stage in range(stages)]
    print(json.dumps(dict(event="plan", fits={fits}, step_seconds=0.25, peak_allocated=31 * GIB // 2,
                          outside_allocator=dict(bytes=3 * GIB, parts=[dict(name="estimated CUDA context", bytes=2 * GIB),
                                                                       dict(name="estimated NCCL buffers", bytes=GIB)]),
                          ranks=dict(communicated_bytes=7, plans=plans))))
    sys.exit(0 if {fits} else 4)
    """)


class Plans(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def pretend(self, fits=True, more=0):
        path = self.folder / "trainer"
        path.write_text(PRETENDER.format(python=sys.executable, fits=fits, more=more), encoding="utf-8")
        path.chmod(0o755)
        return str(path)

    def call(self, trainer, *words):
        """The exit code, what was printed, and what was written."""
        printed = io.StringIO()
        (self.folder / "scripts" / "results").mkdir(parents=True)
        with mock.patch.object(sys, "argv", ["plan_llama.py", "--trainer", trainer, *words]), \
                mock.patch.object(plan_llama, "ROOT", self.folder), \
                contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            code = plan_llama.main()
        files = list((self.folder / "scripts" / "results").iterdir())
        return code, printed.getvalue(), [json.loads(file.read_text(encoding="utf-8")) for file in files]

    def test_tell_each_kind_of_ranks_and_its_parts(self):
        code, printed, (results,) = self.call(self.pretend(), "--samples", "32", "--sequence-length", "256")
        self.assertEqual(code, 0, printed)
        self.assertIn("Llama 3 70B, 1,234 parameters: GiB of a rank on h100, 32 sequences of 256 tokens an update", printed)
        self.assertIn("tensor 4 × stages 2: 250 ms a step; NCCL, outside the allocator, about 1.00\n", printed)
        rows = [line.split() for line in printed.splitlines() if line.endswith(("stage 0", "stage 1"))]
        self.assertIn("0 to 3 1.00 2.00 4.00 8.00 0.50 15.50 16.00 stage 0".split(), rows)
        self.assertIn("4 to 7 1.00 2.00 4.00 7.00 0.50 14.50 15.00 stage 1".split(), rows)
        eight, seventy = results["networks"].values()
        self.assertEqual(eight["parameters"], 1234)
        self.assertEqual([len(each["rows"]) for each in eight["layouts"]], [1, 1, 2, 4])
        self.assertEqual({each["ranks"] for each in seventy["layouts"]}, {64})
        self.assertEqual(eight["layouts"][0]["nccl_estimate"], plan_llama.GIB)
        first = eight["layouts"][0]["rows"][0]
        self.assertEqual(sum(first[name] for name in (*plan_llama.CATEGORIES, "other")), first["peak_allocated"])
        calls = (self.folder / "calls").read_text(encoding="utf-8")
        self.assertIn("model.with.size=3-70B data.sequence_length=256 train.amp=bf16 train.checkpointing=sqrt "
                      "train.batch_size=32 parallel.data=64 parallel.shard=parameters --gpu h100 --json", calls)

    def test_stand_beside_what_was_published(self):
        code, printed, (results,) = self.call(self.pretend())
        self.assertEqual(code, 0, printed)
        cases = results["simumax"]["cases"]
        self.assertEqual(len(cases), 8)
        self.assertEqual(cases[0]["stages"], [{"simumax_gib": 66.44, "measured_gib": 66.55, "trainer_gib": 15.5},
                                              {"simumax_gib": 62.84, "measured_gib": 62.97, "trainer_gib": 14.5}])
        self.assertEqual(cases[0]["first_stage"]["trainer_state_gib"], 7)
        self.assertEqual(cases[0]["first_stage"]["trainer_rest_gib"], 8.5)
        self.assertRegex(printed, r"Llama 3 405B, 4 layers +tensor 8 +38\.38 +38\.57 +15\.50 ")
        self.assertIn("parallel.cut=[layers.6]", cases[0]["words"])

    def test_that_do_not_fit_end_with_1(self):
        code, printed, (results,) = self.call(self.pretend(fits=False))
        self.assertEqual(code, 1, printed)
        self.assertIn("; does not fit\n", printed)
        self.assertFalse(results["networks"]["Llama 3 8B"]["layouts"][0]["fits"])

    def test_of_other_stages_than_were_published_are_no_answer(self):
        code, printed, files = self.call(self.pretend(more=1))
        self.assertEqual((code, files), (1, []))
        self.assertIn("3 kinds of ranks were planned, not 2", printed)

    def test_may_be_printed_alone(self):
        code, printed, files = self.call(self.pretend(), "--no-file")
        self.assertEqual((code, files), (0, []), printed)


class Layouts(unittest.TestCase):
    def test_are_told_by_name_and_overrides(self):
        layout = plan_llama.Layout(data=2, tensor=8, stages=4, shard="optimizer", micro_batches=16)
        self.assertEqual(layout.num_ranks(), 64)
        self.assertEqual(layout.name(), "data 2 × tensor 8 × stages 4, shard optimizer")
        self.assertEqual(layout.overrides(), ("parallel.data=2", "parallel.tensor=8", "parallel.pipeline=4",
                                              "parallel.shard=optimizer", "parallel.micro_batches=16"))
        self.assertEqual(plan_llama.Layout(tensor=8).overrides(), ("parallel.tensor=8",))


class Real(unittest.TestCase):
    """Over the program that was built."""

    def setUp(self):
        self.trainer = Trainer(os.environ["TRAINER_BINARY"])

    def test_parameters_are_those_that_were_published(self):
        for size, parameters in {"3-8B": 8_030_261_248, "3-70B": 70_553_706_496}.items():
            self.assertEqual(self.trainer.summary(plan_llama.CONFIG, f"model.with.size={size}")["parameters"], parameters)

    def test_the_formula_of_parameters_leaves_out_norms_alone(self):
        model = plan_llama.Dense("small", 4, 64, 192, 4, 2, 1024)
        words = ("configs/memory/llama_small.yaml", *model.words(), "model.with.vocabulary=1024")
        norms = (2 * model.depth + 1) * model.width
        self.assertEqual(self.trainer.summary(*words)["parameters"] - norms, model.parameters(plan_llama.Layout()))

    def test_small_layouts_are_planned(self):
        words = ("model.with={depth: 4, width: 64, hidden: 192, heads: 4, kv_heads: 2}", "data.sequence_length=64",
                 "train.amp=bf16")
        for layout in (plan_llama.Layout(data=2, tensor=2, stages=2, shard="optimizer"),
                       plan_llama.Layout(data=4, shard="parameters"), plan_llama.Layout(tensor=2, micro_batches=4)):
            with self.subTest(layout.name()):
                planned = plan_llama.planned_layout(self.trainer, words, layout, "h100", 16)
                rows = planned["rows"]
                self.assertEqual(sum(row["num_ranks"] for row in rows), planned["ranks"])
                self.assertEqual(sum(rows[0][name] for name in (*plan_llama.CATEGORIES, "other")), rows[0]["peak_allocated"])
                self.assertGreater(rows[0]["parameter"], 0)
                self.assertGreater(planned["nccl_estimate"], 0)
                self.assertTrue(all(row["fits"] for row in rows))

    def test_what_cannot_be_is_no_answer(self):
        with self.assertRaisesRegex(TrainerFailed, "ended with 2"):
            plan_llama.planned_layout(self.trainer, (), plan_llama.Layout(tensor=3), "h100", 8)


if __name__ == "__main__":
    unittest.main()
