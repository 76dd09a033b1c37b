"""The first minutes of six kinds of users, as the commands they type and the screens they end on: 80 columns, 24 lines."""

import csv
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import struct
import sys
import tempfile
import termios
import time
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
TRAINER = pathlib.Path(os.environ["TRAINER"]).resolve()
COLUMNS, LINES = 80, 24
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def shown(text):
    """The lines that a terminal shows at the end."""
    lines, current = [], ""
    position = 0
    while position < len(text):
        match = ESCAPE.match(text, position)
        if match:
            code = match.group()
            if code.endswith("A"):
                for _ in range(int(code[2:-1] or 1)):
                    current = lines.pop() if lines else ""
            elif code.endswith(("K", "J")):
                current = ""
            position = match.end()
            continue
        letter = text[position]
        if letter == "\n":
            lines.append(current)
            current = ""
        elif letter == "\r":
            if text[position + 1:position + 2] != "\n":
                current = ""
        else:
            current += letter
        position += 1
    if current:
        lines.append(current)
    return lines


class Tour(unittest.TestCase):
    """A folder with the shipped configurations, and a shell in it."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="trainer-tour-"))
        (self.folder / "configs").symlink_to(REPOSITORY / "configs")
        (self.folder / "bin").mkdir()
        (self.folder / "bin/trainer").symlink_to(TRAINER)
        self.environment = {**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}", "TERM": "xterm",
                            "HOME": str(self.folder), "LC_ALL": "C.UTF-8"}
        self.environment.pop("NO_COLOR", None)

    def tearDown(self):
        shutil.rmtree(self.folder)

    def type(self, command, exit_code, *expected, absent=()):
        """Runs a line in a terminal of 80 × 24; what is expected stands on its last screen."""
        process, terminal = pty.fork()
        if process == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
            os.chdir(self.folder)
            os.execvpe("bash", ["bash", "-c", command], self.environment)
        text, deadline = b"", time.time() + 300
        while time.time() < deadline:
            ready, _, _ = select.select([terminal], [], [], 1)
            if not ready:
                continue
            try:
                piece = os.read(terminal, 65536)
            except OSError:  # its other end is closed
                break
            if not piece:
                break
            text += piece
        else:
            os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        os.close(terminal)
        lines = shown(text.decode())
        screen = "\n".join(lines[-(LINES - 1):])
        self.assertEqual(os.waitstatus_to_exitcode(status), exit_code, f"$ {command}\n" + "\n".join(lines))
        # Errors are left to the terminal to wrap, since what they quote is pasted whole.
        for line in lines if exit_code in (0, 3, 4) else []:
            self.assertLessEqual(len(line), COLUMNS, f"$ {command}\n{line}")
        for words in expected:
            self.assertRegex(screen, words, f"$ {command}")
        for words in absent:
            self.assertNotRegex("\n".join(lines), words, f"$ {command}")
        return lines

    def pasted(self, lines, title):
        """The command that stands below a title."""
        at = max(number for number, line in enumerate(lines) if line.startswith(title))
        command = ""
        for line in lines[at + 1:]:
            if not line.startswith("  "):
                break
            command += line.strip().removesuffix("\\") + " "
            if not line.endswith("\\"):
                break
        return command.strip()


class Stranger(Tour):
    """The README's first ten minutes, line by line."""

    def test_what_the_readme_says_first(self):
        page = (REPOSITORY / "README.md").read_text(encoding="utf-8")
        section = page[page.index("## The first ten minutes"):]
        lines = section[section.index("```sh\n") + 6:].split("```")[0].splitlines()
        (self.folder / "scripts").mkdir()
        (self.folder / "scripts/trainer").symlink_to(TRAINER)
        (self.folder / "datasets").symlink_to(REPOSITORY / "datasets")
        exit_code, screens = 0, []
        for line in lines:
            if line.startswith("#"):
                told = re.search(r"exit code (\d)", line)
                exit_code = int(told.group(1)) if told else 0
                continue
            screens.append("\n".join(self.type(line, exit_code)))
            exit_code = 0
        self.assertGreaterEqual(len(screens), 8)
        self.assertTrue((self.folder / "runs/quickstart-sweep/sweep.svg").exists())
        self.assertIn("Paste the first", screens[2])
        self.assertIn("--gpu rtx3060-12gb", screens[5])
        # What it says to do is where it says it, and the table was learned.
        self.assertRegex(screens[-1], r"accuracy +9\d\.\d\d %")


