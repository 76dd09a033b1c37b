"""What `logging` writes while a run goes on: TensorBoard's event files, Prometheus' metrics, MLflow's folder. Each is read by its
format alone (event_files.py) and has the numbers of events.jsonl; live_logs_tools_test.py reads them with the tools.

Environment: TRAINER, the binary.
"""
import bisect
import json
import math
import os
import pathlib
import resource
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request

from event_files import Events, event_files, metrics

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRAINER = os.environ["TRAINER"]
# A network that takes some milliseconds a step, with evaluations, and one of many short steps.
DIGITS = str(ROOT / "tests/runs/digits_mlp.yaml")
TINY = ["model.layers=[flatten, linear: {out: 10}]", "train.batch_size=8", "train.eval_every=100000"]


def f32(number):
    return struct.unpack("<f", struct.pack("<f", number))[0]


def same(a, b):
    return a == b or (math.isnan(a) and math.isnan(b))


def step_scalars(step):
    """By event_json's keys, each under its tag."""
    memory = {f"memory/{key}": step["memory"][key] for key in step["memory"] if key != "device_total"}
    scalars = {"loss/train": step["loss"], "optimizer/learning_rate": step["lr"], "progress/epoch": step["epoch"],
               "speed/samples_per_second": step["samples_per_second"], "speed/step_seconds": step["step_seconds"],
               "speed/data_seconds": step["data_seconds"], **memory}
    for key, tag in (("tokens_seen", "progress/tokens_seen"), ("tokens_per_second", "speed/tokens_per_second"),
                     ("mfu", "speed/mfu"), ("loss_scale", "optimizer/loss_scale"), ("skipped", "optimizer/skipped")):
        if key in step:
            scalars[tag] = step[key]
    for number, term in enumerate(step.get("losses", ()), 1):
        scalars[f"loss_terms/train_{number}"] = term
    return scalars


