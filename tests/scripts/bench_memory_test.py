"""bench_memory.py over a trainer that only pretends: what it reads off the plans, and what becomes of failures."""
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
import bench_memory  # noqa: E402
from trainer_events import Trainer  # noqa: E402

# A model of one linear layer, 13 → 1000, batch 50: PyTorch keeps 4·50·13 + (4·1000 + 8)·50 + 4 = 203,004 bytes.
SAVED = 203_004
REST = 100_000
PRETENDER = textwrap.dedent("""\
    #!{python} -IS
    # Checkpointing holds what the limit or the budget leaves beside {rest} bytes and takes the more FLOPs the less that is: at a tenth
    # of {saved} bytes it is 40 %, at a fifth 20 %. It cannot go below a twentieth.
    import json, sys
    words = sys.argv[1:]
    override = dict(word.split("=", 1) for word in words if "=" in word)
    if words[0] == "config":
        print(json.dumps(dict(name="pretended", model=dict(layers=[dict(linear=dict(out=1000, bias=True))]),
                              loss=dict(type="cross_entropy"), optimizer=dict(type="sgd"))))
    elif words[0] == "summary":
        print(json.dumps(dict(event="summary", parameters=14000, layers=[dict(layer="input", output=[50, 13])])))
    else:
        activation, recomputed, fits = {saved} // 2, 0, True
        given = override.get("memory.limit", override.get("train.checkpointing", "").strip("{{budget: }}"))
        if given.isdigit():
            activation = min(activation, int(given) - {rest})
            recomputed = 40 * {saved} / max(activation, 1)
            fits = activation >= {saved} // 20
            if not fits and "memory.limit" not in override: sys.exit(2)
        sixteen = override.get("memory.moments") == "8bit"
        early = override.get("memory.update") == "in_backward"
        peaks = dict(parameter=14000 * (2 if sixteen else 4), gradient=1400 if early else 14000 * (2 if sixteen else 4),
                     optimizer_state=14000 * (2 if sixteen else 8), activation=activation, temporary=7)
        event = dict(event="plan", fits=fits, batch_size=50, peak_allocated={rest} + activation, peak_reserved={rest} + activation,
                     by_category=dict(peaks, activation=activation), category_peaks=peaks, step_flops=1000 + recomputed,
                     recompute_flops=recomputed)
        if "{missing}" in event: del event["{missing}"]
        if "--gpu" in words: event["peak_allocated"] += words.index("--gpu") > 0
        print(json.dumps(event))
        sys.exit(0 if fits else 4)
    """)


