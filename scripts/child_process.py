"""Processes that do not outlive whoever started them, nor their time: each in a session of its own, which is killed whole."""
import ctypes
import os
import signal
import subprocess

LIBC = ctypes.CDLL(None)


class Failed(Exception):
    """A process that gave no result; the text is the end of what it said."""


def die_with_parent():
    """In a child before it becomes the program: its group is its own, so whoever kills ours would not reach it."""
    pr_set_pdeathsig = 1
    LIBC.prctl(pr_set_pdeathsig, signal.SIGKILL)


def start(command, **options):
    """Ends with the thread that calls this."""
    return subprocess.Popen([str(word) for word in command], start_new_session=True, preexec_fn=die_with_parent,
                            **options)


def kill_group(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def end_group(process):
    kill_group(process.pid)
    process.wait()


def outcome_of(command, seconds, folder, environment=None):
    """What a command ends with, its stdout and its stderr; `environment` has more variables. Failed where it does not end in
    time, and then nothing that it started is left."""
    with start(command, cwd=folder, env={**os.environ, **(environment or {})}, stdin=subprocess.DEVNULL,
               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace") as process:
        try:
            output, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            end_group(process)
            raise Failed(f"no end within {seconds:.0f} s: {' '.join(map(str, command))}") from None
        except BaseException:
            end_group(process)
            raise
    return process.returncode, output, errors


def run_process(command, seconds, folder, environment=None):
    """stdout of a command that ends well and in time. Failed otherwise, likewise."""
    exit_code, output, errors = outcome_of(command, seconds, folder, environment)
    if exit_code != 0:
        raise Failed(f"ended with {exit_code}: " + "\n".join((errors or output).strip().splitlines()[-4:]))
    return output
