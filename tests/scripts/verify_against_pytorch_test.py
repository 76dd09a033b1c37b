"""verify_against_pytorch.py: what it counts as a failure, and that wrong numbers are seen.

The last want PyTorch, NumPy and pandas, of this Python or of the .venv/ of scripts/python_env.sh, and a trainer
(TRAINER_BINARY or build/release/trainer); they are skipped without."""
import ast
import contextlib
import importlib.util
import io
import json
import math
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "verify_against_pytorch.py"
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "scripts" / "oracle")]
import findings  # noqa: E402
import random_networks  # noqa: E402
import suite  # noqa: E402
import trainer_runs  # noqa: E402
import verify_against_pytorch  # noqa: E402

BINARY = pathlib.Path(os.environ.get("TRAINER_BINARY", ROOT / "build" / "release" / "trainer"))
HAS_TORCHVISION = importlib.util.find_spec("torchvision") is not None
HAS_TRANSFORMERS = all(importlib.util.find_spec(name) for name in ("transformers", "safetensors"))
HAS_TOKENIZERS = all(importlib.util.find_spec(name) for name in ("tokenizers", "tiktoken"))
HAS_ALL = all(importlib.util.find_spec(name) for name in verify_against_pytorch.NEEDED) and os.access(BINARY, os.X_OK)


def options(**changes):
    return types.SimpleNamespace(**{"seed": 1, "index": None, "keep": None, "jobs": 1, "short": True, "networks": 4,
                                    **changes})


class Comparisons(unittest.TestCase):
    def found(self, *arguments):
        found = findings.Findings()
        found.close("x", *arguments)
        return found.all[0]

    def test_a_number_within_what_is_allowed_passes_and_one_beyond_fails(self):
        self.assertFalse(self.found(1.0005, 1.0, 1e-3).failed)
        self.assertTrue(self.found(1.0015, 1.0, 1e-3).failed)
        self.assertAlmostEqual(self.found(1.0005, 1.0, 1e-3).share, 0.5)

    def test_not_a_number_fails_on_either_side(self):
        self.assertTrue(self.found(math.nan, 1.0, 1e9).failed)
        self.assertTrue(self.found([1.0, 1.0], [1.0, math.nan], 1e9).failed)

    def test_a_number_that_is_missing_fails(self):
        self.assertTrue(self.found(None, 1.0, 1e9).failed)

    def test_another_shape_fails_whatever_the_numbers(self):
        self.assertTrue(self.found([1.0, 1.0], [[1.0, 1.0]], 1e9).failed)
        self.assertTrue(self.found([1.0], [1.0, 1.0], 1e9).failed)

    def test_the_largest_deviation_of_a_list_counts(self):
        self.assertEqual(self.found([1.0, 2.0, 3.0], [1.0, 2.5, 3.1], 1.0).deviation, 0.5)

    def test_nothing_allowed_lets_equal_numbers_pass_and_no_others(self):
        self.assertFalse(self.found(2.0, 2.0, 0.0).failed)
        self.assertTrue(self.found(2.0, 2.0 + 1e-15, 0.0).failed)

    def test_what_is_equal_passes_and_what_is_not_shows_both(self):
        found = findings.Findings()
        found.equal("steps", [1, 2], [1, 2])
        found.equal("steps", [1, 2, 2], [1, 2, 3])
        self.assertEqual([finding.failed for finding in found.all], [False, True])
        self.assertIn("[1, 2, 2], expected [1, 2, 3]", found.all[1].detail)

    def test_the_worst_is_the_one_nearest_to_its_own_bound(self):
        found = findings.Findings()
        found.close("large", 100.0, 101.0, 100.0)
        found.close("small", 0.001, 0.0, 0.002)
        self.assertEqual(found.worst().name, "small")
        found.close("none", math.nan, 0.0, 1.0)
        self.assertEqual(found.worst().name, "none")