class PretendedTrainer(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name in ("MODELS", "CHAINS", "TRANSFORMERS"):
            first = dict(list(getattr(bench_memory, name).items())[:1])
            patch = mock.patch.object(bench_memory, name, first)
            patch.start()
            self.addCleanup(patch.stop)
        saved = {"torch": "1", "parameters": 14000, "saved_bytes": SAVED}
        for name, answer in ("measure", None), ("measure_transformer", saved):
            patch = mock.patch.object(bench_memory, name, return_value=answer)
            patch.start()
            self.addCleanup(patch.stop)

    def make(self, missing=""):
        path = self.folder / "trainer"
        path.write_text(PRETENDER.format(python=sys.executable, rest=REST, saved=SAVED, missing=missing))
        path.chmod(0o755)
        return path

    def bench(self, *words, missing=""):
        """(exit code, what is printed, the report or None) of the whole script."""
        printed, result = io.StringIO(), self.folder / "result.json"
        command = ["bench_memory.py", "--trainer", str(self.make(missing)), "--json", str(result), *words]
        code = 0
        with mock.patch.object(sys, "argv", command), contextlib.redirect_stdout(printed), \
                contextlib.redirect_stderr(printed):
            try:
                bench_memory.main()
            except SystemExit as end:
                code = end.code
        return code, printed.getvalue(), json.loads(result.read_text()) if result.exists() else None

    def test_activations_are_divided_by_what_pytorch_keeps(self):
        code, printed, report = self.bench("activations")
        self.assertEqual(code, 0)
        row, = report["activations"]
        self.assertEqual((row["pytorch_bytes"], row["trainer_bytes"]), (SAVED, SAVED // 2))
        self.assertAlmostEqual(row["ratio"], 0.5, places=5)
        self.assertIn("≤ 0.6: met", printed)
        self.assertNotIn("checkpointing", report)

    def test_capacities_leave_shares_of_pytorchs_bytes_beside_what_does_not_shrink(self):
        _, printed, report = self.bench("checkpointing")
        row, = report["checkpointing"]
        self.assertEqual([point["capacity"] for point in row["points"]],
                         [REST + round(SAVED * share) for share in bench_memory.SHARES])
        self.assertEqual([point["fits"] for point in row["points"]], [True, True, True])
        self.assertRegex(printed, r"1/10 .* 10\.00× less,  40\.\d% of the FLOPs again")

    def test_the_least_bytes_within_the_allowed_flops_are_found(self):
        _, printed, report = self.bench("checkpointing")
        row, = report["checkpointing"]
        # At a fifth it is 20 %; twelve halvings end within a thousandth above that.
        self.assertGreaterEqual(row["best"]["activation_bytes"], SAVED // 5)
        self.assertLess(row["best"]["activation_bytes"], SAVED // 5 * 1.001)
        self.assertLessEqual(row["best"]["recomputed_share"], bench_memory.FLOPS_GOAL)
        self.assertRegex(printed, r"least at 20%.*met")

    def test_what_does_not_fit_is_said_so(self):
        with mock.patch.object(bench_memory, "SHARES", (1 / 40,)):
            _, printed, report = self.bench("checkpointing")
        self.assertEqual(report["checkpointing"][0]["points"][0],
                         {"share": 1 / 40, "capacity": REST + round(SAVED / 40), "fits": False})
        self.assertRegex(printed, "1/40 +does not fit")

    def test_transformers_are_searched_for_the_least_that_costs_a_tenth(self):
        code, printed, report = self.bench("transformers")
        self.assertEqual(code, 0)
        row, = report["transformers"]
        self.assertEqual((row["batch_size"], row["ratio"]), (50, 0.5))
        # 40 % of 1,000 FLOPs at a tenth: 10 % at 0.4 of the bytes.
        self.assertAlmostEqual(row["best_ratio"], 0.4, places=3)
        self.assertLessEqual(row["best"]["recomputed_share"], 0.1)
        self.assertRegex(printed, r"0\.500, goal ≤ 0\.6: met")
        self.assertRegex(printed, r"least at 10%: .* goal ≤ 0\.35: not met")

    def test_transformers_of_other_sizes_are_not_compared(self):
        other = {"torch": "1", "parameters": 14001, "saved_bytes": SAVED}
        with mock.patch.object(bench_memory, "measure_transformer", return_value=other):
            code, printed, report = self.bench("transformers")
        self.assertIn("no figures of: transformers", str(code))
        self.assertIn("14001 parameters, trainer's 14000", printed)
        self.assertIsNone(report)

    def test_adamw_is_told_by_category(self):
        _, printed, report = self.bench("adamw")
        totals = [row["total"] for row in report["adamw"]]
        self.assertEqual([round(total, 3) for total in totals], [16, 6, 4.1])
        self.assertIn("≤ 7: met", printed)
        self.assertIn("≤ 5: met", printed)

    def test_a_trainer_that_does_not_tell_a_figure_is_a_failure_and_nothing_is_written(self):
        for missing in ("category_peaks", "recompute_flops", "step_flops"):
            with self.subTest(missing):
                code, printed, report = self.bench(missing=missing)
                self.assertIn("no figures of", str(code))
                self.assertIn(f"no '{missing}'", printed)
                self.assertIsNone(report)

    def test_a_described_gpu_is_planned_for(self):
        trainer = Trainer(self.make())
        plan = bench_memory.Planner(trainer, "h200").plan("any.yaml")
        self.assertEqual(plan["peak_allocated"], bench_memory.Planner(trainer, None).plan("any.yaml")["peak_allocated"] + 1)


if __name__ == "__main__":
    unittest.main()