def eval_scalars(evaluation):
    scalars = {"loss/validation": evaluation["loss"],
               "speed/validation_samples_per_second": evaluation["samples_per_second"],
               "memory/validation_peak_reserved": evaluation["memory"]["peak_reserved"]}
    for key, tag in (("accuracy", "accuracy/validation"), ("top5", "accuracy/validation_top5")):
        if evaluation[key] is not None:
            scalars[tag] = evaluation[key]
    for key in ("mean_iou", "dice", "mae", "r2", "perplexity", "bits_per_byte"):
        if key in evaluation:
            scalars[f"{key}/validation"] = evaluation[key]
    for key in ("class_iou", "class_dice"):
        for number, value in enumerate(evaluation.get(key, ())):
            if value is not None:
                scalars[f"{key}/validation_{number}"] = value
    for number, term in enumerate(evaluation.get("losses", ()), 1):
        scalars[f"loss_terms/validation_{number}"] = term
    return scalars


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="trainer-live-logs-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def run_trainer(self, *words, code=0, **options):
        result = subprocess.run([TRAINER, *map(str, words)], cwd=self.folder, stdin=subprocess.DEVNULL, text=True,
                                capture_output=True, check=False, timeout=300, **options)
        self.assertEqual(result.returncode, code, result.stderr)
        return result

    def train(self, output, *words, code=0, config=DIGITS, **options):
        return self.run_trainer("run", config, f"output={output}", "--quiet", *words, code=code, **options)

    def events(self, output):
        with open(self.folder / output / "events.jsonl", encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def expected_scalars(self, output):
        expected = {}
        for event in self.events(output):
            told = {"step": step_scalars, "eval": eval_scalars}.get(event["event"])
            for tag, value in (told(event) if told else {}).items():
                expected.setdefault(tag, []).append((event["step"], f32(math.nan if value is None else value)))
        return expected

    def check_scalars(self, output):
        found = Events(self.folder / output)
        scalars = {tag: values for tag, values in found.scalars.items() if tag != "progress/stage"}
        expected = self.expected_scalars(output)
        self.assertEqual(set(scalars), set(expected))
        for tag, values in expected.items():
            self.assertEqual(len(scalars[tag]), len(values), tag)
            for one, other in zip(scalars[tag], values):
                self.assertTrue(one[0] == other[0] and same(one[1], other[1]), (tag, one, other))
        return found


class TensorBoard(Folder):
    def test_every_scalar_is_that_of_events_jsonl_as_a_32_bit_float(self):
        self.train("run", "logging.tensorboard=true", "seed=7")
        before = time.time()
        found = self.check_scalars("run")
        self.assertEqual(found.times, sorted(found.times))
        self.assertTrue(all(before - 300 < each <= before for each in found.times))
        self.assertEqual(found.starts, [])
        self.assertEqual(found.parameters()["seed"], 7.0)
        self.assertEqual(found.parameters()["optimizer.type"], "adam")
        self.assertIs(found.has_succeeded(), True)
        ((step, text),) = found.texts["configuration"]
        config = (self.folder / "run/config.yaml").read_text()
        self.assertEqual((step, [line[4:] for line in text.split("\n")]), (0, config.split("\n")))

    def test_terms_of_a_loss_and_the_loss_scale_are_scalars(self):
        self.train("run", "logging.tensorboard=true", "train.epochs=1", "train.amp=fp16",
                   "loss=[cross_entropy, {type: cross_entropy, label_smoothing: 0.1, weight: 0.5}]")
        found = self.check_scalars("run")
        self.assertIn("loss_terms/train_2", found.scalars)
        self.assertIn("loss_terms/validation_2", found.scalars)
        self.assertIn("optimizer/loss_scale", found.scalars)

    def test_a_resumed_run_tells_no_step_twice(self):
        settings = ("logging.tensorboard=true", "checkpoint.every=20", "checkpoint.keep=100", "train.epochs=2")
        self.train("whole", *settings)
        self.train("run", *settings)
        # As after a kill behind the checkpoint of step 40.
        last = self.events("run")[-1]["steps"]
        self.assertGreater(last, 40)
        checkpoints = self.folder / "run/checkpoints"
        for path in checkpoints.iterdir():
            if path.name.startswith("step-") and int(path.name[5:]) > 40 or path.is_symlink():
                path.unlink() if path.is_symlink() else shutil.rmtree(path)
        (file,) = event_files(self.folder / "run")
        file.write_bytes(file.read_bytes()[:-7])  # in the middle of a record
        self.train("run", *settings, "--resume")
        self.assertEqual(len(event_files(self.folder / "run")), 2)
        found = self.check_scalars("run")
        self.assertEqual(found.starts, [41])
        whole = Events(self.folder / "whole")
        self.assertEqual(found.scalars["loss/train"], whole.scalars["loss/train"])
        self.assertEqual(found.scalars["loss/validation"], whole.scalars["loss/validation"])

    def test_it_may_be_asked_for_or_left_when_a_run_is_resumed(self):
        self.train("run", "train.steps=5")
        self.train("run", "train.steps=8", "logging.tensorboard=true", "logging.histograms_every=1", "--resume")
        self.assertEqual([step for step, _ in Events(self.folder / "run").scalars["loss/train"]], [6, 7, 8])
        self.train("run", "train.steps=9", "--resume")
        self.assertEqual(len(event_files(self.folder / "run")), 1)

    def test_steps_faster_than_ten_a_second_are_thinned_out_behind_the_first_1000(self):
        self.train("run", *TINY, "train.epochs=60", "checkpoint.every=2500", "logging.tensorboard=true")
        expected, waiting, waited = [], None, 0.0
        for event in self.events("run"):
            if event["event"] == "step":
                waited += event["step_seconds"]
                if len(expected) < 1000 or waited >= 0.1:
                    expected.append(event["step"])
                    waiting, waited = None, 0.0
                else:
                    waiting = event["step"]
            elif waiting is not None:
                expected.append(waiting)
                waiting, waited = None, 0.0
        told = [step for step, _ in Events(self.folder / "run").scalars["loss/train"]]
        self.assertEqual(told, expected)
        self.assertEqual(told[:1000], list(range(1, 1001)))
        self.assertGreater(self.events("run")[-1]["steps"], 2 * len(told))

    def test_stages_and_what_happens_between_are_told(self):
        self.train("run", "logging.tensorboard=true", "train.steps=3",
                   "stages=[{name: first}, {name: second, train: {batch_size: 16}}]")
        found = self.check_scalars("run")
        self.assertEqual(found.scalars["progress/stage"], [(1, 1.0), (4, 2.0)])
        self.assertEqual([step for step, _ in found.texts["stages"]], [1, 4])
        self.assertIn("stage 2 of 2, second: steps 4 to 6 in batches of 16", found.texts["stages"][1][1])
        self.assertIn("ended after 6 steps: done", found.texts["notes"][-1][1])

    def test_histograms_have_the_weights_of_the_checkpoint_behind_the_same_step(self):
        self.check_histograms()
        self.check_histograms("train.amp=bf16", "memory.master_weights=false")

    def check_histograms(self, *settings):
        # More numbers than are widened at a time.
        self.train("run", "logging.tensorboard=true", "logging.histograms_every=10", "train.steps=20", "--overwrite",
                   "checkpoint.every=10", "model.layers.1.linear.out=300", *settings)
        found = Events(self.folder / "run")
        for step in (10, 20):
            path = self.folder / f"run/checkpoints/step-{step:08}/model.safetensors"
            for name, numbers in safetensors(path).items():
                by_step = dict(found.histograms[f"weights/{name}"])
                self.assertEqual(list(by_step), [10, 20])
                least, most, count, total, squares, limits, counts = by_step[step]
                self.assertEqual((least, most, count), (min(numbers), max(numbers), len(numbers)))
                self.assertAlmostEqual(total, math.fsum(numbers), places=6)
                self.assertAlmostEqual(squares, math.fsum(x * x for x in numbers), places=6)
                below, ordered = 0, sorted(numbers)
                for limit, number in zip(limits, counts):
                    below += number
                    self.assertEqual(below, bisect.bisect_left(ordered, limit), (name, limit))
                self.assertEqual(below, len(numbers))
        self.assertIn("momentum/1.weight", found.histograms)

    def test_logging_changes_no_bit_no_plan_and_no_byte_on_the_device(self):
        settings = ("train.epochs=1", "checkpoint.every=10", "memory.limit=64MiB")
        self.train("plain", *settings)
        self.train("logged", *settings, "logging.tensorboard=true", "logging.histograms_every=1",
                   "logging.prometheus_file=metrics.prom", "logging.mlflow=mlruns", "logging.prometheus_port=0")
        def told(output):
            steps = [event for event in self.events(output) if event["event"] == "step"]
            return [(each["loss"], {key: value for key, value in each["memory"].items() if key != "device_used"})
                    for each in steps]

        self.assertEqual(told("plain"), told("logged"))
        for path in sorted((self.folder / "plain/checkpoints").glob("step-*/*.safetensors")):
            other = self.folder / "logged/checkpoints" / path.parent.name / path.name
            self.assertEqual(path.read_bytes(), other.read_bytes(), path)
        plans = [self.run_trainer("plan", DIGITS, "--json", *settings, *more).stdout
                 for more in ((), ("logging.tensorboard=true", "logging.histograms_every=1"))]
        first, second = (json.loads(plan.splitlines()[-1]) for plan in plans)
        for plan in (first, second):
            plan.pop("config", None)
        self.assertEqual({key: first[key] for key in ("fits", "capacity", "steps", "peak", "by_category")},
                         {key: second[key] for key in ("fits", "capacity", "steps", "peak", "by_category")})

    def test_points_of_a_sweep_are_compared_by_what_was_swept(self):
        self.run_trainer("sweep", DIGITS, "optimizer.lr=0.001,0.01", "model.layers.1.linear.out=16,32", "train.epochs=1",
                         "logging.tensorboard=true", "output=sweep")
        points = [path.parent for path in sorted(self.folder.glob("sweep/*/config.yaml"))]
        self.assertEqual(len(points), 4)
        compared = [Events(point).parameters() for point in points]
        self.assertEqual({(each["optimizer.lr"], each["model.layers.1.linear.out"]) for each in compared},
                         {(0.001, 16), (0.001, 32), (0.01, 16), (0.01, 32)})
        self.assertTrue(all("output" not in each and "logging.tensorboard" not in each for each in compared))

    def test_a_run_that_replaces_another_replaces_its_files_and_one_that_fails_brings_them_back(self):
        self.train("run", "train.steps=3", "logging.tensorboard=true")
        (first,) = event_files(self.folder / "run")
        kept = first.read_bytes()
        (self.folder / "run/events.out.tfevents.1.somebody").write_bytes(b"not ours")
        # It diverges before its first checkpoint.
        self.train("run", "train.steps=3", "logging.tensorboard=true", "optimizer.lr=1e38", "--overwrite", code=5)
        self.assertEqual(first.read_bytes(), kept)
        self.train("run", "train.steps=4", "logging.tensorboard=true", "--overwrite")
        names = [path.name for path in event_files(self.folder / "run")]
        self.assertEqual(len(names), 2, names)
        self.assertIn("events.out.tfevents.1.somebody", names)
        (self.folder / "run/events.out.tfevents.1.somebody").unlink()
        self.assertEqual([step for step, _ in Events(self.folder / "run").scalars["loss/train"]], [1, 2, 3, 4])

    def test_a_run_that_does_not_fit_leaves_the_files_of_the_one_in_its_folder(self):
        self.train("run", "train.steps=3", "logging.tensorboard=true")
        kept = [path.read_bytes() for path in event_files(self.folder / "run")]
        self.train("run", "logging.tensorboard=true", "memory.limit=64KiB", "--overwrite", code=3)
        self.assertEqual([path.read_bytes() for path in event_files(self.folder / "run")], kept)
        self.train("new", "logging.tensorboard=true", "memory.limit=64KiB", code=3)
        self.assertIsNone(Events(self.folder / "new").has_succeeded())

    def test_a_run_that_failed_has_succeeded_once_it_is_resumed_and_done(self):
        settings = ("logging.tensorboard=true", "checkpoint.every=2")
        self.train("run", *settings, "train.steps=4")
        (first,) = event_files(self.folder / "run")
        first.unlink()  # it has an end of its own
        in_the_way = self.folder / "run/checkpoints/step-00000006"
        in_the_way.write_text("no checkpoint")
        self.train("run", *settings, "train.steps=8", "--resume", code=6)
        self.assertEqual(self.events("run")[-1]["status"], "failed")
        in_the_way.unlink()
        self.train("run", *settings, "train.steps=8", "--resume")
        self.assertGreater(len(event_files(self.folder / "run")), 1)
        self.assertIs(Events(self.folder / "run").has_succeeded(), True)

    def test_a_file_of_a_second_that_no_clock_told_does_not_stand_in_the_way(self):
        self.train("run", "logging.tensorboard=true", "train.steps=2")
        (self.folder / "run/events.out.tfevents.9223372036854775806.trainer").write_bytes(b"")
        self.train("run", "logging.tensorboard=true", "train.steps=4", "--resume")
        seconds = sorted(int(path.name.split(".")[3]) for path in event_files(self.folder / "run"))
        self.assertEqual(len(seconds), 3)
        self.assertEqual(seconds[2], 9223372036854775806)
        self.assertLess(seconds[1], time.time() + 300)

    def test_a_disk_that_takes_no_more_ends_no_training(self):
        words = [*TINY, "train.epochs=8", "train.steps=600", "logging.tensorboard=true", "logging.histograms_every=10"]
        self.train("whole", *words)
        sizes = [path.stat().st_size for path in (self.folder / "whole/events.jsonl", *event_files(self.folder / "whole"))]
        self.assertGreater(sizes[1], 1.05 * sizes[0])  # so that there is a disk that has room for one of both
        limit = sum(sizes) // 2

        def before():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        result = self.train("run", *words, preexec_fn=before)
        (file,) = event_files(self.folder / "run")
        said = (f"Warning: cannot write TensorBoard's events: run/{file.name}: File too large; nothing more is written there, "
                "and training goes on")
        self.assertEqual(" ".join(result.stderr.split()), said)
        events = self.events("run")
        warnings = [event for event in events if event["event"] == "warning"]
        self.assertEqual(len(warnings), 1)
        self.assertIn("TensorBoard", warnings[0]["message"])
        self.assertEqual((events[-1]["event"], events[-1]["status"], events[-1]["steps"]), ("end", "done", 600))
        Events(self.folder / "run")  # what is there is whole

    def test_a_file_that_cannot_be_begun_ends_the_run_before_it_trains(self):
        for key, value in (("mlflow", "file/mlruns"), ("prometheus_file", "file/metrics.prom")):
            (self.folder / "file").write_text("in the way")
            result = self.train("run", f"logging.{key}={value}", code=6)
            self.assertRegex(result.stderr, "^error: cannot write (MLflow's files|Prometheus' metrics): .*file")
            self.assertFalse((self.folder / "run/checkpoints/latest").exists())
            shutil.rmtree(self.folder / "run")
        (self.folder / "metrics.prom").mkdir()
        result = self.train("run", "logging.prometheus_file=metrics.prom", code=6)
        self.assertIn("metrics.prom", result.stderr)
        self.assertFalse((self.folder / "metrics.prom.tmp").exists())

    def test_histograms_are_refused_without_files_and_logging_in_a_stage(self):
        result = self.train("run", "logging.histograms_every=5", code=2)
        self.assertIn("'logging.histograms_every' is of TensorBoard's files", result.stderr)
        result = self.train("run", "stages=[{name: a, logging: {tensorboard: true}}]", code=2)
        self.assertIn("a stage cannot change 'logging': stages are one run, which is told in one place", result.stderr)

    def test_rank_0_tells_of_all_with_the_weights_of_all(self):
        settings = ("train.steps=4", "logging.tensorboard=true", "logging.histograms_every=2", "logging.prometheus_port=0",
                    "checkpoint.every=2")
        for name, more in (("data", ("parallel.data=2",)), ("sharded", ("parallel.data=2", "parallel.shard=parameters")),
                           ("pipeline", ("parallel.pipeline=2",))):
            with self.subTest(name):
                self.train(name, *settings, *more)
                self.assertEqual(len(list(self.folder.glob(f"{name}/**/*tfevents*"))), 1)
                found = self.check_scalars(name)
                path = self.folder / f"{name}/checkpoints/step-00000004/model.safetensors"
                for tensor, numbers in safetensors(path).items():
                    least, most, count = dict(found.histograms[f"weights/{tensor}"])[4][:3]
                    self.assertEqual((least, most, count), (min(numbers), max(numbers), len(numbers)))


def safetensors(path):
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + length])
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            numbers = data[8 + length + begin:8 + length + end]
            if entry["dtype"] == "BF16":  # the upper half of a float
                numbers = b"".join(b"\0\0" + numbers[i:i + 2] for i in range(0, len(numbers), 2))
            tensors[name] = struct.unpack(f"<{len(numbers) // 4}f", numbers)
    return tensors


