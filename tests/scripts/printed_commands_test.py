"""Pastes every command that trainer prints into a shell, in help, reports, hints and summaries: as it was called itself,
here by a path with a blank in it, it must be found, understood and end as it should.

Environment: TRAINER, the binary.
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CALLED_AS = "./my tools/trainer"
PASTED_AS = "'./my tools/trainer'"
# A command that is still at work by then was understood.
SECONDS = 5
TOO_LARGE = ["configs/quickstart.yaml", "memory.limit=4MiB"]
COMMANDS = ("run", "plan", "fit", "bench", "sweep", "summary", "data", "check", "config", "init", "generate",
            "lr-find", "eval", "export", "export-trace", "predict", "report", "tokenizer", "compare", "plot", "top", "doctor")


def commands_in(text):
    """Commands on lines of their own, continued ones put together, and those that a sentence names in quotes."""
    text = text.replace("\\\n", " ")
    own_lines = re.findall(rf"^ *({re.escape(PASTED_AS)}.*)$", text, re.MULTILINE)
    quoted = re.findall(rf"['`]({re.escape(PASTED_AS)}[^'`]*)['`]", " ".join(text.split()))
    return own_lines + quoted


class PrintedCommands(unittest.TestCase):
    pasted = set()

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        (cls.folder / "configs").symlink_to(ROOT / "configs")
        (cls.folder / "my tools").mkdir()
        (cls.folder / "my tools" / "trainer").symlink_to(os.environ["TRAINER"])
        cls.environment = {**os.environ, "NO_COLOR": "1", "XDG_CACHE_HOME": str(cls.folder), "OMP_NUM_THREADS": "2"}

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def call(self, words):
        """What it prints, on both streams."""
        return subprocess.run([CALLED_AS, *words], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300).stdout

    def paste(self, command, codes=(0,)):
        if (command, codes) in self.pasted:
            return
        self.pasted.add((command, codes))
        with self.subTest(command=command):
            shutil.rmtree(self.folder / "runs" / "quickstart", ignore_errors=True)
            try:
                result = subprocess.run(["bash", "-c", command], cwd=self.folder, env=self.environment, text=True,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        timeout=SECONDS)
            except subprocess.TimeoutExpired:
                return
            self.assertIn(result.returncode, codes, result.stdout)

    def check(self, words, codes=(0,), least=1):
        """All that a call prints; which are returned."""
        text = self.call(words)
        commands = commands_in(text)
        self.assertGreaterEqual(len(commands), least, text)
        self.assertNotRegex(text, r"(?<![/\w])trainer (" + "|".join(COMMANDS) + r")\b")
        for command in commands:
            self.paste(command, codes)
        return commands

    def test_examples_of_the_help(self):
        self.check(["--help"], least=4)
        for command in COMMANDS:
            # The first one only: the others show what else the command takes, and run for long.
            commands = commands_in(self.call([command, "--help"]))
            examples = [one for one in commands if "[" not in one]
            self.assertTrue(examples, command)
            if command not in ("bench", "init"):  # of generate, eval, export, predict, compare and plot there is no run yet
                codes = {"plan": (0, 4), "check": (0, 4), "generate": (2,), "eval": (2,), "export": (2, 6),
                         "predict": (6,), "compare": (6,), "plot": (6,), "top": (2,)}  # which has no terminal here
                self.paste(examples[0], codes.get(command, (0,)))

    def test_what_starts_a_configuration(self):
        self.check(["init"])
        commands = commands_in(self.call(["init", "cnn", "a file.yaml"]))
        self.assertEqual(len(commands), 2)
        self.paste(commands[0], codes=(0, 6))  # its data must be fetched

    def test_runs_that_do_not_fit(self):
        for words in (["run", *TOO_LARGE, "output=runs/a b"], ["run", *TOO_LARGE, "output=runs/full", "--full"]):
            commands = self.check(words)
            self.assertEqual(len(commands), 1)
        self.call(["run", *TOO_LARGE, "output=runs/report"])
        report = (self.folder / "runs/report/out_of_memory.txt").read_text(encoding="utf-8")
        self.assertEqual(len(commands_in(report)), 1)

    def test_plans_that_do_not_fit(self):
        self.check(["plan", *TOO_LARGE])
        self.check(["plan", "configs/quickstart.yaml", "--capacity", "4MiB"])
        self.check(["plan", "configs/quickstart.yaml", "--capacity", "4MiB,8MiB"], codes=(4,))
        self.check(["plan", "configs/mnist_cnn.yaml", "train.batch_size=50000", "--gpu", "t4,h100"], codes=(0, 4))
        self.check(["plan", "configs/cifar10_resnet18.yaml", "train.batch_size=50000", "--gpu", "h100*4,t4*4"], codes=(4,))
        self.check(["plan", "configs/stages.yaml", "--gpu", "h100*2,t4*2"])
        self.check(["check", *TOO_LARGE], codes=(4,))
        self.check(["summary", "configs/quickstart.yaml"])

    def test_plans_of_data_that_was_not_measured(self):
        (self.folder / "digits.yaml").write_text(
            f"data: {{type: image_folder, root: '{ROOT}/tests/datasets/digit_images/images'}}\n"
            "model: {layers: [flatten, linear: {out: 10}]}\n", encoding="utf-8")
        # Each of other data, since what is pasted measures it.
        for more in ([], ["data.split=0.2"], ["data.split=0.3", "name=two words"]):
            commands = self.check(["plan", "digits.yaml", *more])
            self.assertTrue(any("--data" in command for command in commands), commands)

    def test_what_fits(self):
        self.check(["fit", "configs/quickstart.yaml", "--capacity", "8MiB"])
        self.check(["fit", "configs/quickstart.yaml", "--capacity", "8MiB", "--max", "train.batch_size"])
        self.check(["fit", "configs/quickstart.yaml", "--capacity", "3MiB", "--ranks", "2", "train.batch_size=256"])
        self.check(["fit", "configs/quickstart.yaml", "--capacity", "8MiB", "--write", "it fits.yaml"], codes=(0, 6),
                   least=2)

    def test_evaluations_that_do_not_fit(self):
        self.call(["run", "configs/quickstart.yaml", "train.epochs=1", "output=runs/a few steps", "-q"])
        self.check(["eval", "runs/a few steps", "memory.limit=3MiB", "train.eval_batch_size=360"])
        self.check(["eval", "configs/quickstart.yaml", "--weights", "runs/a few steps", "memory.limit=3MiB",
                    "train.eval_batch_size=360"])

    def test_learning_rates(self):
        self.check(["lr-find", "configs/quickstart.yaml", "train.batch_size=16"])
        self.check(["lr-find", *TOO_LARGE])

    def test_a_run_that_is_interrupted(self):
        words = ["run", "configs/quickstart.yaml", "train.epochs=10000", "output=runs/stopped"]
        with subprocess.Popen([CALLED_AS, *words], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            events = self.folder / "runs/stopped/events.jsonl"
            while not events.exists() or '"step"' not in events.read_text(encoding="utf-8"):
                self.assertIsNone(process.poll())
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            text = process.communicate(timeout=60)[0]
        commands = commands_in(text)
        self.assertEqual(len(commands), 1, text)
        self.paste(commands[0])

    def test_what_is_typed_wrong(self):
        self.check(["runn", "configs/quickstart.yaml"])
        self.check(["run", "configs/quickstart.yaml", "--nothing"])
        self.check(["run"])
        self.check(["fit", "configs/quickstart.yaml", "--max", "q.w"])


if __name__ == "__main__":
    unittest.main()
