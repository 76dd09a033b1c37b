"""A process that stays and answers: one JSON object a line to its stdin, one a line back. Both of its sides.

Answers come through a pipe of their own, so that what libraries print on stdout goes to its log. It dies with the process
that started it, and whoever waits too long for an answer ends it together with all that it started.
"""
import json
import os
import pathlib
import selectors
import subprocess
import sys
import time
import traceback

from child_process import end_group, start

ANSWERS_VARIABLE = "BENCH_PEER_ANSWERS"  # the number of the pipe that the process answers through


class PeerLost(Exception):
    """The process is gone: it ended, or was ended for lack of an answer or because it could give no more."""


class Refused(Exception):
    """The process answered that it could not."""


class Broken(Exception):
    """Raised by an answer: it and all behind it fail in this process, and another may do better."""


class Peer:
    """One such process, seen from the one that asks. Started by the first question, and anew by the first after it was
    lost; `generation` counts how often it was."""

    def __init__(self, command, log, environment=None):
        self.command, self.log, self.environment = command, pathlib.Path(log), environment or {}
        self.process, self.answers, self.generation, self.pending = None, None, 0, b""

    def ask(self, request, seconds):
        """The answer. Refused with the reason the process gives, PeerLost where it gives none in time."""
        if self.process is None:
            self._start()
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
            line = self._line(time.monotonic() + seconds)
        except OSError:
            line = b""
        except BaseException:
            self.end()
            raise
        if line is None:
            self.end()
            raise PeerLost(f"no answer within {seconds:.0f} s")
        if not line:
            code = self.end()
            raise PeerLost(f"ended with {code}: {self._last_words()}")
        answer = json.loads(line)
        if answer.pop("ok"):
            return answer
        if answer["broken"]:
            self.end()
            raise PeerLost(answer["error"])
        raise Refused(answer["error"])

    def end(self):
        """Its exit status, or minus the signal that ended it."""
        if self.process is None:
            return None
        for stream in (self.process.stdin, self.answers):
            try:
                stream.close()
            except OSError:  # what was still to be written to a process that is gone
                pass
        try:
            self.process.wait(0.2)
        except subprocess.TimeoutExpired:
            pass
        end_group(self.process)
        code, self.process = self.process.returncode, None
        self.generation += 1
        return code

    def _start(self):
        reading, writing = os.pipe()
        self.answers = os.fdopen(reading, "rb", buffering=0)
        try:
            with self.log.open("ab") as log:
                self.process = start(self.command, stdin=subprocess.PIPE, stdout=log, stderr=log, pass_fds=[writing],
                                     env={**os.environ, **self.environment, ANSWERS_VARIABLE: str(writing)})
        finally:
            os.close(writing)
        self.pending = b""

    def _line(self, deadline):
        """b"" at the end of the stream, None at the deadline."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.answers, selectors.EVENT_READ)
            while b"\n" not in self.pending:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    return None
                chunk = self.answers.read(1 << 16)
                if not chunk:
                    return b""
                self.pending += chunk
        line, self.pending = self.pending.split(b"\n", 1)
        return line

    def _last_words(self):
        return "\n".join(self.log.read_text(errors="replace").strip().splitlines()[-4:])


def serve(answer):
    """The process's own side: answers each line with answer(request), a dict, until there are no more. What it raises
    is told to the one who asked, and in full in the log."""
    channel = os.fdopen(int(os.environ.pop(ANSWERS_VARIABLE)), "w", encoding="utf-8")
    os.set_inheritable(channel.fileno(), False)  # its end must be seen although what it started lives on
    for line in sys.stdin:
        try:
            reply = {"ok": True, **answer(json.loads(line))}
        except Exception as error:  # whatever it is, the next question may be answered
            traceback.print_exc()
            reply = {"ok": False, "broken": isinstance(error, Broken), "error": f"{type(error).__name__}: {error}"[:2000]}
        channel.write(json.dumps(reply) + "\n")
        channel.flush()


def with_trouble(answer):
    """For rehearsals: the modes "fails" and "hangs" do so, the others are answered."""
    def troubled(request):
        if request.get("mode") == "fails":
            raise RuntimeError("fails, as it was asked to")
        if request.get("mode") == "hangs":
            time.sleep(1e6)
        return answer(request)
    return troubled
