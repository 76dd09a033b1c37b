#!/usr/bin/env python3
"""scripts/bench_gpu.py [--budget SECONDS] [--json FILE] [NETWORK …]: trainer against PyTorch on a GPU, in f32, TF32, bf16
and fp16, PyTorch in all its ways to train: eager, compiled, compiled with CUDA graphs, and whole steps captured by hand in
one graph, of both.

Both sides start from the same weights and train on the same batches; the first 20 losses of every competitor must agree
with trainer's in the same precision. Then repetitions alternate, all competitors in each round: PyTorch's modes live in
one process for each network (bench_gpu_torch.py), trainer's runs are a process each. Ceilings of the machine are measured
in the same run, so that achieved / bound can be printed. Every figure is in FILE (else scripts/results/gpu_bench_<date>.json)
as soon as it is known. What fails or hangs costs itself and stands there with its error; what PyTorch's side said is in
--peer-log.

--budget divides its seconds over the networks, once what comes before the first timing of each is done; where they do not
suffice, repetitions are left out before modes are, the last modes first, and it says so.

Needs a GPU and a trainer with the CUDA module; without them it says SKIPPED and why, and exits with 0. Without PyTorch
trainer is timed alone, and it ends with 1. --rehearse runs all of it in small on the CPU, a mode that fails and one that
hangs among the others: its figures mean nothing.
"""
import argparse
import datetime
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from bench_gpu_networks import NETWORKS, NUM_COMPARED, PRECISIONS, ROOT, Trainer, write_data
from bench_gpu_report import ratios_of, report, summary_of
from bench_peer import Peer, PeerLost, Refused
from child_process import Failed
from losses import largest_difference

DEFAULT_PEER = [sys.executable, str(ROOT / "scripts" / "bench_gpu_torch.py")]
# The order in which they are prepared: what is dropped first for lack of time is last.
MODES = ("eager", "captured", "compile", "compile captured", "compile graphs")
REHEARSED_NETWORKS = ("mlp_small",)
REHEARSED_MODES = ("eager", "compile", "fails", "hangs")
HANG_SECONDS = 3.0    # that a rehearsal waits for the mode that hangs
MODEST_SECONDS = 5.0  # below that nothing is worth beginning
COMPILE_SECONDS = 30.0  # what a first torch.compile may take on a cold machine


class PyTorch:
    """One mode in one precision. The process is all modes'; where it was lost, it is told again what to prepare."""

    def __init__(self, peer, setup, precision, mode):
        self.peer, self.setup, self.precision, self.mode = peer, setup, precision, mode
        self.prepared_in = None  # which generation of the process

    def prepare(self, seconds):
        deadline = time.monotonic() + seconds
        self.setup(seconds)
        figures = self._ask({"do": "prepare", "compared": NUM_COMPARED}, deadline - time.monotonic())
        self.prepared_in = self.peer.generation
        return figures

    def run(self, steps, seconds):
        begin = time.monotonic()
        if self.prepared_in != self.peer.generation:
            self.prepare(seconds)
        again = time.monotonic() - begin
        run = self._ask({"do": "run", "steps": steps}, seconds - again)
        return {**run, "wake_seconds": again + run.get("wake_seconds", 0)}

    def _ask(self, request, seconds):
        return self.peer.ask({**request, "mode": self.mode, "precision": self.precision}, seconds)


class Book:
    """The figures, written anew whenever one is added."""

    def __init__(self, path, figures):
        self.path, self.figures = path, figures

    def write(self):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_name(self.path.name + ".part")
        part.write_text(json.dumps(self.figures, indent=1) + "\n", encoding="utf-8")
        part.replace(self.path)


class Share:
    """The time that one network has."""

    def __init__(self, seconds):
        self.deadline = time.monotonic() + seconds

    def left(self):
        return self.deadline - time.monotonic()


