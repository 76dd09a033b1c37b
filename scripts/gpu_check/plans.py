"""The three plans, and how their parts are run: each within its time, whatever becomes of the others."""
import threading
import time
import traceback
from dataclasses import dataclass

from . import evidence, faults, ranks, runs
from .machine import OutOfTime, Skipped

RESERVE = 10  # seconds of a plan for its head and its end


@dataclass
class Plan:
    """ceiling: seconds after which it is over, come what may. parts: name → (seconds, function of (machine, name) that
    gives status, text and details); what a part leaves of its time is the next one's."""
    what: str
    ceiling: int
    parts: dict


PLANS = {
    "runs": Plan("does it run", 7 * 60, {
        "devices": (40, runs.check_devices), "quickstart": (85, runs.check_quickstart),
        "loading": (30, runs.check_loading), "tests": (185, runs.check_tests), "speeds": (70, runs.check_speeds)}),
    "faults": Plan("what is wrong and slow", 8 * 60, {
        "again": (35, faults.check_again), "racecheck": (85, faults.check_sanitizer),
        "initcheck": (35, faults.check_sanitizer), "memcheck": (40, faults.check_sanitizer),
        "kernels": (95, faults.check_kernels), "dram": (135, faults.check_dram),
        "autotune": (45, faults.check_autotune)}),
    "evidence": Plan("evidence", 9 * 60, {
        "losses": (30, evidence.check_losses), "peaks": (155, evidence.check_peaks), "oom": (50, evidence.check_oom),
        "ranks": (50, ranks.check_ranks), "bench": (190, evidence.check_bench),
        "traces": (55, evidence.check_traces)}),
}


def run_part(machine, name, check):
    begin = time.monotonic()
    details = None
    try:
        status, text, details = check(machine, name)
    except Skipped as reason:
        status, text = "SKIPPED", str(reason)
    except OutOfTime:
        status, text = "partly", "its time was over"
    except Exception as error:  # a part's failure is its row, and the others go on
        status, text, details = "FAILED", str(error) or type(error).__name__, traceback.format_exc()
    return {"part": name, "status": status, "seconds": round(time.monotonic() - begin, 1), "text": text,
            "details": details}


def table(rows):
    lines = [f"{'part':<10} {'':<8} {'seconds':>7}"]
    for row in rows:
        text = row["text"] if len(row["text"]) <= 700 else row["text"][:700] + " …"
        lines.append(f"{row['part']:<10} {row['status']:<8} {row['seconds']:>7.1f}  {text}")
    return "\n".join(lines)


class Watchdog:
    """Ends the plan at its ceiling where nothing else has: a part that hangs in this process itself."""

    def __init__(self, seconds, end):
        self._timer = threading.Timer(seconds, end)
        self._timer.daemon = True

    def __enter__(self):
        self._timer.start()

    def __exit__(self, *_):
        self._timer.cancel()


def run_parts(machine, plan, names, begin, say):
    """The row of each part, as it is over. begin: when the plan did, of time.monotonic()."""
    end = begin + plan.ceiling - RESERVE
    deadline = time.monotonic()
    for name in names:
        seconds, check = plan.parts[name]
        deadline = min(deadline + seconds, end)
        machine.deadline = deadline
        say(f"{name} …")
        row = run_part(machine, name, check)
        say(f"{name}: {row['status']} ({row['seconds']:.1f} s) {row['text']}")
        yield row
