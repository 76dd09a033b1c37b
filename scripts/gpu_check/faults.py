"""The plan `faults`: what is wrong, and what is slow?"""
import json

from losses import largest_difference

from . import profiler, sanitizer
from .machine import OutOfTime, Skipped
from .test_cases import list_cases, run_case
from .training import events_of, losses_of, speed_of

TAG = "[sanitizer]"
GOAL = 0.85  # of the rate of a copy, for kernels that only move bytes
LARGE_MIB = 64
HOPELESS = 5  # cases in a row, from the first, in which a profiler sees nothing


def failed_before(machine):
    """(program, case) of what failed in the plan `runs`."""
    if not machine.previous.exists():
        raise Skipped(f"no summary of the plan 'runs' at {machine.previous}: --previous names one")
    summary = json.loads(machine.previous.read_text(encoding="utf-8"))
    if "runs" not in summary:
        raise Skipped(f"{machine.previous} has no plan 'runs'")
    tests = [row["details"] for row in summary["runs"]["parts"] if row["part"] == "tests"]
    return [(row["program"], row["case"]) for rows in tests if isinstance(rows, list) for row in rows
            if row.get("outcome") == "failed"]


def check_again(machine, part):
    """What failed, each launch waited for, so that a fault is told where it is; and under memcheck."""
    machine.require_device()
    failed = failed_before(machine)
    rows, late = [], False
    try:
        memcheck = sanitizer.command(machine, "memcheck")
    except Skipped:
        memcheck = None
    for name, case in failed:
        program = machine.test_program(name)
        for before in ((), memcheck) if memcheck else ((),):
            if machine.left() <= 0:
                late = True
                break
            row, _ = run_case(machine, program, case, before=before, CUDA_LAUNCH_BLOCKING="1")
            row["under"] = "memcheck" if before else "CUDA_LAUNCH_BLOCKING"
            rows.append(row)
            machine.output.result(part, row)
    again = sum(row["outcome"] == "failed" for row in rows if row["under"] != "memcheck")
    num_alone = sum(row["under"] != "memcheck" for row in rows)
    text = f"{len(failed)} failed before; of {num_alone} run alone {again} fail again"
    return "FAILED" if again else "partly" if late else "passed", text, rows


def check_sanitizer(machine, tool):
    """One tool of compute-sanitizer over a few cases of each op. The part is called as the tool."""
    machine.require_device()
    command = sanitizer.command(machine, tool)
    program = machine.test_program("test_gpu")
    cases = list_cases(machine, program, TAG)
    rows, late = [], False
    for index, case in enumerate(cases):
        if machine.left() <= 0:
            late = True
            break
        # One that takes long leaves the others their share.
        seconds = max(20, 2 * machine.left() / (len(cases) - index))
        row, result = run_case(machine, program, case, before=command, seconds=seconds,
                               TRAINER_CASES_PER_OP=str(sanitizer.CASES_PER_OP))
        refused = sanitizer.refusal(result.output)
        if refused:
            raise Skipped(f"compute-sanitizer cannot work here: {refused}")
        row.update(sanitizer.findings(result.output) or {"summary": f"no summary: {result.how()}", "errors": None,
                                                         "warnings": None})
        if result.ended == "late":
            row["outcome"] = "late"
        rows.append(row)
        machine.output.result(tool, {key: value for key, value in row.items() if key != "output"})
    with_errors = [row for row in rows if row["errors"]]
    others = [row for row in rows if row["outcome"] == "failed" and not row["errors"]]
    late = late or any(row["outcome"] == "late" for row in rows)
    text = f"{len(rows) - len(with_errors) - len(others)} of {len(cases)} cases clean"
    text += f", {sum(row['warnings'] or 0 for row in rows)} warnings" if tool == "racecheck" else ""
    for kind, found in (("with errors", with_errors), ("failed otherwise", others)):
        text += f"; {len(found)} {kind}: {found[0]['case']} ({found[0]['summary']})" if found else ""
    skipped = [row for row in rows if row["outcome"] == "skipped"]
    text += f"; {len(skipped)} skipped" if skipped else ""
    text += f"; not finished: {len(cases) - len(rows) + sum(row['outcome'] == 'late' for row in rows)}" if late else ""
    failed = with_errors or others or (skipped and not machine.rehearse)
    return "FAILED" if failed else "partly" if late else "passed", text, rows


