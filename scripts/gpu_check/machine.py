"""What is checked, and with what: the built tree, the device, the time that is left, and how a process is started."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

from child_process import Failed, run_process

ROOT = pathlib.Path(__file__).resolve().parents[2]
MIB = 1 << 20
# What the driver counts for a process or a device moves by itself; two counts that are this near are the same.
# Allocated and reserved bytes are trainer's own: of them every byte counts.
DRIVER_NOISE_MIB = 64


class Skipped(Exception):
    """Why a part cannot be done here."""


class OutOfTime(Exception):
    """The part's time is over."""


def find_tree(build):
    """(trainer, folder of the test programs) of a build tree or an installed one; None where there is none."""
    if build:
        trees = [build]
    else:
        # One that trains on a GPU first, then the newest.
        trees = sorted((path.parent for path in (ROOT / "build").glob("*/trainer")), reverse=True,
                       key=lambda tree: ((tree / "libtrainer_cuda.so").exists(), (tree / "trainer").stat().st_mtime))
        trees.append(ROOT)
    for tree in map(pathlib.Path, trees):
        for trainer in (tree / "trainer", tree / "bin" / "trainer"):
            if os.access(trainer, os.X_OK) and trainer.is_file():
                folders = [folder for folder in (tree / "tests", tree / "bin", tree / "libexec" / "trainer" / "tests")
                           if any(folder.glob("test_*"))]
                return trainer.resolve(), folders[0].resolve() if folders else None
    return None, None


def ask(*command, seconds=20):
    """stdout of a program that may not be there, nor answer."""
    try:
        return run_process(command, seconds, ROOT).strip()
    except (OSError, subprocess.SubprocessError, Failed):
        return ""


def query_gpu():
    fields = ("name", "driver_version", "memory.total", "memory.used", "clocks.sm", "clocks.mem", "clocks.max.sm",
              "clocks.max.mem", "power.limit", "compute_cap", "pstate")
    answer = ask("nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits", "-i", "0")
    values = [value.strip() for value in answer.splitlines()[0].split(",")] if answer else []
    return dict(zip(fields, values)) if len(values) == len(fields) else {}


def used_mib():
    answer = ask("nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", "0")
    first = answer.splitlines()[0].strip() if answer else ""
    return int(first) if first.isdigit() else None


class Machine:
    """rehearse: None, "short" or "long", with the CPU in the GPU's place. previous: what the plan `runs` found."""

    def __init__(self, build, rehearse, output, processes, previous=None):
        self.rehearse, self.output, self._processes, self.previous = rehearse, output, processes, previous
        self.trainer, self.tests = find_tree(build)
        self.device = "cpu" if rehearse else "cuda"
        self.gpu = {} if rehearse else query_gpu()
        self.deadline = float("inf")
        self.library_path = ask(ROOT / "scripts" / "with_libraries.sh", "--print", self.trainer) if self.trainer else ""
        self._scratch = tempfile.TemporaryDirectory(prefix="gpu_check_")
        self.scratch = pathlib.Path(self._scratch.name)
        self._doctor = None

    def close(self):
        self._scratch.cleanup()

    def left(self):
        return self.deadline - time.monotonic()

    def pick(self, short, long, real):
        """A number or a list for each way to run."""
        return {"short": short, "long": long, None: real}[self.rehearse]

    @property
    def module(self):
        return self.trainer.parent / "libtrainer_cuda.so"

    def environment(self, own, more):
        """Of a process; what is None in `more` is unset. The library path is for `own` programs alone: PyTorch loads the libraries it came with."""
        environment = {**os.environ, "TRAINER_SOURCE_DIR": str(ROOT), **more}
        environment = {name: value for name, value in environment.items() if value is not None}
        if self.rehearse:  # beside other tests: threads that wait must not take the cores of those that work
            environment.setdefault("OMP_WAIT_POLICY", "passive")
        if own:
            paths = [self.library_path, os.environ.get("LD_LIBRARY_PATH")]
            environment["LD_LIBRARY_PATH"] = ":".join(path for path in paths if path)
            if self.module.exists():
                environment["TRAINER_CUDA_MODULE"] = str(self.module)
        return environment

    def run(self, *command, seconds=float("inf"), own=True, cwd=ROOT, **environment):
        """The finished process; OutOfTime where no time is left to start it."""
        if self.left() <= 0:
            raise OutOfTime
        return self._processes.run(command, min(seconds, self.left()), cwd, self.environment(own, environment))

    def events(self, *words, expect=0, seconds=float("inf"), **environment):
        """What a command of trainer says with --json. OutOfTime where the part's time ends it, RuntimeError where it
        ends otherwise than expected."""
        result = self.run(self.trainer, *words, "--json", seconds=seconds, **environment)
        if result.ended == "late" and self.left() <= 0:
            raise OutOfTime
        if result.code != expect:
            raise RuntimeError(f"trainer {' '.join(map(str, words))} {result.how()}, not {expect}: "
                               + " / ".join(result.stderr.strip().splitlines()[-3:]))
        return [json.loads(line) for line in result.stdout.splitlines()]

    def doctor(self):
        if self._doctor is None:
            self._doctor = self.events("doctor", seconds=60)[0]
        return self._doctor

    def checked_device(self):
        """What doctor says of the device that is checked."""
        for device in self.doctor()["devices"]:
            if device["kind"] == self.device:
                return device
        raise RuntimeError(f"trainer doctor names no device {self.device}: "
                           + str((self.doctor().get("cuda") or {}).get("problem", "")))

    def require_device(self):
        if not self.rehearse and not self.gpu:
            raise Skipped("no GPU: nvidia-smi finds none")
        if not self.trainer:
            raise Skipped("no built trainer: scripts/trainer builds one; --build DIR names another tree")

    def tool(self, name):
        """A program of the toolkit."""
        toolkit = os.environ.get("CUDA_HOME", "/usr/local/cuda")
        found = shutil.which(name) or shutil.which(name, path=f"{toolkit}/bin")
        if not found:
            raise Skipped(f"{name} is not installed")
        return found

    def test_program(self, name):
        program = self.tests / name if self.tests else None
        if not program or not program.exists():
            raise Skipped(f"the tree has no {name}")
        return program

    def folder(self, name):
        """A fresh folder of that name; its number in the name where there was one."""
        for number in range(10_000):
            path = self.scratch / (f"{name}-{number}" if number else name)
            try:
                path.mkdir(parents=True)
                return path
            except FileExistsError:
                continue
        raise RuntimeError(f"too many folders called {name}")
