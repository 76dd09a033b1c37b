"""`trainer top` on a terminal of its own: what a user sees of a run, by an emulator of terminals, and what is left behind."""

import fcntl
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "scripts"))
import interpreters

try:
    import pyte
except ImportError:
    interpreters.go_on_as_system()
    raise

TRAINER = pathlib.Path(os.environ["TRAINER"]).resolve()
LONGEST = 120  # seconds that anything that comes is waited for
ALTERNATE, USUAL = b"\x1b[?1049h", b"\x1b[?1049l"
COLOR = re.compile(rb"\x1b\[[0-9;]*3[0-7][0-9;]*m")
# A picture of each screen is written there, where it is given.
PICTURES = os.environ.get("TOP_PICTURES")


class XtermScreen(pyte.Screen):
    """With what curses uses of xterm and the emulator lacks: lines of a region that move up or down."""

    def scroll_up(self, count=1):
        self.at_top_of_region(self.delete_lines, count)

    def scroll_down(self, count=1):
        self.at_top_of_region(self.insert_lines, count)

    def at_top_of_region(self, act, count):
        column, row = self.cursor.x, self.cursor.y
        self.cursor.y = self.margins.top if self.margins else 0
        act(count)
        self.cursor.x, self.cursor.y = column, row


class XtermStream(pyte.ByteStream):
    csi = {**pyte.ByteStream.csi, "S": "scroll_up", "T": "scroll_down"}
    events = pyte.ByteStream.events | {"scroll_up", "scroll_down"}


class Terminal:
    """A program on a terminal of its own, and what stands on it."""

    def __init__(self, words, folder, columns=80, rows=24, **environment):
        self.screen = XtermScreen(columns, rows)
        self.stream = XtermStream(self.screen)
        self.bytes = b""
        self.master, self.slave = pty.openpty()
        self.set_size(columns, rows)
        self.before = termios.tcgetattr(self.slave)
        variables = {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **environment}
        for name in ("NO_COLOR", "COLUMNS", "LINES"):
            if name not in environment:
                variables.pop(name, None)
        self.pid = os.fork()
        if self.pid == 0:
            os.setsid()
            fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)
            for stream in range(3):
                os.dup2(self.slave, stream)
            os.closerange(3, 256)
            os.chdir(folder)
            os.execve(words[0], words, variables)
        self.status = None

    def set_size(self, columns, rows):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, columns, rows):
        self.screen.resize(rows, columns)
        self.set_size(columns, rows)  # the kernel sends SIGWINCH

    def take(self, seconds):
        """What the program writes in that time goes to the screen."""
        end = time.monotonic() + seconds
        while True:
            ready, _, _ = select.select([self.master], [], [], max(0, end - time.monotonic()))
            if not ready:
                return
            try:
                data = os.read(self.master, 65536)
            except OSError:
                return
            self.bytes += data
            self.stream.feed(data)

    def lines(self):
        return [line.rstrip() for line in self.screen.display]

    def text(self):
        return "\n".join(self.lines())

    def wait_for(self, what):
        """Until a function of the text is true, or a text stands on the screen."""
        holds = what if callable(what) else lambda text: what in text
        end = time.monotonic() + LONGEST
        while not holds(self.text()):
            if time.monotonic() > end or self.has_ended():
                raise AssertionError(f"it did not come to {what}:\n{self.text()}")
            self.take(0.1)
        return self.text()

    def type(self, keys):
        os.write(self.master, keys)

    def has_ended(self):
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = status
        return self.status is not None

    def wait_for_end(self):
        """The exit code, or -signal."""
        end = time.monotonic() + LONGEST
        while not self.has_ended():
            if time.monotonic() > end:
                raise AssertionError(f"it did not end:\n{self.text()}")
            self.take(0.05)
        self.take(0.2)
        return os.waitstatus_to_exitcode(self.status)

    def close(self):
        if not self.has_ended():
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.master)
        os.close(self.slave)


