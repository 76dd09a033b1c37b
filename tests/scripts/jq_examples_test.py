"""Runs every jq example of configs/EVENTS.md on a real run and real plans, and holds what it prints against what Python
makes of the same lines.

Environment: TRAINER, the binary.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRAINER = pathlib.Path(os.environ["TRAINER"]).resolve()
PAGE = (ROOT / "configs/EVENTS.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^# (.*)\n((?:jq|trainer) .*)$", PAGE, re.MULTILINE)


def steps_of(events):
    return [event for event in events if event["event"] == "step"]


def highest_reserved(events):
    highest = max(step["memory"]["peak_reserved"] for step in steps_of(events))
    first = next(step["step"] for step in steps_of(events) if step["memory"]["peak_reserved"] == highest)
    return f"{highest // 1048576} MiB in step {first}"


def best_evaluation(events):
    best = [event for event in events if event["event"] == "eval" and event["best"]][-1]
    return {key: best[key] for key in ("step", "loss", "accuracy")}


def rate(events):
    later = steps_of(events)[1:]
    return sum(step["samples"] for step in later) / sum(step["step_seconds"] for step in later)


def held(plan):
    return sorted((f"{name}\t{size}" for name, size in plan["by_category"].items() if size > 0),
                  key=lambda line: -int(line.split("\t")[1]))


def largest_layers(plan):
    ranked = sorted(plan["by_layer"], key=lambda layer: -layer["bytes"])
    return [f"{layer['layer']}\t{layer['bytes']}" for layer in ranked[:5]]


class JqExamples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="trainer-jq-"))
        (cls.folder / "configs").symlink_to(ROOT / "configs")
        (cls.folder / "trainer").symlink_to(TRAINER)
        cls.environment = {**os.environ, "PATH": f"{cls.folder}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(cls.folder)}
        done = subprocess.run([TRAINER, "run", "configs/quickstart.yaml", "train.epochs=2", "output=runs/quickstart", "-q"],
                              cwd=cls.folder, env=cls.environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        lines = (cls.folder / "runs/quickstart/events.jsonl").read_text(encoding="utf-8").splitlines()
        cls.events = [json.loads(line) for line in lines]

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def plan(self, *words):
        done = subprocess.run([TRAINER, "plan", "configs/quickstart.yaml", *words, "--json"], cwd=self.folder,
                              env=self.environment, capture_output=True, text=True, check=False)
        self.assertIn(done.returncode, (0, 4), done.stderr)
        return json.loads(done.stdout)

    def printed(self, command):
        done = subprocess.run(["bash", "-c", command], cwd=self.folder, env=self.environment, capture_output=True,
                              text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), command)
        return done.stdout.splitlines()

    def check_sizes(self, lines, expected):
        """Names of the same size may stand in any order."""
        self.assertEqual([line.split("\t")[1] for line in lines], [line.split("\t")[1] for line in expected])
        self.assertEqual(len(set(lines)), len(lines))

    def test_each_example_prints_what_python_finds(self):
        events, steps = self.events, steps_of(self.events)
        plan = self.plan()
        targets = self.plan("train.batch_size=512", "--gpu", "all")["targets"]
        fixes = self.plan("train.batch_size=512", "--capacity", "8MiB")["fixes"]
        expected = {
            "The losses": lambda lines: self.assertEqual(
                [tuple(map(float, line.split("\t"))) for line in lines], [(step["step"], step["loss"]) for step in steps]),
            "The most that was reserved": lambda lines: self.assertEqual(lines, [highest_reserved(events)]),
            "The best evaluation": lambda lines: self.assertEqual([json.loads(line) for line in lines],
                                                                  [best_evaluation(events)]),
            "Samples a second": lambda lines: self.assertAlmostEqual(float(lines[0]) / rate(events), 1, places=9),
            "How a run ended": lambda lines: self.assertEqual(lines, ["true"]),
            "Steps that waited": lambda lines: self.assertEqual(
                [int(line) for line in lines],
                [step["step"] for step in steps if step["data_seconds"] > 0.1 * step["step_seconds"]]),
            "What a plan holds": lambda lines: self.check_sizes(lines, held(plan)),
            "The five layers": lambda lines: self.check_sizes(lines, largest_layers(plan)),
            "Which GPUs": lambda lines: self.assertEqual(
                sorted(lines), sorted(f"{row['target']}\t{row['spare']}" for row in targets if row["fits"])),
            "What to paste": lambda lines: self.assertEqual(lines, [" ".join(fixes[0]["set"])]),
        }
        checked = set()
        for title, command in EXAMPLES:
            with self.subTest(title):
                beginning = next((key for key in expected if title.startswith(key)), None)
                self.assertIsNotNone(beginning, "nothing is known of this example")
                expected[beginning](self.printed(command))
                checked.add(beginning)
        self.assertEqual(checked, set(expected))


if __name__ == "__main__":
    unittest.main()
