"""Processes whose output is passed on while they run, each within its time."""
import os
import pathlib
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass

from child_process import kill_group

LARGEST_OUTPUT = 12 << 20  # of one process; one that says more is ended


@dataclass
class Finished:
    """What became of a process. ended: "itself", "late" or "talkative"; code is None but for the first."""
    code: int
    stdout: str
    stderr: str
    seconds: float
    ended: str = "itself"

    @property
    def output(self):
        return self.stdout + self.stderr

    def how(self):
        """Why it is not a success, in words."""
        return {"itself": f"ended with {self.code}", "late": f"no end within {self.seconds:.0f} s",
                "talkative": f"said more than {LARGEST_OUTPUT >> 20} MiB"}[self.ended]


class Processes:
    """Those that run now. What they say is passed on to `log` (bytes) while they run."""

    def __init__(self, log):
        self._log, self._groups, self._lock = log, set(), threading.Lock()

    def run(self, command, seconds, cwd, environment):
        """Waits for the end, at most `seconds`. Raises OSError where there is no such program."""
        command = [str(word) for word in command]
        self._log(f"\n$ {' '.join(command)}\n".encode())
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            names = [pathlib.Path(folder) / name for name in ("stdout", "stderr")]
            with open(names[0], "wb") as out, open(names[1], "wb") as err:
                process = subprocess.Popen(command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=out,
                                           stderr=err, start_new_session=True)
            with self._lock:
                self._groups.add(process.pid)
            try:
                ended = self._wait(process, names, begin + seconds)
            finally:
                # The group also where its leader has ended: nothing of it is left beside the next process.
                kill_group(process.pid)
                with self._lock:
                    self._groups.discard(process.pid)
            code = self._reap(process) if ended == "itself" else None
            if ended != "itself":
                self._reap(process)
            texts = [name.read_bytes()[:LARGEST_OUTPUT].decode(errors="replace") for name in names]
        result = Finished(code, *texts, round(time.monotonic() - begin, 2), ended)
        self._log(f"[{result.how()}, {result.seconds:.1f} s]\n".encode())
        return result

    def _wait(self, process, names, end):
        passed_on = [0, 0]
        pause = 0.002
        while True:
            # Left unreaped, so that its number stays its own until the group is killed.
            over = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            for i, name in enumerate(names):
                with open(name, "rb") as file:
                    file.seek(passed_on[i])
                    text = file.read(LARGEST_OUTPUT)
                passed_on[i] += len(text)
                if text:
                    self._log(text)
            if over:
                return "itself"
            if sum(passed_on) > LARGEST_OUTPUT:
                return "talkative"
            if time.monotonic() >= end:
                return "late"
            time.sleep(min(pause, max(0.0, end - time.monotonic())))
            pause = min(1.5 * pause, 0.1)

    @staticmethod
    def _reap(process):
        try:
            return process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return None  # one that the system cannot end, in a driver's call: left behind

    def kill_all(self):
        with self._lock:
            for group in self._groups:
                kill_group(group)
