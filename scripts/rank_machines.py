"""Machines that are none: network namespaces, each with processes of its own, so that no rank reads another's memory, joined
by links to a switch. Needs root and iproute2."""
import os
import subprocess

from bench_cpu import ROOT, RunFailed

LINK, SWITCH_LINK = "lan0", "switch0"
PORT = 29877
# Processes of their own, which reach no memory of another machine's, and a name of its own.
MACHINE = ["unshare", "--uts", "--pid", "--fork", "--mount-proc", "--kill-child"]


def command(*words):
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise RunFailed(f"{' '.join(words)} failed: {done.stderr.strip()}")
    return done.stdout


class Machines:
    """One for each rank; `rate` is what a link carries in each direction, as tc takes it."""

    def __init__(self, num_machines, rate=None):
        self.names = [f"bench{os.getpid()}n{number}" for number in range(num_machines)]
        self.switch = f"bench{os.getpid()}switch"
        self.addresses = [f"198.18.78.{number + 1}" for number in range(num_machines)]
        self.rate = rate

    def __enter__(self):
        try:
            self.make()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_):
        self.remove()

    def make(self):
        command("ip", "netns", "add", self.switch)
        command("ip", "-n", self.switch, "link", "add", SWITCH_LINK, "type", "bridge")
        command("ip", "-n", self.switch, "link", "set", SWITCH_LINK, "up")
        for number, (name, address) in enumerate(zip(self.names, self.addresses)):
            command("ip", "netns", "add", name)
            command("ip", "link", "add", LINK, "netns", name, "type", "veth", "peer", "name", f"port{number}", "netns",
                    self.switch)
            command("ip", "-n", self.switch, "link", "set", f"port{number}", "master", SWITCH_LINK, "up")
            command("ip", "-n", name, "addr", "add", f"{address}/24", "dev", LINK)
            command("ip", "-n", name, "link", "set", LINK, "up")
            command("ip", "-n", name, "link", "set", "lo", "up")
            if self.rate:
                command("tc", "-n", name, "qdisc", "add", "dev", LINK, "root", "tbf", "rate", self.rate, "burst", "256kb",
                        "latency", "50ms")

    def remove(self):
        for name in [*self.names, self.switch]:  # links go with them
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)

    def run_ranks(self, words):
        """What rank 0 of a command prints; all run it."""
        ranks = []
        for rank, name in enumerate(self.names):
            environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(len(self.names)), "LOCAL_RANK": "0",
                           "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": self.addresses[0], "MASTER_PORT": str(PORT),
                           "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": LINK}
            ranks.append(subprocess.Popen(["ip", "netns", "exec", name, *MACHINE, *map(str, words)], env=environment,
                                          cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        told = [rank.communicate() for rank in ranks]
        for rank, (_, errors) in zip(ranks, told):
            if rank.returncode != 0:
                raise RunFailed(f"{' '.join(map(str, words))} failed:\n{errors}")
        return told[0][0]

    def sent_bytes(self):
        """Of each machine since it was made, over its link."""
        return [int(command("ip", "netns", "exec", name, "cat", f"/sys/class/net/{LINK}/statistics/tx_bytes"))
                for name in self.names]
