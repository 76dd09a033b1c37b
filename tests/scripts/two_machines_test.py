"""Ranks 0 and 1 on one machine and 2 and 3 on another: network namespaces with processes of their own, joined by a link.
They train as four ranks of one machine do, bit for bit, over TCP and over MPI; what crosses the link is what `plan` says that
they send; and where the link is cut, all end, say who is gone, and the run goes on from its last checkpoint.

Environment: TRAINER, the binary. Needs root, iproute2 and the right to make namespaces; without them it is skipped (77).
mpirun is used where there is one.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

TRAINER = str(pathlib.Path(os.environ["TRAINER"]).resolve())
SKIPPED = 77
NAMES = [f"trainer{os.getpid()}{side}" for side in "ab"]
LINKS = [f"tr{os.getpid()}{side}" for side in "ab"]  # at most 15 letters
ADDRESSES = ["198.18.77.1", "198.18.77.2"]
PORT = 29871
CONFIG = """
name: two
device: {type: cpu, threads: 1}
data: {type: synthetic, shape: [40], classes: 10, samples: 400, validation_samples: 40}
model: {layers: [{linear: {out: 600}}, relu, {linear: {out: 600}}, relu, {linear: {out: 10}}]}
optimizer: {type: adamw, lr: 1e-3}
parallel: {bucket_size: 1}
train: {batch_size: 40}
"""
NUM_STEPS = 40


# Processes of their own, which reach no memory of the other machine's; a name of its own, by which mpirun tells machines.
MACHINE = ["unshare", "--uts", "--pid", "--fork", "--mount-proc", "--kill-child"]
# What mpirun calls as it would ssh: a machine's address, and words of a command.
AGENT = f"""#!/bin/bash
for side in a b; do
  name=trainer{os.getpid()}$side
  ip netns exec $name ip -br addr | grep -qwF "$1" && break
