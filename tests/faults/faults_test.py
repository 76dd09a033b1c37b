"""What a run leaves behind when one of its calls fails, or when it is killed: whatever it was, the exit code is one that
the documentation has, the last checkpoint is readable, and going on from it ends with the bits of a run that nothing
happened to. The same of two ranks that write checkpoints together, of which one fails or is killed at each of its calls.

Environment: TRAINER, the binary; FAILING_CALLS, the library of failing_calls.cpp; FAULTS_SEED, of the kills.
"""
import errno
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXIT_CODES = (0, 3, 6, 7)  # nothing is wrong with the configuration, and nobody interrupts
SETTINGS = ["configs/quickstart.yaml", "model.layers=[flatten, linear: {out: 10}]", "train.epochs=null", "train.steps=6",
            "train.eval_every=3", "checkpoint.every=2", "checkpoint.keep=2"]
NUM_KILLS = 100


class Faults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="trainer_faults_"))
        begin = time.monotonic()
        assert cls.run_trainer("whole").returncode == 0
        cls.seconds = time.monotonic() - begin
        cls.whole = cls.weights("whole")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @classmethod
    def start(cls, output, words=(), **environment):
        command = [os.environ["TRAINER"], "run", *SETTINGS, f"output={cls.folder / output}", "--quiet", *words]
        return subprocess.Popen(command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "2", **environment}, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    @classmethod
    def run_trainer(cls, output, words=(), **environment):
        process = cls.start(output, words, **environment)
        _, process.errors = process.communicate(timeout=60)
        return process

    @classmethod
    def run_failing(cls, output, kind, call, words=(), error=errno.ENOSPC):
        return cls.run_trainer(output, words, LD_PRELOAD=os.environ["FAILING_CALLS"], FAILING_KIND=kind,
                               FAILING_CALL=str(call), FAILING_ERROR=str(error),
                               FAILING_FOLDER=str(cls.folder / output), FAILING_COUNT=str(cls.folder / "count"))

    @classmethod
    def weights(cls, output):
        return (cls.folder / output / "checkpoints" / "latest" / "model.safetensors").read_bytes()

    def go_on(self, output):
        """From what a run left, to the end."""
        has_checkpoint = any((self.folder / output / "checkpoints").glob("step-*"))
        process = self.run_trainer(output, ["--resume" if has_checkpoint else "--overwrite"])
        self.assertEqual(process.returncode, 0, process.errors)
        self.assertEqual(self.weights(output), self.whole)
        self.assertEqual([path.name for path in (self.folder / output).rglob("*.tmp")], [])

    def check_every_call(self, kind, error=errno.ENOSPC, every=1):
        self.assertEqual(self.run_failing("counted", kind, 0, error=error).returncode, 0)
        num_calls = int((self.folder / "count").read_text())
        self.assertGreater(num_calls, 0)
        for call in range(1, num_calls + 1, every):
            with self.subTest(kind=kind, call=call, error=errno.errorcode[error]):
                process = self.run_failing("run", kind, call, error=error)
                self.assertIn(process.returncode, (0, 7) if kind == "threads" else EXIT_CODES, process.errors)
                if kind == "threads" and process.returncode == 7:
                    self.assertIn("threads; raise its limit (ulimit -u", process.errors)
                if process.returncode == 0:
                    self.assertEqual(self.weights("run"), self.whole)
                else:
                    self.go_on("run")
            shutil.rmtree(self.folder / "run", ignore_errors=True)
        shutil.rmtree(self.folder / "counted")

    def test_a_full_disk(self):
        self.check_every_call("files")

    def test_a_broken_disk(self):
        self.check_every_call("files", errno.EIO, every=7)

    def test_large_allocations(self):
        self.check_every_call("memory")

    def test_threads(self):
        self.check_every_call("threads")

    def test_threads_beside_one(self):
        """The readers' threads, where the device needs none."""
        for call, counts in ((1, "1 of 2"), (2, "2 of 3")):
            process = self.run_failing("one", "threads", call, ["device.threads=1", "train.eval_every=1"])
            self.assertEqual(process.returncode, 7, process.errors)
            self.assertIn(f"lets this process start {counts} threads; raise its limit (ulimit -u", process.errors)
            shutil.rmtree(self.folder / "one")

    def test_a_run_that_replaces_another(self):
        """Either of them is whole afterwards."""
        def begin():
            shutil.rmtree(self.folder / "run", ignore_errors=True)
            process = self.run_trainer("run", ["seed=7"])
            self.assertEqual(process.returncode, 0, process.errors)
            return self.weights("run")

        former = begin()
        self.assertEqual(self.run_failing("run", "files", 0, ["--overwrite"]).returncode, 0)
        num_calls = int((self.folder / "count").read_text())
        for call in range(1, num_calls + 1, 3):
            with self.subTest(call=call):
                begin()
                process = self.run_failing("run", "files", call, ["--overwrite"])
                self.assertIn(process.returncode, EXIT_CODES, process.errors)
                # Whatever stayed hidden comes back at the next start, which this one is refused.
                self.run_trainer("run")
                seeds = (("seed=7", former), ("seed=1", self.whole))
                went_on = [self.run_trainer("run", ["--resume", seed]).returncode for seed, _ in seeds]
                self.assertEqual(sorted(went_on), [0, 6], process.errors)
                self.assertEqual(self.weights("run"), seeds[went_on.index(0)][1])
        shutil.rmtree(self.folder / "run")

    def test_kills(self):
        seed = int(os.environ.get("FAULTS_SEED", time.time_ns() % 1_000_000))
        moments = random.Random(seed)
        for number in range(NUM_KILLS):
            with self.subTest(FAULTS_SEED=seed, kill=number):
                process = self.start("run")
                time.sleep(moments.random() * 1.1 * self.seconds)
                process.kill()
                process.communicate()
                self.go_on("run")
            shutil.rmtree(self.folder / "run", ignore_errors=True)