HOSTILE = "quote\" back\\slash <b>ü `x` 😀 " + "n" * 140


class Hostile(Folder):
    def test_names_are_shown_as_text_everywhere(self):
        layer = "l\"<i>`" + "x" * 10_000
        config = {"name": HOSTILE, "data": {"type": "digits"},
                  "model": {"layers": ["flatten", {"linear": {"out": 10, "name": "plain"}}]},
                  "train": {"steps": 2, "batch_size": 8},
                  "logging": {"tensorboard": True, "histograms_every": 1, "prometheus_file": "metrics.prom",
                              "mlflow": "mlruns"}}
        path = self.folder / "hostile.yaml"
        path.write_text(json.dumps(config, ensure_ascii=False), encoding="utf-8")
        self.run_trainer("run", path, "output=run")
        found = self.check_scalars("run")
        self.assertIn("weights/plain.weight", found.histograms)
        labels = metrics((self.folder / "metrics.prom").read_text(encoding="utf-8"))["trainer_step"][0][0]
        self.assertEqual(labels["run"], HOSTILE)
        (experiment,) = (self.folder / "mlruns").glob("[0-9]*")
        name = [line for line in (experiment / "meta.yaml").read_text("ascii").split("\n") if line.startswith("name: ")]
        shown = name[0][6:].replace("\\U0001f600", "\\ud83d\\ude00")
        self.assertEqual(json.loads(shown), HOSTILE)

        config["model"]["layers"][1]["linear"]["name"] = layer
        path.write_text(json.dumps(config, ensure_ascii=False), encoding="utf-8")
        result = subprocess.run([TRAINER, "run", path, "output=long", "--quiet"], cwd=self.folder, text=True,
                                capture_output=True, check=False, timeout=120)
        if result.returncode == 0:  # else such a name is refused before anything is written
            self.assertIn(f"weights/{layer}.weight", Events(self.folder / "long").histograms)
        else:
            self.assertEqual(result.returncode, 2, result.stderr)