def rows_of(text):
    """The JSON lines among what was printed."""
    rows = []
    for line in text.splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and "name" in row:
            rows.append(row)
    return rows


def check_kernels(machine, part):
    """Every own kernel, and variants beside each other, timed against a copy."""
    machine.require_device()
    path = machine.folder("kernels") / "kernels.json"
    result = machine.run(machine.test_program("bench_kernels"), "--json", path)
    if "SKIPPED" in result.stdout:
        raise Skipped(result.stdout.strip().splitlines()[-1].removeprefix("SKIPPED: "))
    # Its lines come one by one, the file when all are done.
    figures = json.loads(path.read_text()) if path.exists() else {"cases": rows_of(result.stdout)}
    if path.exists():
        machine.output.keep("kernels.json", path.read_bytes())
    cases = figures["cases"]
    for row in cases:
        machine.output.result(part, row)
    large = [row for row in cases if row.get("share_of_copy") is not None and row["bytes"] >= LARGE_MIB << 20]
    slow = sorted((row for row in large if row["share_of_copy"] < GOAL), key=lambda row: row["share_of_copy"])
    text = f"{len(cases)} cases; of {len(large)} of {LARGE_MIB} MiB and more {len(large) - len(slow)} reach " \
           f"{GOAL:.0%} of a copy"
    text += "; slowest " + ", ".join(f"{row['name']} {row['share_of_copy']:.0%}" for row in slow[:6]) if slow else ""
    variants = faster_variants(cases)
    text += f"; faster than what is taken: {', '.join(variants[:4])}" if variants else ""
    broken = [row for row in cases if "error" in row]
    text += f"; {len(broken)} cannot run: {broken[0]['name']}: {broken[0]['error']}" if broken else ""
    text += f"; {result.how()}" if result.code != 0 else ""
    failed = broken or not cases or (result.code != 0 and result.ended != "late")
    return "FAILED" if failed else "partly" if result.ended == "late" else "passed", text, figures


def faster_variants(cases):
    """Of "CASE#1", "CASE#2" … those that take less time than "CASE", which is what a run takes; the most gain first."""
    seconds = {row["name"]: row["seconds"] for row in cases if row.get("seconds")}
    gains = [(seconds[name.split("#")[0]] / taken, name) for name, taken in seconds.items()
             if "#" in name and name.split("#")[0] in seconds]
    return [f"{name} {gain:.2f} times" for gain, name in sorted(gains, reverse=True) if gain > 1.02]


def timed_before(machine):
    """The rows of the part `kernels`, by name."""
    for row in machine.output.summary[machine.output.plan]["parts"]:
        if row["part"] == "kernels" and isinstance(row["details"], dict):
            return {case["name"]: case for case in row["details"]["cases"]}
    return {}


def in_order_of_need(names, timed):
    """So that what is worth a look is looked at in the time there is: of each kernel its slowest case, the slowest kernel
    first; then each one's next."""
    def share(name):
        found = timed.get(name, {}).get("share_of_copy")
        return 2 if found is None else found

    of_kernel, keys = {}, {}
    for name in sorted(names, key=share):
        kernel = timed.get(name, {}).get("kernel", name)
        of_kernel[kernel] = of_kernel.get(kernel, 0) + 1
        keys[name] = (of_kernel[kernel], share(name))
    return sorted(names, key=keys.get)


def least_shares(rows, timed):
    """(percent of peak, case) of each case's own kernels, not of those that only fill its memory."""
    shares = []
    for row in rows:
        own = timed.get(row["case"], {}).get("kernel", "").split("|")
        for kernel in row["kernels"]:
            if kernel.get("dram_percent_of_peak") is not None and any(name in kernel["kernel"] for name in own):
                shares.append((kernel["dram_percent_of_peak"], row["case"]))
    return sorted(shares)