KILLED = 0
RANK_SETTINGS = [*SETTINGS, "model.layers=[flatten, linear: {out: 24}, relu, linear: {out: 10}]", "optimizer=adamw",
                 "checkpoint.sharded=true", "parallel={data: 2, bucket_size: 1, timeout: 8}", "device={type: cpu, threads: 1}"]
RANK_EXIT_CODES = (*EXIT_CODES, 75, -signal.SIGKILL)


class RankFaults(unittest.TestCase):
    """Two ranks, of one of which a call fails or is its last, while sums run beside what they compute."""
    shard = "none"
    every = 2

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="trainer_rank_faults_"))
        assert [code for code, _ in cls.run_ranks("whole")] == [0, 0]
        cls.whole = cls.tensors("whole")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @classmethod
    def run_ranks(cls, output, words=(), failing_rank=None, call=0, error=errno.ENOSPC, kind="files"):
        """Exit codes and what the ranks say."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        processes = []
        for rank in range(2):
            failing = {"LD_PRELOAD": os.environ["FAILING_CALLS"], "FAILING_KIND": kind, "FAILING_CALL": str(call),
                       "FAILING_ERROR": str(error), "FAILING_FOLDER": str(cls.folder / output),
                       "FAILING_COUNT": str(cls.folder / "count")}
            environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                           "MASTER_PORT": str(port), **(failing if rank == failing_rank else {})}
            command = [os.environ["TRAINER"], "run", *RANK_SETTINGS, f"parallel.shard={cls.shard}",
                       f"output={cls.folder / output}", "--quiet", *words]
            processes.append(subprocess.Popen(command, cwd=ROOT, env=environment, text=True, stdin=subprocess.DEVNULL,
                                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE))
        errors = [process.communicate(timeout=60)[1] for process in processes]
        return [(process.returncode, error) for process, error in zip(processes, errors)]

    @classmethod
    def tensors(cls, output):
        """By name, of the newest checkpoint, through its indexes or of whole files."""
        newest = cls.folder / output / "checkpoints" / "latest"
        found = {}
        for file in newest.glob("*.safetensors"):
            data = file.read_bytes()
            end = 8 + int.from_bytes(data[:8], "little")
            for name, tensor in json.loads(data[8:end]).items():
                if name == "__metadata__":
                    continue
                begin, stop = tensor["data_offsets"]
                assert name not in found
                found[name] = (tensor["dtype"], tensor["shape"], data[end + begin:end + stop])
        return found

    def go_on(self, output):
        steps = [path for path in (self.folder / output / "checkpoints").glob("step-*")]
        for code, error in self.run_ranks(output, ["--resume" if steps else "--overwrite"]):
            self.assertEqual(code, 0, error)
        self.assertEqual(self.tensors(output), self.whole)
        left = [path.name for path in (self.folder / output).rglob("*.tmp")] + \
               [path.name for path in (self.folder / output).glob(".seen*")]
        self.assertEqual(left, [])

    def check_every_call(self, rank, error, every=1, kind="files"):
        for code, said in self.run_ranks("counted", failing_rank=rank, error=error, kind=kind):
            self.assertEqual(code, 0, said)
        num_calls = int((self.folder / "count").read_text())
        self.assertGreater(num_calls, 0)
        told = 0
        for call in range(1, num_calls + 1, every):
            with self.subTest(shard=self.shard, kind=kind, rank=rank, call=call, error=error):
                ends = self.run_ranks("run", failing_rank=rank, call=call, error=error, kind=kind)
                for code, said in ends:
                    self.assertIn(code, RANK_EXIT_CODES, said)
                said = "".join(said for _, said in ends)
                told += f"rank {rank}: cannot write" in said and "-of-00002.safetensors" in said
                if [code for code, _ in ends] == [0, 0]:
                    self.assertEqual(self.tensors("run"), self.whole)
                else:
                    self.go_on("run")
            shutil.rmtree(self.folder / "run", ignore_errors=True)
        shutil.rmtree(self.folder / "counted")
        return told

    def test_a_full_disk_of_rank_0(self):
        self.assertGreater(self.check_every_call(0, errno.ENOSPC, every=3 * self.every), 0)

    def test_a_full_disk_of_rank_1(self):
        self.assertGreater(self.check_every_call(1, errno.ENOSPC, every=self.every), 0)

    def test_large_allocations_of_rank_1(self):
        self.check_every_call(1, errno.ENOMEM, every=2 * self.every, kind="memory")

    def test_threads_of_rank_1(self):
        self.check_every_call(1, errno.EAGAIN, every=1, kind="threads")

    def test_rank_0_killed(self):
        self.check_every_call(0, KILLED, every=3 * self.every)

    def test_rank_1_killed(self):
        self.check_every_call(1, KILLED, every=self.every)


class SharedRankFaults(RankFaults):
    shard = "parameters"
    every = 4


if __name__ == "__main__":
    unittest.main()