class Teacher(Tour):
    """A lesson on memory: what holds it, what a batch changes, what a failure looks like."""

    def test_the_lesson(self):
        quick = "configs/quickstart.yaml"
        self.type(f"trainer summary {quick}", 0, "parameters")
        self.type(f"trainer run {quick} train.epochs=2", 0, "training loss, steps 1 to", "peak memory", "accuracy",
                  "Done after")
        self.type(f"trainer plan {quick} --verify", 0, "The plan equals what was measured, to the byte")
        lines = self.type(f"trainer sweep {quick} train.batch_size=64..1024:*4 memory.limit=24MiB train.epochs=1", 0,
                          "× out of memory", "c capacity 24.00 MiB", "of these that fits: 64", "sweep.csv")
        for row in (r"1024  oom", r"64  done", "A batch_size=64"):
            self.assertRegex("\n".join(lines), row)
        with open(self.folder / "runs/quickstart-sweep/sweep.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), 3)
        done = rows[0]
        self.assertEqual(sum(int(done[name]) for name in ("parameter", "gradient", "optimizer_state", "activation",
                                                          "input", "workspace", "temporary", "communication", "frozen")),
                         int(done["peak_allocated"]))
        lines = self.type(f"trainer run {quick} memory.limit=4MiB output=runs/small", 3, "MiB missing",
                          r"1\. ", "Paste the first:", "out_of_memory.txt")
        self.type(self.pasted(lines, "Paste the first:"), 0, "Done after")
        self.assertTrue((self.folder / "runs/small/events.jsonl").exists())
        # The run that was pasted has taken the report of the failed one away.
        self.assertFalse((self.folder / "runs/small/out_of_memory.txt").exists())


class Practitioner(Tour):
    """One card of 12 GB: does it fit, how large a batch, how fast."""

    def test_a_card_of_12_gb(self):
        net = "configs/cifar10_resnet18.yaml"
        lines = self.type(f"trainer plan {net} train.batch_size=6144 --gpu rtx3060-12gb", 4, "GiB missing",
                          r"Every batch .*up to \d", r"1\. train", "Paste the first")
        again = self.pasted(lines, "Paste the first")
        self.assertIn("--gpu rtx3060-12gb", again)
        self.type(again.replace("plan ", "plan -q "), 0)
        self.type(f"trainer plan {net} --gpu rtx3060-12gb,rtx4090", 0, "rtx4090 +yes")
        self.type(f"trainer plan {net} --gpu rtx3061-12gb", 2, "did you mean 'rtx3060-12gb'")


class FastaiUser(Tour):
    """Words of other programs lead to the ones here."""

    def test_their_words(self):
        quick = "configs/quickstart.yaml"
        self.type(f"trainer train {quick}", 2, "trainer run")
        self.type(f"trainer run {quick} --batch-size 32", 2, "train.batch_size=32")
        self.type(f"trainer run {quick} --train.batch_size=32", 2, "train.batch_size=32")
        self.type(f"trainer run {quick} optimizer.max_lr=0.1", 2, r"did you mean 'optimizer.lr'")
        self.type(f"trainer run {quick} train.accumulate_grad_batches=2", 2, "accumulation_steps")
        self.type(f"trainer fit {quick} --capacity 5MiB", 0, "Paste the fastest")
        self.type(f"trainer run {quick} schedule=one_cycle train.epochs=2", 0, "Done after")
        self.type(f"trainer run {quick} schedule=one_cycle train.epochs=2 --resume", 0, "Done after|nothing")


class ShellScripter(Tour):
    """Exit codes and JSON decide what comes next."""

    def test_a_script(self):
        quick = "configs/quickstart.yaml"
        self.type(f"for batch in 512 256 128 64; do trainer plan {quick} -q --capacity 8MiB train.batch_size=$batch "
                  "&& echo largest $batch && break; done", 0, "largest 128")
        self.type(f"trainer fit {quick} --capacity 8MiB --max train.batch_size --json > fit.json", 0)
        fit = json.loads((self.folder / "fit.json").read_text())
        largest = fit["maximum"]["value"]
        self.assertTrue(64 <= largest < 256)
        self.type(f"trainer plan {quick} -q --capacity 8MiB train.batch_size={largest}", 0)
        self.type(f"trainer plan {quick} -q --capacity 8MiB train.batch_size={largest + 1}", 4)
        self.type(f"trainer run {quick} train.steps=3 --json > events.jsonl", 0)
        events = [json.loads(line)["event"] for line in (self.folder / "events.jsonl").read_text().splitlines()]
        self.assertEqual((events[0], events[-1]), ("start", "end"))
        self.type(f"trainer check {quick} train.batch_size=x --json | python3 -m json.tool > /dev/null", 0)
        self.type(f"trainer plan {quick} train.batch_size=16,32", 2, "several values are a sweep")
        self.type(f"trainer sweep {quick} train.batch_size=16,32 --plan-only", 0, "fits")


class Researcher(Tour):
    """A table of their own."""

    def test_their_table(self):
        with open(self.folder / "mine.csv", "w") as file:
            file.write("weight,height,species\n")
            for row in range(240):
                file.write(f"{1 + row % 7 * 0.5 + row % 3},{2.5 - row % 3 + row % 5 * 0.1},{'abc'[row % 3]}\n")
        self.type("trainer init csv > mine.yaml", 0)
        self.assertTrue((self.folder / "mine.yaml").stat().st_size > 0)
        (self.folder / "own.yaml").write_text(
            "data: {type: csv, train: mine.csv, target: species, split: 0.2}\n"
            "model: {layers: [{linear: {out: 16}}, relu, {linear: {out: 3}}]}\ntrain: {batch_size: 16, epochs: 20}\n")
        self.type("trainer check own.yaml", 0, "own.yaml is valid")
        lines = self.type("trainer run own.yaml", 0, "Done after", "accuracy")
        self.assertIn("features standardised: weight, height; classes: a, b, c", "\n".join(lines))
        state = json.loads(next((self.folder / "runs/own/checkpoints").glob("step-*/state.json")).read_text())
        self.assertEqual(state["data"]["preprocessing"]["classes"], ["a", "b", "c"])
        self.type("trainer run own.yaml --weights runs/own output=runs/again train.epochs=1", 0, "Done after")
        self.type("trainer run own.yaml --weights nowhere output=runs/none", 6, "nowhere", absent=["after 0 steps"])
        self.type("trainer run own.yaml data.target=kind", 2, "is not a column")


class Photographer(Tour):
    """Folders of their own images, as the README says."""

    def test_their_images(self):
        (self.folder / "photos").symlink_to(REPOSITORY / "tests/datasets/digit_images/images")
        self.type("trainer init images mine.yaml", 0, "Wrote mine.yaml")
        mine = "mine.yaml data.root=photos data.classes=10"
        self.type(f"trainer data {mine}", 0, "training    240 samples, each u8 224×224×3", r"normalize: {mean: \[",
                  "mine-data.png: 32 training samples")
        self.assertEqual((self.folder / "mine-data.png").read_bytes()[:4], b"\x89PNG")
        self.type(f"trainer check {mine}", 0, "mine.yaml is valid", "240 samples for training and 60 for validation")
        small = "data.transforms.train='[flip]' data.transforms.validation=null model.with.stem=cifar train.epochs=1"
        self.type(f"trainer run {mine} {small}", 0, "Done after 8 steps", "image readers")
        self.type(f"trainer check {mine} data.class_names='[0, 1, cat]'", 2, "'cat', which is no folder")
        self.type("trainer check mine.yaml data.root=nowhere data.classes=10", 6, "nowhere")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[1:]])