class Reports(unittest.TestCase):
    def case(self, deviation, error=""):
        found = findings.Findings()
        if deviation is not None:
            found.close("loss", deviation, 0.0, 1.0)
        return findings.CaseResult("networks:1:7", "3 layers", found, error)

    def test_a_case_that_compared_nothing_has_failed(self):
        self.assertTrue(self.case(None).failed)

    def test_a_part_without_cases_or_with_something_never_met_has_failed(self):
        self.assertTrue(findings.PartResult("networks", [], 0.0).failed)
        self.assertTrue(findings.PartResult("networks", [self.case(0.5)], 0.0, ["conv2d"]).failed)
        self.assertFalse(findings.PartResult("networks", [self.case(0.5)], 0.0).failed)

    def test_the_table_has_a_row_for_each_part_with_its_worst_case(self):
        text = findings.table([findings.PartResult("networks", [self.case(0.25), self.case(1.5)], 3.0),
                               findings.PartResult("data", [self.case(0.0)], 4.0)])
        lines = text.splitlines()
        self.assertEqual(len(lines), 3)
        self.assertRegex(lines[1], r"^networks +2 +1 +2 +1\.500 +1\.5 +networks:1:7 loss +3 s +FAILED$")
        self.assertRegex(lines[2], r"^data +1 +0 +1 +.* passed$")

    def test_json_holds_the_failures(self):
        figures = json.loads(json.dumps(findings.as_json([findings.PartResult("networks", [self.case(1.5)], 3.0)])))
        self.assertTrue(figures["parts"][0]["failed"])
        self.assertEqual(figures["parts"][0]["cases"][0]["failures"][0]["name"], "loss")


class Cases(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def run_fake(self, run, **changes):
        sys.modules["part_fake"] = types.SimpleNamespace(run=run, num_cases=lambda _options: 3)
        self.addCleanup(sys.modules.pop, "part_fake", None)
        return suite.run_part("fake", options(keep=str(self.folder), **changes), trainer=None)

    def test_an_exception_is_a_failure_of_its_case_and_the_others_go_on(self):
        def run(case):
            if case.index == 1:
                raise ValueError("no twin")
            case.findings.equal("index", case.index, case.index)
        part = self.run_fake(run)
        self.assertEqual([case.failed for case in part.cases], [False, True, False])
        self.assertIn("no twin", part.cases[1].error)

    def test_files_of_a_failure_are_kept_and_others_are_not(self):
        def run(case):
            (case.folder / "config.yaml").write_text("name: x\n", encoding="utf-8")
            case.findings.equal("index", case.index, 0)
        part = self.run_fake(run)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["fake-1-1", "fake-1-2"])
        self.assertTrue((pathlib.Path(part.cases[1].kept) / "config.yaml").exists())

    def test_a_case_draws_the_same_alone_as_among_others(self):
        drawn = []

        def run(case):
            drawn.append((case.name, case.number, case.random.random()))
            case.findings.equal("index", 0, 0)
        self.run_fake(run)
        self.run_fake(run, index=2)
        self.assertEqual(drawn[2], drawn[3])
        self.assertEqual(len(set(drawn)), 3)


class RandomNetworks(unittest.TestCase):
    def test_two_hundred_networks_meet_every_layer_and_option(self):
        seen = set()
        for seed in range(200):
            maker = random_networks.NetworkMaker(random.Random(seed), smallest_batch=4)
            maker.network([9, 8, 3] if seed % 2 else [7], 4)
            seen |= maker.seen
        self.assertEqual(random_networks.EVERYTHING - seen, set())

    def test_where_a_batch_may_be_small_no_features_are_normalised_over_it(self):
        for seed in range(100):
            layers = random_networks.NetworkMaker(random.Random(seed), smallest_batch=3).network([7], 4)
            self.assertNotIn("batchnorm1d", set(random_networks.kinds_in(layers)))

    def test_a_network_is_that_of_its_seed_and_ends_in_the_outputs(self):
        one, again = (random_networks.NetworkMaker(random.Random(5)).network([9, 8, 3], 4) for _ in range(2))
        self.assertEqual(one, again)
        self.assertEqual(one[-1]["linear"]["out"], 4)

    def test_smooth_networks_have_no_kink(self):
        for seed in range(60):
            layers = random_networks.NetworkMaker(random.Random(seed), smooth=True).network([9, 8, 3], 4)
            self.assertFalse({"relu", "maxpool2d"} & set(random_networks.kinds_in(layers)))