class Prometheus(Folder):
    def test_the_file_is_the_last_state_of_the_run(self):
        self.train("run", "train.epochs=1", "logging.prometheus_file=metrics.prom")
        found = metrics((self.folder / "metrics.prom").read_text())
        events = self.events("run")
        steps = [event for event in events if event["event"] == "step"]
        evaluation = [event for event in events if event["event"] == "eval"][-1]
        labels = {"run": "digits-mlp", "stage": "train", "device": "cpu", "rank": "0"}
        expected = {"trainer_step": steps[-1]["step"], "trainer_loss": steps[-1]["loss"],
                    "trainer_learning_rate": steps[-1]["lr"], "trainer_samples_total": sum(s["samples"] for s in steps),
                    "trainer_steps_total": len(steps), "trainer_validation_loss": evaluation["loss"],
                    "trainer_validation_accuracy_ratio": evaluation["accuracy"], "trainer_running": 0,
                    "trainer_checkpoints_total": len([event for event in events if event["event"] == "checkpoint"]),
                    "trainer_memory_device_size_bytes": steps[-1]["memory"]["device_total"],
                    "trainer_memory_device_used_bytes": steps[-1]["memory"]["device_used"]}
        for key in ("requested", "peak_requested", "allocated", "peak_allocated", "reserved", "peak_reserved"):
            expected[f"trainer_memory_{key}_bytes"] = steps[-1]["memory"][key]
        for name, value in expected.items():
            self.assertEqual(found[name], [(labels, value)], name)
        self.assertEqual(found["trainer_end"], [({**labels, "status": "done"}, 1)])
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["metrics.prom", "run"])

    def test_metrics_are_served_while_the_run_goes_on_and_no_longer(self):
        with subprocess.Popen([TRAINER, "run", DIGITS, *TINY, "output=run", "train.epochs=1000000",
                               "logging.prometheus_port=0"], cwd=self.folder, stderr=subprocess.PIPE,
                              stdout=subprocess.DEVNULL, text=True) as process:
            line = process.stderr.readline()
            self.assertRegex(line, r"^Metrics are served at http://127\.0\.0\.1:\d+/metrics while the run goes on\.\n$")
            address = line.split()[4]
            seen = []
            for _ in range(200):
                with urllib.request.urlopen(address, timeout=30) as answer:
                    self.assertEqual(answer.headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
                    found = metrics(answer.read().decode())
                if "trainer_step" in found:
                    seen.append(found["trainer_step"][0][1])
                if len(set(seen)) > 2:
                    break
                time.sleep(0.05)
            self.assertEqual(seen, sorted(seen))
            self.assertGreater(len(set(seen)), 2)
            self.assertEqual(found["trainer_running"][0][1], 1)
            second = self.train("second", "train.steps=1", f"logging.prometheus_port={address.split(':')[2].split('/')[0]}",
                                code=2)
            self.assertIn("Address already in use", second.stderr)
            self.assertIn("logging.prometheus_port=0 takes a free port", " ".join(second.stderr.split()))
            process.send_signal(signal.SIGINT)
            process.stderr.read()
        self.assertEqual(process.returncode, 75)
        with self.assertRaises(urllib.error.URLError):
            urllib.request.urlopen(address, timeout=30)


class Mlflow(Folder):
    def read(self):
        (experiment,) = (self.folder / "mlruns").glob("[0-9]*")
        runs = {}
        for run in experiment.iterdir():
            if run.is_dir():
                values = {part: {str(path.relative_to(run / part)): path.read_text() for path in (run / part).rglob("*")
                                 if path.is_file()} for part in ("params", "tags", "metrics")}
                values["meta"] = dict(line.split(": ", 1) for line in (run / "meta.yaml").read_text().splitlines())
                values["config"] = (run / "artifacts/config.yaml").read_text()
                runs[run.name] = values
        return runs

    def check_metrics(self, run, output):
        for tag, values in self.expected_scalars(output).items():
            lines = [line.split(" ") for line in run["metrics"][tag].splitlines()]
            self.assertEqual([(int(step), f32(float(value))) for _, value, step in lines], values, tag)

    def test_a_run_is_a_run_of_the_experiment_of_its_name(self):
        self.train("run", "train.epochs=1", "logging.mlflow=mlruns", "optimizer.lr=0.02")
        ((run_id, run),) = self.read().items()
        self.check_metrics(run, "run")
        self.assertEqual(run["params"]["optimizer.lr"], "0.02")
        self.assertEqual(run["params"]["optimizer.type"], "adam")
        self.assertEqual(run["tags"]["mlflow.runName"], "run")
        self.assertEqual(run["config"], (self.folder / "run/config.yaml").read_text())
        self.assertEqual((run["meta"]["status"], run["meta"]["run_id"]), ("3", f'"{run_id}"'))
        self.assertEqual((self.folder / "run/mlflow_run.txt").read_text().split(" ")[0], run_id)

    def test_a_resumed_run_goes_on_in_its_run_and_a_new_one_has_its_own(self):
        settings = ("train.steps=20", "checkpoint.every=5", "checkpoint.keep=100", "logging.mlflow=mlruns")
        self.train("run", *settings)
        for path in (self.folder / "run/checkpoints").iterdir():
            if path.is_symlink() or path.name != "step-00000010":
                path.unlink() if path.is_symlink() else shutil.rmtree(path)
        self.train("run", *settings, "--resume")
        ((_, run),) = self.read().items()
        self.check_metrics(run, "run")
        self.assertEqual(run["meta"]["status"], "3")
        self.train("other", *settings)
        self.train("run", *settings, "--overwrite")
        self.assertEqual(len(self.read()), 3)

    def test_how_a_run_ended_is_its_status(self):
        self.train("run", "logging.mlflow=mlruns", "optimizer.lr=1e38", code=5)
        ((_, run),) = self.read().items()
        self.assertEqual(run["meta"]["status"], "4")
        self.assertNotEqual(run["meta"]["end_time"], "null")


if __name__ == "__main__":
    unittest.main()