done
shift
exec ip netns exec $name {" ".join(MACHINE)} bash -c "hostname $name; $*"
"""


def command(*words):
    return subprocess.run(words, check=True, text=True, capture_output=True).stdout


def make_machines():
    for name in NAMES:
        command("ip", "netns", "add", name)
    command("ip", "link", "add", LINKS[0], "netns", NAMES[0], "type", "veth", "peer", "name", LINKS[1], "netns", NAMES[1])
    for name, link, address in zip(NAMES, LINKS, ADDRESSES):
        command("ip", "-n", name, "addr", "add", f"{address}/24", "dev", link)
        command("ip", "-n", name, "link", "set", link, "up")
        command("ip", "-n", name, "link", "set", "lo", "up")
        command("ip", "netns", "exec", name, *MACHINE, "true")


def remove_machines():
    for name in NAMES:  # the link goes with them
        subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def events_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def losses_of(events):
    return [event["loss"] for event in events if event["event"] == "step"]


class TwoMachines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="trainer-machines-"))
        (cls.folder / "two.yaml").write_text(CONFIG, encoding="utf-8")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def run_here(self, *words):
        done = subprocess.run([TRAINER, *words], cwd=self.folder, text=True, capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def start_ranks(self, *words):
        """A process for each machine, which begins two ranks there; what they leave is in files of the rank's number."""
        machines = []
        for machine, name in enumerate(NAMES):
            script = "".join(
                f'(RANK={rank} LOCAL_RANK={rank % 2} "$@" 2>err{rank}; echo $? >code{rank}) & '
                for rank in (2 * machine, 2 * machine + 1)) + "wait"
            variables = {**os.environ, "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": ADDRESSES[0],
                         "MASTER_PORT": str(PORT)}
            machines.append(subprocess.Popen(
                ["ip", "netns", "exec", name, *MACHINE, "bash", "-c", script, "bash", TRAINER, "run", "two.yaml", "-q", *words],
                cwd=self.folder, env=variables))
            self.addCleanup(machines[-1].kill)
        return machines

    def end_of(self, machines):
        """Exit codes and what was told on stderr, by rank."""
        for machine in machines:
            machine.wait(timeout=60)
        read = lambda name: (self.folder / name).read_text(encoding="utf-8")
        return [int(read(f"code{rank}")) for rank in range(4)], [read(f"err{rank}") for rank in range(4)]

    def num_sent(self):
        """Bytes that each machine has sent over the link."""
        return [int(command("ip", "netns", "exec", name, "cat", f"/sys/class/net/{link}/statistics/tx_bytes"))
                for name, link in zip(NAMES, LINKS)]

    def start_by_mpirun(self, *words):
        agent = self.folder / "agent"
        agent.write_text(AGENT, encoding="utf-8")
        agent.chmod(0o755)
        mpirun = ["mpirun", "--allow-run-as-root", "--bind-to", "none", "--mca", "plm_rsh_agent", str(agent), "-np", "4", "--host",
                  ",".join(f"{address}:2" for address in ADDRESSES), TRAINER, "run", "two.yaml", "-q", *words]
        done = subprocess.run([str(agent), ADDRESSES[0], *mpirun], cwd=self.folder, env={**os.environ, "TMPDIR": "/tmp"},
                              text=True, capture_output=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def train(self, output, *words, by_mpirun=False):
        """What each machine has sent."""
        before = self.num_sent()
        if by_mpirun:
            self.start_by_mpirun(f"output={output}", *words)
        else:
            codes, told = self.end_of(self.start_ranks(f"output={output}", *words))
            self.assertEqual((codes, told), ([0] * 4, [""] * 4))
        return [after - former for after, former in zip(self.num_sent(), before)]

    def test_losses_are_those_of_one_machine_and_bytes_on_the_link_those_of_the_plan(self):
        for shard in ("none", "gradients", "parameters"):
            with self.subTest(shard=shard):
                self.check_losses_and_bytes(shard, "tcp", by_mpirun=False)

    @unittest.skipIf(shutil.which("mpirun") is None, "mpirun is not installed")
    def test_ranks_of_mpirun_on_both_need_no_address_and_send_the_same_bytes(self):
        self.check_losses_and_bytes("parameters", "mpi", by_mpirun=True)

    def check_losses_and_bytes(self, shard, transport, by_mpirun):
        words = [f"parallel.shard={shard}", "train.epochs=null", "train.eval_every=1000"]
        longer = f"train.steps={NUM_STEPS}"
        plan = json.loads(self.run_here("plan", "two.yaml", "--json", "--ranks", "4", "parallel.ranks_per_node=2", *words, longer))
        self.assertEqual(plan["ranks"]["nodes"], 2)
        # Beside its steps a run meets, evaluates and saves: what a longer one sends more is of steps alone.
        name = f"{transport}-{shard}"
        few = self.train(f"{name}-few", *words, "train.steps=10", by_mpirun=by_mpirun)
        more = self.train(name, *words, longer, by_mpirun=by_mpirun)
        # Two ranks of a machine send to three others alike, two of which are on the other machine.
        expected = (NUM_STEPS - 10) * plan["ranks"]["communicated_bytes"] * 2 * 2 / 3
        for side in (0, 1):
            self.assertGreater((more[side] - few[side]) / expected, 0.99)
            self.assertLess((more[side] - few[side]) / expected, 1.02)
        self.run_here("run", "two.yaml", "-q", "--ranks", "4", f"output={name}-here", *words, longer)
        told = events_of(self.folder / name / "events.jsonl")
        self.assertEqual(told[0]["transport"], transport)
        self.assertEqual(len(losses_of(told)), NUM_STEPS)
        self.assertEqual(losses_of(told), losses_of(events_of(self.folder / f"{name}-here" / "events.jsonl")))

    def test_where_the_link_is_cut_all_ranks_end_and_the_run_goes_on_from_its_last_checkpoint(self):
        timeout = 2
        words = ["train.epochs=1000", "checkpoint.every=20", f"parallel.timeout={timeout}", "output=cut"]
        machines = self.start_ranks(*words)
        events = self.folder / "cut" / "events.jsonl"
        deadline = time.monotonic() + 30
        while not (events.exists() and '"step":60,' in events.read_text(encoding="utf-8")):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        command("ip", "-n", NAMES[1], "link", "set", LINKS[1], "down")
        begin = time.monotonic()
        self.addCleanup(command, "ip", "-n", NAMES[1], "link", "set", LINKS[1], "up")
        codes, told = self.end_of(machines)
        self.assertLess(time.monotonic() - begin, timeout + 4)
        self.assertEqual(codes, [75] * 4)
        for text, missing in ((told[0], "2, 3"), (told[2], "0, 1")):
            self.assertTrue(text.startswith(f"error: ranks {missing} have not answered for 2 s\nThe last checkpoint is "),
                            text)
            self.assertTrue(text.rstrip().endswith("--resume"), text)
        self.assertEqual([told[1], told[3]], ["", ""])
        num_steps = len(losses_of(events_of(events))) // 20 * 20 + 40
        going_on = ["train.epochs=null", f"train.steps={num_steps}", "checkpoint.every=20"]
        self.run_here("run", "two.yaml", "-q", "--ranks", "2", "--resume", "output=cut", *going_on)
        self.run_here("run", "two.yaml", "-q", "output=whole", *going_on)
        losses, whole = (losses_of(events_of(self.folder / name / "events.jsonl")) for name in ("cut", "whole"))
        self.assertEqual(len(losses), num_steps)
        for one, other in zip(losses, whole):
            self.assertAlmostEqual(one, other, delta=2e-4 * max(1, other))


if __name__ == "__main__":
    problem = None
    try:
        make_machines()
    except (OSError, subprocess.CalledProcessError) as error:
        problem = getattr(error, "stderr", None) or error
    if problem is not None:
        remove_machines()
        print(f"skipped: no network namespaces can be made here (root, iproute2): {problem}", file=sys.stderr)
        sys.exit(SKIPPED)
    try:
        unittest.main()
    finally:
        remove_machines()
