"""Ranks that mpirun starts: MPI carries their bytes, and they train as those that trainer starts, bit for bit; a rank that
is killed leaves a whole checkpoint, from which another number of ranks goes on.

Environment: TRAINER, the binary. Needs Open MPI's mpirun; without it it is skipped (77).
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TRAINER = str(pathlib.Path(os.environ["TRAINER"]).resolve())
SKIPPED = 77
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
CONFIG = """
name: ranks
device: {type: cpu, threads: 1}
data: {type: digits}
model: {layers: [flatten, {linear: {out: 300}}, relu, {dropout: {p: 0.1}}, {linear: {out: 10}}]}
optimizer: {type: adamw, lr: 1e-3}
parallel: {bucket_size: 1}
train: {batch_size: 50, epochs: null, steps: 40}
"""


def events_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def losses_of(events):
    return [event["loss"] for event in events if event["event"] == "step"]


class Mpirun(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="trainer-mpirun-"))
        (cls.folder / "ranks.yaml").write_text(CONFIG, encoding="utf-8")
        # A path of a socket, which mpirun has in it, is short.
        cls.environment = {**os.environ, "TMPDIR": "/tmp"}

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def run_command(self, words, exit_code=0, **environment):
        done = subprocess.run(words, cwd=self.folder, env={**self.environment, **environment}, text=True,
                              capture_output=True, timeout=60)
        self.assertEqual(done.returncode, exit_code, done.stderr)
        return done

    def run_mpi(self, num_ranks, output, *words, **options):
        return self.run_command([*MPIRUN, "-np", str(num_ranks), TRAINER, "run", "ranks.yaml", f"output={output}", *words],
                                **options)

    def told_of(self, output, rank=0):
        return events_of(self.folder / output / (f"ranks/{rank}" if rank else "") / "events.jsonl")

    def test_losses_are_those_of_ranks_that_trainer_starts(self):
        for num_ranks, shard in ((2, "none"), (4, "optimizer"), (2, "gradients"), (4, "parameters")):
            with self.subTest(ranks=num_ranks, shard=shard):
                words = ["-q", f"parallel.shard={shard}"]
                done = self.run_mpi(num_ranks, f"mpi-{shard}", *words)
                self.assertEqual((done.stdout, done.stderr), ("", ""))
                self.run_command([TRAINER, "run", "ranks.yaml", f"output=own-{shard}", "--ranks", str(num_ranks), *words])
                own = self.told_of(f"own-{shard}")
                self.assertEqual(own[0]["transport"], "tcp")
                for rank in range(num_ranks):
                    told = self.told_of(f"mpi-{shard}", rank)
                    self.assertEqual(told[0]["transport"], "mpi")
                    self.assertEqual(losses_of(told), losses_of(own))
                    self.assertEqual(told[-1]["status"], "done")

    def test_a_key_says_what_carries_bytes_and_a_missing_library_is_told(self):
        done = self.run_mpi(2, "tcp", "parallel.transport=tcp", "train.steps=2")
        self.assertIn("2 ranks share each batch, over TCP;", done.stdout)
        nowhere = {"TRAINER_MPI": "/nowhere/libmpi.so.40"}
        self.run_mpi(2, "none", "-q", "train.steps=2", **nowhere)
        self.assertEqual(self.told_of("none")[0]["transport"], "tcp")
        done = self.run_mpi(2, "refused", "parallel.transport=mpi", exit_code=7, **nowhere)
        self.assertIn("MPI is not found (/nowhere/libmpi.so.40:", done.stderr)
        self.assertIn("Debian's package openmpi-bin", done.stderr)
        done = self.run_command([TRAINER, "run", "ranks.yaml", "--ranks", "2", "parallel.transport=mpi", "output=refused"],
                                exit_code=7)
        self.assertIn("`mpirun -np 2 trainer run`, and these are started by trainer run --ranks", done.stderr)
        self.assertIn("Open MPI", json.loads(self.run_command([TRAINER, "doctor", "--json"]).stdout)["libraries"])

    def start_long(self, output, *of_mpirun):
        """Four ranks that would train for long, which leave their exit codes in files, and the ranks' processes once some
        checkpoints are written."""
        process = subprocess.Popen(
            [*MPIRUN, *of_mpirun, "-np", "4", "sh", "-c", f'"$@"; code=$?; echo $code >{output}-code$OMPI_COMM_WORLD_RANK; exit $code', "sh", TRAINER,
             "run", "ranks.yaml", "-q", f"output={output}", "train.steps=100000", "checkpoint.every=10"],
            cwd=self.folder, env=self.environment, text=True, stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        events = self.folder / output / "events.jsonl"
        deadline = time.monotonic() + 30
        while not (events.exists() and '"step":40,' in events.read_text(encoding="utf-8")):
            self.assertLess(time.monotonic(), deadline)
            self.assertIsNone(process.poll())
            time.sleep(0.05)
        ranks = {}
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                variables = dict(line.split("=", 1) for line in (folder / "environ").read_text().split("\0") if "=" in line)
                if os.readlink(folder / "exe") == TRAINER and (folder / "cwd").resolve() == self.folder.resolve():
                    ranks[int(variables["OMPI_COMM_WORLD_RANK"])] = int(folder.name)
            except (OSError, KeyError):  # it has ended, or is none
                pass
        self.assertEqual(sorted(ranks), [0, 1, 2, 3])
        return process, ranks

    def codes_of(self, output):
        """By rank; of one that has left none, none."""
        files = {rank: self.folder / f"{output}-code{rank}" for rank in range(4)}
        return {rank: int(file.read_text()) for rank, file in files.items() if file.exists()}

    def goes_on(self, output):
        num_steps = len(losses_of(self.told_of(output))) // 10 * 10 + 30
        words = ["run", "ranks.yaml", "-q", f"train.steps={num_steps}", "checkpoint.every=10"]
        self.run_command([*MPIRUN, "-np", "2", TRAINER, *words, f"output={output}", "--resume"])
        self.run_command([TRAINER, *words, f"output={output}-whole"])
        losses, whole = losses_of(self.told_of(output)), losses_of(self.told_of(f"{output}-whole"))
        self.assertEqual(len(losses), num_steps)
        for one, other in zip(losses, whole):
            self.assertAlmostEqual(one, other, delta=1e-4 * max(1, other))

    def test_a_killed_rank_ends_all_and_the_run_goes_on_from_its_checkpoint_with_another_number(self):
        process, ranks = self.start_long("killed")
        begin = time.monotonic()
        os.kill(ranks[2], signal.SIGKILL)
        _, errors = process.communicate(timeout=30)
        self.assertLess(time.monotonic() - begin, 10)
        self.assertNotEqual(process.returncode, 0, errors)
        self.goes_on("killed")

    def test_where_mpirun_leaves_the_others_alone_they_end_with_75(self):
        process, ranks = self.start_long("left", "--enable-recovery")
        begin = time.monotonic()
        os.kill(ranks[3], signal.SIGKILL)
        _, errors = process.communicate(timeout=30)
        self.assertLess(time.monotonic() - begin, 10)
        self.assertIn("error: rank 3 was killed, or its machine is gone\n", errors)
        self.assertEqual(self.codes_of("left"), {0: 75, 1: 75, 2: 75, 3: 128 + signal.SIGKILL})

    def test_a_signal_to_a_rank_ends_all_behind_the_step_with_a_checkpoint(self):
        process, ranks = self.start_long("signal")
        os.kill(ranks[1], signal.SIGTERM)
        _, errors = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 75, errors)
        for rank in range(4):
            self.assertEqual(self.told_of("signal", rank)[-1]["status"], "interrupted")
        self.goes_on("signal")


if __name__ == "__main__":
    if shutil.which("mpirun") is None:
        print("skipped: mpirun is not installed; scripts/setup.sh's TEST_PACKAGES have it", file=sys.stderr)
        sys.exit(SKIPPED)
    unittest.main()
