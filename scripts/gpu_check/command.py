"""The command line: one plan, its head, its parts, its table."""
import argparse
import contextlib
import datetime
import os
import pathlib
import platform
import signal
import sys
import threading
import time

from .machine import ROOT, Machine, OutOfTime, ask
from .output import Output
from .plans import PLANS, Watchdog, run_parts, table
from .processes import Processes


class Ended(BaseException):
    """Somebody ends the check: what is finished is written, and told."""


def say(text):
    print(text, file=sys.stderr, flush=True)


def describe(machine):
    """Date, machine and program."""
    doctor = None
    if machine.trainer:
        machine.deadline = time.monotonic() + 60
        try:
            doctor = machine.doctor()
        except (RuntimeError, OutOfTime, IndexError, KeyError, ValueError, OSError) as error:
            doctor = {"error": str(error)}
    carried = ROOT / "commit"
    return {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "rehearsal": machine.rehearse, "gpu": machine.gpu or None,
            "commit": carried.read_text().strip() if carried.exists() else ask("git", "rev-parse", "HEAD") or None,
            "changed": bool(ask("git", "status", "--porcelain", "--untracked-files=no")),
            "system": platform.platform(), "glibc": platform.libc_ver()[1], "cores": os.cpu_count(),
            "library_path": machine.library_path, "doctor": doctor}


def parse(words):
    parser = argparse.ArgumentParser(prog="gpu_check.sh", description="What only a machine with a GPU can show.")
    parser.add_argument("plan", choices=PLANS, help="; ".join(
        f"{name}: {plan.what}, under {plan.ceiling // 60} minutes" for name, plan in PLANS.items()))
    parser.add_argument("--out", type=pathlib.Path, help="for the files, eight at most; build/gpu_check if not given")
    parser.add_argument("--build", type=pathlib.Path, help="the build tree, or an installed one")
    parser.add_argument("--only", nargs="+", metavar="PART", help="; ".join(
        f"{name}: {', '.join(plan.parts)}" for name, plan in PLANS.items()))
    parser.add_argument("--previous", type=pathlib.Path, metavar="SUMMARY",
                        help="summary.json of the plan 'runs', whose failed cases 'faults' runs again")
    parser.add_argument("--rehearse", nargs="?", choices=("short", "long"), const="long",
                        help="with the CPU in the GPU's place")
    options = parser.parse_args(words)
    unknown = set(options.only or ()) - set(PLANS[options.plan].parts)
    if unknown:
        parser.error(f"the plan {options.plan} has no part {sorted(unknown)[0]}")
    return options


def main(words=None):
    options = parse(words)
    begin = time.monotonic()
    plan = PLANS[options.plan]
    output = Output((options.out or ROOT / "build" / "gpu_check").resolve(), options.plan)
    processes = Processes(output.log)
    rows = []

    def finish():
        output.close(round(time.monotonic() - begin, 1))
        print(f"\n{options.plan}: {plan.what}{' (rehearsal)' if options.rehearse else ''}, "
              f"{time.monotonic() - begin:.0f} of {plan.ceiling} s; all of it in {output.folder}")
        print(table(rows), flush=True)

    def end_now():  # by the watchdog, in another thread
        processes.kill_all()
        rows.append({"part": "plan", "status": "FAILED", "seconds": plan.ceiling, "text": "did not end by itself"})
        finish()
        os._exit(1)

    def end(number, _):
        raise Ended(signal.Signals(number).name)

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, end)
        signal.signal(signal.SIGINT, end)
    output.start({})
    with Watchdog(plan.ceiling - 3, end_now), contextlib.ExitStack() as closing:
        try:
            machine = Machine(options.build, options.rehearse, output, processes,
                              options.previous or output.path("summary.json"))
            closing.callback(machine.close)
            output.start(describe(machine))
            for row in run_parts(machine, plan, options.only or list(plan.parts), begin, say):
                output.finish(row)
                rows.append(row)
        except Ended as signal_name:
            processes.kill_all()
            rows.append({"part": "plan", "status": "FAILED", "seconds": 0.0, "text": f"ended by {signal_name}"})
        finish()
    return 1 if any(row["status"] == "FAILED" for row in rows) else 0