class Contest:
    """One network: all competitors, prepared and then timed by turns."""

    def __init__(self, name, entry, share, options, book):
        self.name, self.network, self.share, self.options, self.book = name, NETWORKS[name], share, options, book
        self.entry = entry
        entry.update({"batch": options.batch_of(self.network), "precisions": {}, "notes": []})
        self.steps, self.seconds, self.lasted = {}, {}, {}

    def note(self, text):
        self.entry["notes"].append(text)
        print(f"{self.name}: {text}", flush=True)

    def results(self, competitor):
        precision = self.entry["precisions"].setdefault(competitor.precision, {})
        return precision.setdefault(competitor.mode, {"runs": []})

    def limit(self, competitor):
        """Seconds for the next answer or run: what was begun in time is not ended for lack of it, but where it hangs."""
        if competitor.mode == "hangs":
            return HANG_SECONDS
        expected = self.seconds.get((competitor.mode, competitor.precision), 0)
        # A mode may have to be prepared again: after another was ended with the process, or where it slept.
        to_prepare = self.lasted.get(competitor.mode, COMPILE_SECONDS if "compile" in competitor.mode else 0)
        return min(self.options.timeout, max(self.share.left(), MODEST_SECONDS + 3 * expected + 2 * to_prepare))

    def round_seconds(self):
        return sum(self.seconds.values())

    def prepare(self, competitor):
        """Whether it takes part."""
        results = self.results(competitor)
        title = f"{competitor.mode}, {competitor.precision}"
        # What is not known yet is taken for twice as long as the longest before it.
        needed = self.round_seconds() + self.lasted.get(competitor.mode, 2 * max(self.lasted.values(), default=0))
        if self.share.left() < needed:
            results["dropped"] = f"no time for it: {max(0, self.share.left()):.0f} s were left, of which others need " \
                                 f"{self.round_seconds():.0f}"
            self.note(f"{title}: dropped, {results['dropped']}")
            return False
        begin = time.monotonic()
        try:
            first = competitor.prepare(self.limit(competitor))
            self.lasted[competitor.mode] = time.monotonic() - begin
            self.compare(competitor, first)
        except (Failed, Refused, PeerLost) as failure:
            results["failed"] = str(failure)
            self.note(f"{title}: FAILED: {failure}")
            return False
        finally:
            results["seconds_to_prepare"] = round(time.monotonic() - begin, 2)
            self.book.write()
        results.update({key: value for key, value in first.items() if key not in ("samples_per_second",)})
        key = (competitor.mode, competitor.precision)
        self.steps[key] = max(5, min(20000, round(self.options.seconds / first["step_seconds"])))
        # A run of trainer begins anew each time.
        self.seconds[key] = self.steps[key] * first["step_seconds"]
        if competitor.mode == "trainer":
            self.seconds[key] += self.lasted["trainer"]
        return True

    def compare(self, competitor, first):
        """With trainer's first losses in the same precision."""
        if competitor.mode == "trainer":
            return
        own = self.entry["precisions"][competitor.precision].get("trainer", {})
        if "losses" not in own:
            raise Failed("trainer has no losses in this precision to compare with")
        difference = largest_difference(first["losses"], own["losses"])
        tolerance = PRECISIONS[competitor.precision]["tolerance"]
        self.results(competitor)["loss_difference"] = difference
        print(f"{self.name}: {competitor.mode}, {competitor.precision}: first {NUM_COMPARED} losses differ by at most "
              f"{difference:.1e} (allowed {tolerance:.0e})", flush=True)
        if not difference <= tolerance:  # timed all the same: a machine with a GPU is seldom at hand
            self.results(competitor)["differs"] = f"losses differ from trainer's by {difference:.1e}, more than " \
                                                  f"{tolerance:.0e}: {first['losses'][:3]} and {own['losses'][:3]} …"
            self.note(f"{competitor.mode}, {competitor.precision}: FAILED: {self.results(competitor)['differs']}")
        if first["parameters"] != own["parameters"]:
            raise Failed(f"has {first['parameters']} parameters, trainer {own['parameters']}")

    def run_rounds(self, competitors):
        for number in range(self.options.repetitions):
            if number > 0 and self.share.left() < self.round_seconds():
                self.note(f"{number} of {self.options.repetitions} repetitions: another takes about "
                          f"{self.round_seconds():.0f} s, {max(0, self.share.left()):.0f} s were left")
                break
            for competitor in list(competitors):
                if not self.run_one(competitor, number):
                    competitors.remove(competitor)
                    self.seconds.pop((competitor.mode, competitor.precision))

    def run_one(self, competitor, number):
        """Whether it can run again."""
        results, key = self.results(competitor), (competitor.mode, competitor.precision)
        begin = time.monotonic()
        try:
            run = competitor.run(self.steps[key], self.limit(competitor))
        except (Failed, Refused, PeerLost) as failure:
            results["failed" if number == 0 else "failed_later"] = str(failure)
            self.note(f"{competitor.mode}, {competitor.precision}: FAILED in repetition {number + 1}: {failure}")
            return False
        self.seconds[key] = time.monotonic() - begin - run.get("wake_seconds", 0)
        results["runs"].append({key: run[key] for key in ("samples_per_second", "step_seconds")})
        if competitor.mode == "trainer":  # its memory is the run's, and what it replayed
            results.update({key: run[key] for key in ("memory", "replayed", "skipped_updates") if key in run})
        self.book.write()
        return True


