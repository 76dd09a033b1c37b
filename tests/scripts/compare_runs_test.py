"""What `trainer compare --json` tells of runs is what Python finds in their events.jsonl, and `trainer plot --svg` writes
XML that has their points.

Environment: TRAINER, the binary.
"""
import json
import math
import os
import pathlib
import statistics
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRAINER = pathlib.Path(os.environ["TRAINER"]).resolve()
SVG = "{http://www.w3.org/2000/svg}"


def events_in(folder):
    return [json.loads(line) for line in (folder / "events.jsonl").read_text(encoding="utf-8").splitlines()]


def flattened(value, key=""):
    """Leaves of a configuration by dotted key."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from flattened(inner, f"{key}.{name}" if key else name)
    elif isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
        for number, item in enumerate(value):
            yield from flattened(item, f"{key}.{number}")
    else:
        yield key, value


def figures_of(events):
    """What a comparison must say of a run with a single start."""
    steps = [event for event in events if event["event"] == "step"]
    evaluations = [event for event in events if event["event"] == "eval"]
    end = events[-1]
    later = steps[1:]
    seconds = sum(step["step_seconds"] for step in later)
    whole = [step for step in steps if step["samples"] == max(step["samples"] for step in steps)][-1]["memory"]
    figures = {
        "speed.samples": sum(step["samples"] for step in later) / seconds,
        "speed.step": statistics.median(step["step_seconds"] for step in later),
        "speed.data": sum(step["data_seconds"] for step in later) / seconds,
        "memory.requested": end["peak_requested"],
        "memory.allocated": end["peak_allocated"],
        "memory.reserved": end["peak_reserved"],
        "memory.used": end["peak_used"],
        "memory.resident": end["peak_resident"],
        "memory.steady.requested": whole["peak_requested"],
        "memory.steady.allocated": whole["peak_allocated"],
        "memory.steady.reserved": whole["peak_reserved"],
        "memory.held": whole["allocated"],
        "loss": evaluations[-1]["loss"],
        "loss.best": min(event["loss"] for event in evaluations),
        "accuracy": evaluations[-1]["accuracy"],
        "accuracy.best": max(event["accuracy"] for event in evaluations),
        "top5": evaluations[-1]["top5"],
        "top5.best": max(event["top5"] for event in evaluations),
        "train_loss": steps[-1]["loss"],
        "train_loss.best": min(step["loss"] for step in steps),
        "steps": end["steps"],
        "epochs": steps[-1]["epoch"],
        "seconds": end["seconds"],
        "parameters": events[0]["parameters"],
        "batch_size": events[0]["batch_size"],
        "total_steps": events[0]["total_steps"],
        "capacity": events[0]["device"]["capacity"],
        "warnings": sum(event["event"] == "warning" for event in events),
    }
    return figures | {"memory." + name: held for name, held in end["peak_by_category"].items()}


class CompareRuns(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.runs = []
        for name, words in [("one", []), ("two", ["optimizer.lr=0.01", "train.batch_size=48"]),
                            ("three", ["memory.limit=16MiB", "model.layers.8.dropout.p=0.5", "train.amp=bf16"])]:
            cls.runs.append(cls.folder / name)
            cls.call("run", "configs/quickstart.yaml", "train.epochs=2", f"output={cls.runs[-1]}", "-q", *words)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    @classmethod
    def call(cls, *words, codes=(0,)):
        done = subprocess.run([TRAINER, *words], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=300, env={**os.environ, "OMP_NUM_THREADS": "2"})
        if done.returncode not in codes:
            raise AssertionError(f"{words}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def test_figures_are_those_of_the_events(self):
        comparison = json.loads(self.call("compare", *self.runs, "--json"))
        expected = [figures_of(events_in(run)) for run in self.runs]
        self.assertEqual({figure["key"] for figure in comparison["figures"]}, set(expected[0]))
        for figure in comparison["figures"]:
            for run, value in enumerate(figure["values"]):
                wanted, reference = expected[run][figure["key"]], expected[0][figure["key"]]
                if figure["unit"] in ("bytes", "count"):
                    self.assertEqual(value, wanted, figure["key"])
                    self.assertEqual(figure["differences"][run], wanted - reference)
                else:
                    self.assertTrue(math.isclose(value, wanted, rel_tol=1e-9), figure)
                if reference:
                    self.assertAlmostEqual(figure["relative"][run], (wanted - reference) / abs(reference), places=9)
        self.assertEqual([run["status"] for run in comparison["runs"]], ["done"] * 3)

    def test_keys_are_those_of_which_the_values_differ(self):
        comparison = json.loads(self.call("compare", *self.runs, "--json"))
        configs = [dict(flattened(events_in(run)[0]["config"])) for run in self.runs]
        keys = {key for config in configs for key in config}
        expected = {key: [config.get(key) for config in configs] for key in keys
                    if any(config.get(key) != configs[0].get(key) for config in configs)}
        self.assertEqual({one["key"]: one["values"] for one in comparison["config"]}, expected)
        self.assertEqual([one["key"] for one in comparison["config"] if one["is_name"]], ["output"])
        self.assertIn("model.layers.8.dropout.p", expected)

    def test_checks_exit_as_the_figures_say(self):
        one, two = (figures_of(events_in(run)) for run in self.runs[:2])
        for key, worse in [("memory.allocated", "more"), ("accuracy", "less"), ("loss", "more")]:
            change = two[key] - one[key]
            is_worse = change > 0 if worse == "more" else change < 0
            part = 100 * abs(change) / abs(one[key])
            for factor, fails in [(1.01, False), (0.99, is_worse)]:
                self.call("compare", *self.runs[:2], "-q", "--check", f"{key}={factor * part:.9f}%",
                          codes=(1 if fails else 0,))
            self.call("compare", *self.runs[:2], "-q", "--check", f"{key}=±{0.99 * part:.9f}%",
                      codes=(1 if change else 0,))

    def test_a_plan_is_the_run_to_the_byte(self):
        plan = self.folder / "plan.json"
        plan.write_text(self.call("plan", "configs/quickstart.yaml", "train.epochs=2", "--json"), encoding="utf-8")
        comparison = json.loads(self.call("compare", plan, self.runs[0], "--json", "--check", "memory=exact", "--check",
                                          "memory.activation=0", "--check", "memory.steady.requested=exact"))
        self.assertTrue(comparison["passed"])
        self.assertEqual(len(comparison["checks"]), 5)
        self.assertEqual([run["kind"] for run in comparison["runs"]], ["plan", "run"])

    def test_a_picture_is_xml_with_the_points_of_the_runs(self):
        svg = self.folder / "runs.svg"
        self.call("plot", *self.runs, "--of", "loss,accuracy", "--svg", svg, "-q")
        tree = xml.etree.ElementTree.parse(svg)
        tips = [element.text for element in tree.iter(SVG + "title")][1:]
        evaluations = [event for run in self.runs for event in events_in(run) if event["event"] == "eval"]
        told = [tip for tip in tips if "accuracy" in tip]
        self.assertEqual(sorted(float(tip.split("accuracy ")[1].split()[0]) for tip in told),
                         sorted(float(f"{event['accuracy']:.6g}") for event in evaluations))
        self.assertTrue(any("lr=0.01" in tip for tip in tips), tips[:3])

    def test_hostile_names_are_text_in_a_picture(self):
        hostile = self.folder / "hostile \"'&<b>\x1b[31m\x07 ünï"
        hostile.mkdir(exist_ok=True)
        text = (self.runs[1] / "events.jsonl").read_text(encoding="utf-8")
        name = json.dumps("</title><script>&\x1b[2J\u009b" + "ü" * 10_000)
        (hostile / "events.jsonl").write_text(text.replace('"optimizer":{"type":"adamw"', f'"optimizer":{{"type":{name}'),
                                              encoding="utf-8")
        svg = self.folder / "hostile.svg"
        shown = self.call("plot", self.runs[0], hostile, "--svg", svg, "--overwrite")
        self.assertNotRegex(shown, "[\x00-\x09\x0b-\x1f\x7f-\x9f]")
        tree = xml.etree.ElementTree.parse(svg)
        self.assertEqual(list(tree.iter(SVG + "script")), [])
        shown = self.call("compare", self.runs[0], hostile)
        self.assertNotRegex(shown, "[\x00-\x09\x0b-\x1f\x7f-\x9f]")
        self.assertLessEqual(max(map(len, shown.splitlines())), 100)


if __name__ == "__main__":
    unittest.main()