class Configurations(unittest.TestCase):
    def test_each_key_is_a_line_of_yaml_in_flow_style(self):
        text = trainer_runs.config_text({"name": "a", "model": {"layers": ["relu", {"linear": {"out": 3}}]}})
        self.assertEqual(text, 'name: "a"\nmodel: {"layers": ["relu", {"linear": {"out": 3}}]}\n')

    def test_a_gradient_probe_changes_no_weight_and_saves_every_step(self):
        config = trainer_runs.gradient_probe({"seed": 3, "optimizer": {"type": "adam"}})
        self.assertEqual(config["optimizer"]["lr"], 0)
        self.assertEqual(config["checkpoint"]["every"], 1)
        self.assertEqual(config["seed"], 3)


class CommandLine(unittest.TestCase):
    def call(self, *words, root=ROOT):
        """By a Python without any installed package."""
        return subprocess.run([sys.executable, "-S", str(root / "scripts" / SCRIPT.name), *words], capture_output=True,
                              text=True, check=False)

    def test_help_needs_no_pytorch(self):
        result = self.call("--help")
        self.assertEqual(result.returncode, 0)
        self.assertIn("--networks", result.stdout)

    def test_without_pytorch_it_is_skipped_and_says_so(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            shutil.copytree(ROOT / "scripts", root / "scripts", ignore=shutil.ignore_patterns("results", "__pycache__"))
            result = self.call("--short", "--trainer", sys.executable, root=root)
        self.assertEqual(result.returncode, verify_against_pytorch.EXIT_SKIPPED, result.stderr)
        self.assertIn("skipped: torch, numpy, pandas not installed", result.stderr)
        self.assertEqual(result.stdout, "")

    def test_wrong_usage_ends_with_2(self):
        for words in (["--case", "networks"], ["--case", "nothing:1:2"], ["--only", "nothing"], ["--networks", "0"],
                      ["--trainer", "/nowhere/trainer"]):
            result = self.call(*words)
            self.assertEqual(result.returncode, 2, words)

    def test_a_case_stands_for_its_part_and_seed(self):
        parsed = verify_against_pytorch.parsed(["--case", "amp:7:12", "--trainer", sys.executable])
        self.assertEqual((parsed.parts, parsed.seed, parsed.index), (["amp"], 7, 12))


class SemanticsTable(unittest.TestCase):
    def test_every_claim_is_a_row_of_the_table_and_the_other_way_round(self):
        source = (ROOT / "scripts" / "oracle" / "part_semantics.py").read_text(encoding="utf-8")
        claims = next(node.value for node in ast.parse(source).body
                      if isinstance(node, ast.Assign) and node.targets[0].id == "CLAIMS")
        readme = (ROOT / "scripts" / "oracle" / "README.md").read_text(encoding="utf-8")
        rows = [line.rsplit("|", 2)[1].strip() for line in readme.splitlines()
                if line.startswith("|") and line.count("|") == 5]
        named = {word for row in rows for word in row.split("`")[1::2]} - set(suite.PARTS)
        self.assertEqual(named, {name.id for name in claims.elts})


def scaled_tensor(file, factor, name_ends=""):
    """Changes the tensors of every checkpoint whose names end so."""
    def change(run):
        import safetensors_file
        for path in sorted((run.output / "checkpoints").glob(f"step-*/{file}.safetensors")):
            tensors = safetensors_file.read(path)
            for name, array in tensors.items():
                if name.endswith(name_ends) and array.dtype.kind == "f":
                    array *= array.dtype.type(factor)
            safetensors_file.write(path, tensors)
    return change


def changed_event(kind, key, change):
    def apply(run):
        for event in run.of_kind(kind):
            if event.get(key) is not None:
                event[key] = change(event[key])
    return apply


def changed_array(name, change):
    """Of what `data --npz` writes."""
    def apply(arrays):
        arrays[name] = change(arrays[name].copy())
    return apply


def brighter_pixel(levels):
    def change(samples):
        pixel = samples[1, -1, -1]
        pixel[0] = int(pixel[0]) + (levels if pixel[0] < 128 else -levels)
        return samples
    return change


def first_logged_step_twice(run):
    path = run.output / "events.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    step = next(line for line in lines if '"event":"step"' in line)
    path.write_text("\n".join([step, *lines]) + "\n", encoding="utf-8")


def image_case(function, word):
    """The first short case of a function whose variant has that word."""
    import part_images
    return next(f"images:1:{index}" for index, (each, variant) in enumerate(part_images.SHORT)
                if each.__name__ == function and word in variant)


def tokenizer_case(function, word):
    """The first case of a function whose variant has that word."""
    import part_tokenizers
    return next(f"tokenizers:1:{index}" for index, (each, variant) in enumerate(part_tokenizers.VARIANTS)
                if each.__name__ == function and word in variant)


def other_token(ids):
    ids[-1] += 1
    return ids


def exchanged_merges(found):
    """Of what `tokenizer train` writes."""
    merges = found["file"]["model"]["merges"]
    merges[-1], merges[-2] = merges[-2], merges[-1]


def changed_number(name, place, factor):
    """Of what `lr-find` tells."""
    def change(told):
        told[name][place] *= factor
    return change


def changed_valley(told):
    told["suggestions"]["valley"] = told["lrs"][told["lrs"].index(told["suggestions"]["valley"]) + 1]


# A case that passes, what is changed in what trainer wrote, and a word of the comparison that sees it.
PERTURBED = [
    ("networks:1:3", "a gradient off by a thousandth", scaled_tensor("optimizer", 1.001, ".momentum"), "gradient of"),
    ("networks:1:3", "a loss off by a hundred-thousandth", changed_event("step", "loss", lambda x: x * 1.00001), "loss"),
    ("networks:1:3", "an accuracy off by one sample", changed_event("eval", "accuracy", lambda x: x + 0.05), "accuracy"),
    ("optimizers:1:0", "a weight off by a ten-thousandth", scaled_tensor("model", 1.0001, "weight"), "weight"),
    ("optimizers:1:3", "a moment off by a thousandth", scaled_tensor("optimizer", 1.001, "second_moment"), "second_moment"),
    ("schedules:1:6", "a learning rate off by a millionth", changed_event("step", "lr", lambda x: x * 1.000001),
     "learning rate"),
    ("initialisers:1:0", "weights wider by a fiftieth", scaled_tensor("model", 1.02, "weight"), "within"),
    ("initialisers:1:4", "normal weights wider by a fifth", scaled_tensor("model", 1.2, "weight"), "deviation"),
    ("amp:1:0", "a gradient off by a fifth", scaled_tensor("optimizer", 1.2, ".momentum"), "gradient of"),
    ("amp:1:4", "a scale twice as large", changed_event("step", "loss_scale", lambda x: 2 * x), "scale behind"),
    ("amp:1:4", "a step said to be skipped", changed_event("step", "skipped", lambda x: True), "changes weights"),
    ("resume:1:0", "weights off by a bit", scaled_tensor("model", 1 + 2**-22, "weight"), "bits of"),
    ("resume:1:0", "a step told twice", first_logged_step_twice, "events.jsonl"),
    ("data:1:0", "a sample off by a ten-thousandth", scaled_tensor("optimizer", 1.0001, "weight.momentum"), "sample"),
    *([] if not HAS_TORCHVISION else [
        (image_case("decoded", "lossless"), "a level in one pixel", changed_array("samples", brighter_pixel(1)),
         "01.webp: most"),
        (image_case("decoded", "baseline"), "five levels in one pixel", changed_array("samples", brighter_pixel(5)),
         "01.jpg: most"),
        (image_case("folders", "nested"), "two samples exchanged",
         changed_array("samples", lambda samples: samples[[1, 0, *range(2, len(samples))]]), "order"),
        (image_case("folders", "letters"), "samples of other classes",
         changed_array("targets", lambda targets: targets + 1), "classes"),
        (image_case("transform", "flip"), "what was drawn for another sample",
         changed_array("samples", lambda samples: samples[:, ::-1, ::-1]), "mean"),
        (image_case("transform", "hue"), "five levels in one pixel", changed_array("samples", brighter_pixel(5)),
         "image 1: most"),
        (image_case("masks", "rotate"), "the classes of two masks exchanged",
         changed_array("targets", lambda targets: targets[[1, 0, *range(2, len(targets))]]), "mask 1"),
        (image_case("split", "split"), "a number that is another's", changed_array("index", lambda index: index // 2 * 2),
         "each once")]),
    *([] if not HAS_TOKENIZERS else [
        (tokenizer_case("load_theirs", "English"), "another token at the end", changed_array("ids", other_token), "ids"),
        (tokenizer_case("by_tiktoken", "letters"), "a token more", changed_array("ids", lambda ids: ids.repeat(2)[:-1]),
         "ids"),
        (tokenizer_case("learned", "English"), "two merges exchanged", exchanged_merges, "merges")]),
    *([] if not HAS_TRANSFORMERS else [
        ("transformers:1:0", "a gradient off by a thousandth", scaled_tensor("optimizer", 1.001, "c_attn.weight.momentum"),
         "gradient of"),
        ("transformers:1:3", "a weight off by a bit", scaled_tensor("model", 1 + 2**-22, "o_proj.weight"), "have changed")]),
    ("lr_find:1:0", "a loss off by a thousandth", changed_number("step_losses", 20, 1.001), "step 21 loss"),
    ("lr_find:1:1", "a smoothed loss off by a millionth", changed_number("losses", 30, 1.000001), "smoothed losses"),
    ("lr_find:1:2", "a learning rate off by a millionth", changed_number("lrs", 5, 1.000001), "learning rates"),
    ("lr_find:1:3", "a valley a step further", changed_valley, "valley"),
    ("metrics:1:0", "a top-5 off by a sample", changed_event("eval", "top5", lambda x: x - 1 / 101), "top5"),
    ("metrics:1:2", "an evaluation off by a ten-thousandth", changed_event("eval", "loss", lambda x: x * 1.0001), "loss"),
    ("semantics:1:0", "weights off by a ten-thousandth", scaled_tensor("model", 1.0001, "weight"), "weights"),
]


@unittest.skipUnless(HAS_ALL, "PyTorch, NumPy, pandas or trainer is not here")
class WrongNumbers(unittest.TestCase):
    def run_case(self, name, change=None):
        class Trainer(trainer_runs.TrainerBinary):
            def run(self, folder, config, *words, name="config", **more):
                run = super().run(folder, config, *words, name=name, **more)
                # Of two runs that are compared with each other one alone, and nothing that trainer reads again.
                if change and name not in ("whole", "again", "other") and (name != "resumed" or "--resume" in words):
                    change(run)
                return run

            def encoded(self, *arguments):
                found = super().encoded(*arguments)
                if change and change is not exchanged_merges:
                    change(found)
                return found

            def learned(self, *arguments):
                found = super().learned(*arguments)
                if change:
                    change(found)
                return found

            def range_test(self, *arguments):
                told = super().range_test(*arguments)
                if change:
                    change(told)
                return told

            def prepared(self, *arguments, **more):
                arrays = super().prepared(*arguments, **more)
                if change:
                    change(arrays)
                return arrays
        part, seed, index = name.split(":")
        result, _ = suite.run_case(part, int(seed), int(index), Trainer(BINARY.resolve()), options())
        return result

    def test_each_is_seen_where_the_numbers_as_they_are_pass(self):
        passed = {}
        for name, what, change, word in PERTURBED:
            with self.subTest(name=name, what=what):
                if name not in passed:
                    result = self.run_case(name)
                    passed[name] = not result.failed
                    self.assertFalse(result.failed, findings.failure_text(result))
                result = self.run_case(name, change)
                self.assertEqual(result.error, "")
                self.assertTrue(any(word in finding.name for finding in result.findings.failed()),
                                f"{name}: {[finding.name for finding in result.findings.failed()][:5]}")

    def test_a_trainer_that_fails_fails_the_command(self):
        with tempfile.TemporaryDirectory() as folder:
            broken = pathlib.Path(folder) / "trainer"
            broken.write_text("#!/bin/sh\necho broken >&2\nexit 1\n", encoding="utf-8")
            broken.chmod(0o755)
            out = io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
                code = verify_against_pytorch.main(["--short", "--only", "metrics", "--trainer", str(broken), "--keep",
                                                    str(pathlib.Path(folder) / "kept")])
            self.assertEqual(code, verify_against_pytorch.EXIT_FAILED)
            self.assertIn("FAILED", out.getvalue())
            self.assertIn("--short --case metrics:1:0", out.getvalue())


if __name__ == "__main__":
    if verify_against_pytorch.missing_modules():
        PYTHON = ROOT / ".venv" / "bin" / "python"
        if PYTHON.exists() and not sys.flags.no_site and pathlib.Path(sys.prefix).resolve() != (ROOT / ".venv").resolve():
            os.execv(PYTHON, [str(PYTHON), *sys.argv])
    os.environ["OMP_NUM_THREADS"] = "1"
    unittest.main()