def measure(name, entry, seconds_left, options, book):
    """Fills `entry`. `seconds_left` is asked for the network's share when all is there that its competitors need."""
    network = NETWORKS[name]
    # What is compiled is loaded as libraries, which shared memory may not allow.
    with tempfile.TemporaryDirectory(dir=scratch_folder()) as text, tempfile.TemporaryDirectory() as compiled:
        folder = pathlib.Path(text)
        write_data(folder, network, options.batch_of(network))
        own = [Trainer(name, precision, folder, options) for precision in options.precisions]
        own[0].write_weights(options.timeout)
        entry["program"] = {trainer.precision: summary_of(trainer.plan(options.timeout)) for trainer in own}
        caches = {name: compiled for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")}
        peer = Peer([*options.peer, *(["--rehearse"] if options.rehearse else [])], options.peer_log, caches)
        opened = []  # the generation of the process that knows the network

        def setup(seconds):
            if opened == [peer.generation]:
                return
            answer = peer.ask({"do": "open", "network": name, "weights": str(folder / "weights.safetensors"),
                               "images": str(folder / "images.u8"), "targets": str(folder / "targets.u8"),
                               "shape": network["shape"], "batch": options.batch_of(network), "lr": options.lr_of(network),
                               "num_batches": network["num_batches"],
                               "device": "cpu" if options.rehearse else "cuda"}, seconds)
            opened[:] = [peer.generation]
            entry["peer"] = answer

        others = [PyTorch(peer, setup, precision, mode) for mode in options.modes for precision in options.precisions]
        try:
            prepare_peer(peer, setup, min(options.timeout, max(MODEST_SECONDS, seconds_left())), options, book)
            contest = Contest(name, entry, Share(seconds_left()), options, book)
            competitors = [competitor for competitor in own + others if contest.prepare(competitor)]
            contest.run_rounds(competitors)
        finally:
            peer.end()
    entry["ratios"] = ratios_of(name, entry)


def prepare_peer(peer, setup, seconds, options, book):
    """What all modes share: the network, and once the ceilings, by the first process that can. Where it fails, each mode
    tries again."""
    has_ceilings = options.rehearse or "device" in (book.figures["ceilings"] or {})
    try:
        setup(seconds)
        if not has_ceilings:
            book.figures["ceilings"] = peer.ask({"do": "ceilings"}, seconds)
    except (Refused, PeerLost) as failure:
        if not has_ceilings:
            book.figures["ceilings"] = {"failed": str(failure)}
    book.write()


def scratch_folder():
    """Memory where it has room for weights and checkpoints, which need not reach a disk; else where temporary files go."""
    shared = pathlib.Path("/dev/shm")
    return shared if shared.is_dir() and shutil.disk_usage(shared).free > 8 * 2**30 else None


def obstacle(options):
    """Why nothing can be measured here; empty: it can."""
    if not pathlib.Path(options.trainer).exists():
        return f"{options.trainer} does not exist: build trainer first, or name it with --trainer"
    if options.rehearse:
        is_there = options.peer != DEFAULT_PEER or importlib.util.find_spec("torch")
        return "" if is_there else f"{sys.executable} has no PyTorch to rehearse with"
    facts = subprocess.run([options.trainer, "doctor", "--json"], capture_output=True, text=True, check=False, timeout=60)
    if facts.returncode != 0 or '"kind":"cuda"' not in facts.stdout:
        return "trainer has no CUDA device here (see trainer doctor)"
    return ""


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=pathlib.Path, help="where the figures go; else scripts/results/")
    parser.add_argument("--peer-log", type=pathlib.Path, default=ROOT / "build" / "bench_gpu_peer.log",
                        help="where what PyTorch's side says goes")
    parser.add_argument("--trainer", default=os.environ.get("TRAINER") or str(ROOT / "build" / "release" / "trainer"),
                        help="the binary; else $TRAINER, else that of scripts/trainer")
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds for all of it; no bound if not given")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="timed part of one repetition")
    parser.add_argument("--timeout", type=float, default=150, help="seconds after which one answer or run is given up")
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=list(PRECISIONS))
    parser.add_argument("--modes", nargs="+", help=f"of {', '.join(MODES)}; all if not given")
    parser.add_argument("--batch", type=int, default=0, help="another batch size for all networks")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="overrides for trainer's side")
    parser.add_argument("--rehearse", action="store_true", help="try the script on the CPU")
    parser.add_argument("--peer", nargs="+", default=DEFAULT_PEER, help="the program of the other side")
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"{', '.join(NETWORKS)}; all where none is named")
    options = parser.parse_args()
    unknown = set(options.networks) - set(NETWORKS)
    if unknown:
        parser.error(f"unknown network {sorted(unknown)[0]}; there are {', '.join(NETWORKS)}")
    options.trainer = str(pathlib.Path(options.trainer).resolve())
    options.networks = options.networks or list(REHEARSED_NETWORKS if options.rehearse else NETWORKS)
    options.modes = options.modes or list(REHEARSED_MODES if options.rehearse else MODES)
    if options.rehearse:
        options.repetitions, options.seconds = min(2, options.repetitions), 0.05
        options.batch = options.batch or 4
        # Of a machine that has other things to do: nothing is timed here.
        os.environ.update(OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive")
    options.batch_of = lambda network: options.batch or network["batch"]
    # So few samples in a batch make rounding grow faster.
    options.lr_of = lambda network: network["lr"] * (0.1 if options.rehearse else 1)
    return options


def main():
    options = parse_arguments()
    begin = time.monotonic()
    why_not = obstacle(options)
    if why_not:
        print(f"SKIPPED: {why_not}")
        return 0
    date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    default = ROOT / "build" / "gpu_bench_rehearsal.json" if options.rehearse \
        else ROOT / "scripts" / "results" / f"gpu_bench_{date[:10]}.json"
    figures = {"date": date, "rehearsal": options.rehearse, "repetitions_asked": options.repetitions,
               "seconds_each": options.seconds, "set": options.set, "budget": options.budget if options.budget < float("inf") else None,
               "ceilings": None, "networks": {}}
    book = Book(options.json or default, figures)
    if options.rehearse:
        print("A rehearsal: its figures mean nothing.")
    failed = False
    options.peer_log.parent.mkdir(parents=True, exist_ok=True)
    options.peer_log.write_bytes(b"")

    def left():
        return options.budget - (time.monotonic() - begin)

    for number, name in enumerate(options.networks):
        entry = figures["networks"][name] = {}
        try:
            if left() < MODEST_SECONDS:
                raise Failed("no time was left for it")
            weights = [NETWORKS[other].get("weight", 1) for other in options.networks[number:]]
            measure(name, entry, lambda weights=weights: left() * weights[0] / sum(weights), options, book)
        except (Failed, Refused, PeerLost, OSError, ValueError, KeyError) as failure:  # the others' figures are not lost
            entry["failed"] = f"{type(failure).__name__}: {failure}"
        failed = report(name, entry, figures["ceilings"], options) or failed
        book.write()
    figures["seconds"] = round(time.monotonic() - begin, 1)
    book.write()
    print(f"\nwritten to {book.path}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