class Top(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="trainer-top-"))
        (self.folder / "configs").symlink_to(REPOSITORY / "configs")
        self.processes, self.terminals = [], []

    def tearDown(self):
        for terminal in self.terminals:
            terminal.close()
        for process in self.processes:
            process.kill()
            process.wait()
        shutil.rmtree(self.folder)

    def run_trainer(self, *words):
        """Begins a run that goes on for long, and waits for its first events."""
        process = subprocess.Popen([TRAINER, "run", "configs/quickstart.yaml", "train.epochs=100000", *words],
                                   cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.processes.append(process)
        output = next((word.split("=")[1] for word in words if word.startswith("output=")), "runs/quickstart")
        end = time.monotonic() + LONGEST
        while not (self.folder / output / "events.jsonl").exists() and time.monotonic() < end:
            time.sleep(0.05)
        return process

    def top(self, *words, columns=80, rows=24, **environment):
        terminal = Terminal([str(TRAINER), "top", *words], self.folder, columns, rows, **environment)
        self.terminals.append(terminal)
        return terminal

    def picture(self, name, terminal):
        if PICTURES:
            (pathlib.Path(PICTURES) / f"{name}.txt").write_text(terminal.text() + "\n", encoding="utf-8")

    def once(self, *words, **environment):
        variables = {**os.environ, "LC_ALL": "C.UTF-8", **environment}
        return subprocess.run([TRAINER, "top", "--once", *words], cwd=self.folder, env=variables, capture_output=True,
                              stdin=subprocess.DEVNULL, text=True, timeout=LONGEST)

    def step_of(self, text):
        found = re.search(r"step ([\d,]+)/2,300,000", text)
        return int(found.group(1).replace(",", "")) if found else 0

    def assert_restored(self, terminal):
        self.assertEqual(termios.tcgetattr(terminal.slave), terminal.before)
        self.assertGreaterEqual(terminal.bytes.count(ALTERNATE), 1)
        self.assertGreater(terminal.bytes.rfind(USUAL), terminal.bytes.rfind(ALTERNATE), "the usual screen is back")
        self.assertFalse(terminal.screen.cursor.hidden, "the cursor is to be seen again")

    def test_a_run_is_seen_as_it_goes_on(self):
        self.run_trainer()
        top = self.top("--every", "0.2")
        text = top.wait_for(lambda shown: self.step_of(shown) > 60 and "eval at step" in shown)
        for told in ("trainer top", "1 run, 1 running", "quickstart", "running", "eta", "elapsed", "loss ", "lr ",
                     "samples/s", "peak [", "activation", "optimizer_state", "allocated", "reserved", "used",
                     "loss to step", "process ", "accuracy"):
            self.assertIn(told, text)
        self.assertTrue(any(0x2800 < ord(letter) < 0x2900 for letter in text), "a curve of dots")
        self.picture("one-80x24", top)
        step = self.step_of(text)
        top.wait_for(lambda shown: self.step_of(shown) > step + 20)

    def test_keys_change_what_is_seen(self):
        self.run_trainer()
        self.run_trainer("output=runs/other", "seed=2")
        top = self.top("--every", "0.2")
        top.wait_for(lambda shown: "2 runs, 2 running" in shown and "loss to step" in shown)
        self.picture("two-80x24", top)

        def chosen():
            """The row of the list that is drawn in reverse."""
            for row in range(top.screen.lines):
                if top.screen.buffer[row][0].reverse:
                    return top.lines()[row].split()[0]
            return ""

        top.wait_for(lambda _: chosen() in ("quickstart", "other"))
        first = chosen()
        second = "other" if first == "quickstart" else "quickstart"
        for key, expected in ((b"j", second), (b"k", first), (b"\x1b[B", second), (b"\x1b[A", first),
                              (b"\x1bOB", second), (b"G", second), (b"g", first), (b"j", second)):
            top.type(key)
            top.wait_for(lambda _, name=expected: chosen() == name)
        top.wait_for(f"runs/{second}")
        top.type(b"\r")
        top.wait_for(lambda shown: "status" not in shown and f"runs/{second}" in shown)
        top.type(b"\t")
        top.wait_for("status")
        top.type(b"l")
        top.wait_for("logarithmic")
        top.type(b"l")
        top.wait_for(lambda shown: "logarithmic" not in shown)
        top.type(b"m")
        self.assertIn("█", top.wait_for("most that was allocated in steps"))
        self.picture("memory-80x24", top)
        top.type(b"m")
        top.wait_for("loss to step")
        top.type(b"?")
        top.wait_for("logarithmic scale")
        self.picture("help-80x24", top)
        top.type("ü\x00€".encode() + b"\x1b[200~junk\x1b[99;99R")  # what is no key of it changes nothing
        top.type(b"?q")
        self.assertEqual(top.wait_for_end(), 0)
        self.assert_restored(top)

    def test_it_follows_the_size_of_its_terminal(self):
        self.run_trainer()
        top = self.top("--every", "0.2")
        top.wait_for("loss to step")
        top.resize(120, 40)
        top.wait_for(lambda shown: "loss to step" in top.lines()[-2] + top.lines()[-3] + top.lines()[-4] and
                     len(top.lines()[0]) == 120)
        self.picture("one-120x40", top)
        top.resize(30, 8)
        top.wait_for("too small: 30 x 8")
        top.resize(80, 24)
        top.wait_for(lambda shown: "loss to step" in shown and len(top.lines()[0]) == 80)

    def test_the_terminal_is_left_as_it_was_however_it_ends(self):
        self.run_trainer()
        for end, expected in ((b"q", 0), (b"\x03", 0), (b"\x1c", -signal.SIGQUIT), (signal.SIGINT, 0),
                              (signal.SIGTERM, -signal.SIGTERM), (signal.SIGHUP, -signal.SIGHUP)):
            with self.subTest(end=end):
                top = self.top("--every", "0.2")
                top.wait_for("loss to step")
                self.assertNotEqual(termios.tcgetattr(top.slave), top.before)
                if isinstance(end, bytes):
                    top.type(end)
                else:
                    os.kill(top.pid, end)
                self.assertEqual(top.wait_for_end(), expected)
                self.assert_restored(top)

    def test_a_terminal_that_goes_away_ends_it(self):
        self.run_trainer()
        top = self.top("--every", "0.2")
        top.wait_for("loss to step")
        self.terminals.remove(top)
        os.close(top.slave)
        os.close(top.master)
        end = time.monotonic() + LONGEST
        while not top.has_ended() and time.monotonic() < end:
            time.sleep(0.05)
        self.assertTrue(top.has_ended())

    def test_a_run_that_is_killed_is_told_and_others_go_on(self):
        killed = self.run_trainer()
        self.run_trainer("output=runs/other")
        top = self.top("--every", "0.2")
        top.wait_for("2 runs, 2 running")
        killed.kill()
        killed.wait()
        top.wait_for("2 runs, 1 running")
        self.assertRegex(top.text(), r"(?m)^quickstart +killed")
        self.assertRegex(top.text(), r"(?m)^other +running")
        self.assertFalse(top.has_ended())
        (self.folder / "runs/bad").mkdir()
        (self.folder / "runs/bad/events.jsonl").write_text("\x1b[2Jnonsense\n", encoding="utf-8")
        top.wait_for(lambda text: re.search(r"(?m)^bad +damaged", text))
        top.type(b"q")
        self.assertEqual(top.wait_for_end(), 0)
        self.assert_restored(top)

    def test_runs_appear_by_themselves(self):
        top = self.top("--every", "0.2")
        top.wait_for("no runs below runs yet")
        self.run_trainer()
        top.wait_for("1 run, 1 running")

    def test_ctrl_z_gives_the_terminal_to_the_shell_and_fg_brings_it_back(self):
        self.run_trainer()
        shell = Terminal(["/bin/bash", "--norc", "-c",
                          f"set -m; {TRAINER} top --every 0.2; stty -a | tr '\\n' ' '; echo; echo it stopped; read; fg;"
                          " echo it came back"], self.folder)
        self.terminals.append(shell)
        shell.wait_for("loss to step")
        shell.type(b"\x1a")
        shell.wait_for("it stopped")
        self.assertIn(b" icanon", shell.bytes)
        self.assertNotIn(b"-icanon", shell.bytes)
        self.assertGreater(shell.bytes.rfind(USUAL), shell.bytes.rfind(ALTERNATE))
        shell.type(b"\n")
        shell.wait_for(lambda _: shell.bytes.rfind(ALTERNATE) > shell.bytes.rfind(USUAL))
        shell.screen.reset()
        shell.type(b"?")
        shell.wait_for("logarithmic scale")
        shell.type(b"q")
        shell.wait_for_end()
        self.assertIn(b"it came back", shell.bytes)
        self.assert_restored(shell)

    def test_colours_are_left_out_where_they_are_not_wanted(self):
        self.run_trainer()
        top = self.top()
        top.wait_for("loss to step")
        self.assertRegex(top.bytes, COLOR)
        for environment in ({"NO_COLOR": "1"}, {"TERM": "vt100"}):
            plain = self.top(**environment)
            plain.wait_for("loss to step")
            self.assertNotRegex(plain.bytes, COLOR)

    def test_terminals_of_other_kinds_are_drawn_on(self):
        self.run_trainer()
        for term in ("xterm", "screen", "linux", "tmux-256color"):
            with self.subTest(term=term):
                top = self.top(TERM=term)
                top.wait_for("loss to step")
                top.type(b"q")
                self.assertEqual(top.wait_for_end(), 0)
                self.assertEqual(termios.tcgetattr(top.slave), top.before)

    def test_a_terminal_without_unicode_gets_ascii(self):
        self.run_trainer()
        top = self.top(LC_ALL="C")
        top.wait_for("loss to step")
        self.assertEqual([byte for byte in top.bytes if byte > 0x7E], [])
        self.assertIn("|", top.text())

    def test_what_is_no_terminal_is_refused_with_what_to_do(self):
        (self.folder / "runs").mkdir()
        done = subprocess.run([TRAINER, "top"], cwd=self.folder, capture_output=True, text=True, timeout=LONGEST,
                              stdin=subprocess.DEVNULL)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("stdout is no terminal; '--once' prints", done.stderr)
        for environment, told in (({"TERM": "dumb"}, "of the kind 'dumb'"), ({"TERM": "no-such"}, "'no-such'"),
                                  ({"TERM": ""}, "TERM does not name")):
            top = self.top(**environment)
            self.assertEqual(top.wait_for_end(), 2)
            self.assertIn(told, top.text().replace("\n", " "))
            self.assertEqual(termios.tcgetattr(top.slave), top.before)

    def test_once_prints_a_frame_for_scripts(self):
        self.assertIn("no runs below runs yet", self.once().stdout)
        subprocess.run([TRAINER, "run", "configs/quickstart.yaml", "train.epochs=2"], cwd=self.folder, check=True,
                       stdout=subprocess.DEVNULL)
        done = self.once("runs/quickstart", COLUMNS="72", LINES="30")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("step 46/46", done.stdout)
        self.assertIn("done", done.stdout)
        self.assertNotIn("\x1b", done.stdout)
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 72)
        self.assertLessEqual(len(done.stdout.splitlines()), 30)
        missing = self.once("runs/none")
        self.assertEqual(missing.returncode, 6)
        self.assertIn("'runs/none' is not there", missing.stderr)


if __name__ == "__main__":
    unittest.main()