def check_dram(machine, part):
    """What share of the memory's rate each kernel reaches, as the hardware counts it."""
    machine.require_device()
    command = profiler.command(machine)
    program = machine.test_program("bench_kernels")
    listed = machine.run(program, "--list", seconds=20)
    names = [line.strip() for line in listed.stdout.splitlines() if line.strip() and "SKIPPED" not in line]
    if not names:
        raise Skipped("bench_kernels names no cases: " + (listed.output.strip().splitlines() or [listed.how()])[-1])
    rows, failed, late = [], [], False
    timed = timed_before(machine)
    for name in in_order_of_need(names, timed):
        if machine.left() <= 0:
            late = True
            break
        if len(failed) >= HOPELESS and not rows:
            break
        result = machine.run(*command, program, "--once", name, seconds=20)
        refused = profiler.refusal(result.output)
        if refused and not rows:
            raise Skipped(f"ncu cannot work here: {refused}")
        kernels = profiler.kernels_of(result.stdout)
        if kernels:
            rows.append({"case": name, "kernels": kernels})
            machine.output.result(part, rows[-1])
        elif machine.left() > 0:
            failed.append(name)
            machine.output.result(part, {"case": name, "error": result.how()})
    shares = least_shares(rows, timed)
    text = f"{len(rows)} of {len(names)} cases"
    if shares:
        text += "; least of peak " + ", ".join(f"{case} {percent:.0f} %" for percent, case in shares[:6])
    text += f"; ncu saw no kernel in {len(failed)}: {failed[0]}" if failed else ""
    return "FAILED" if failed or not rows else "partly" if late else "passed", text, rows


def check_autotune(machine, part):
    """Convolutions timed against cuDNN's first choice; and what was stored is taken again, bit for bit."""
    machine.require_device()
    cache = machine.folder("cache")
    rows, errors, late = [], [], False
    config, batch, steps = machine.pick(("configs/bench/cnn.yaml", 8, 2), ("configs/bench/cnn.yaml", 16, 4),
                                        ("configs/bench/resnet18.yaml", 256, 40))
    losses = {}
    for precision in ("off", "bf16"):
        for mode in ("as it is", "timed", "stored"):
            try:
                events = events_of(machine, config, f"train.batch_size={batch}", f"train.steps={steps}",
                                   "train.epochs=1000", f"train.amp={precision}", name="autotune", seconds=50,
                                   device_keys="" if mode == "as it is" else ", autotune: true",
                                   XDG_CACHE_HOME=str(cache))
            except OutOfTime:
                late = True
                break
            except (OSError, RuntimeError, KeyError, ValueError) as error:
                errors.append(f"{precision} {mode}: {error}")
                machine.output.result(part, {"precision": precision, "mode": mode, "error": str(error)})
                continue
            row = {"precision": precision, "mode": mode, **speed_of(events)}
            losses[precision, mode] = losses_of(events)
            rows.append(row)
            machine.output.result(part, row)
    for path in cache.rglob("*.json"):
        machine.output.keep(f"autotune/{path.name}", path.read_bytes())
    apart = [precision for precision in ("off", "bf16") if (precision, "stored") in losses
             and losses.get((precision, "timed")) != losses[precision, "stored"]]
    worst = max((largest_difference(found, losses[precision, "as it is"]) for (precision, _), found in losses.items()
                 if (precision, "as it is") in losses), default=0.0)
    text = ", ".join(f"{row['precision']} {row['mode']} {row['samples_per_second']:.0f}/s" for row in rows)
    text += f"; losses move by {worst:.1e}"
    text += f"; stored choices give other bits: {', '.join(apart)}" if apart else ""
    text += f"; did not run: {'; '.join(errors)}" if errors else ""
    return "FAILED" if apart or errors or not rows else "partly" if late else "passed", text, rows
