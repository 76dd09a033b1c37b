"""The plan `evidence`: what is promised, measured."""
import concurrent.futures
import json
import random
import sys

from losses import largest_difference

from .machine import DRIVER_NOISE_MIB, MIB, ROOT, OutOfTime, Skipped, used_mib
from .training import events_of, losses_of

NUM_LOSSES = 20
LOSS_TOLERANCE = 1e-4  # of the larger of 1 and the loss
NUM_FORCED_OOMS = 20
EXIT_OUT_OF_MEMORY = 3
PEAK_LIMIT_GIB = 4
PEAKS = ("peak_requested", "peak_allocated", "peak_reserved")


def check_losses(machine, part):
    """The networks of tests/golden on the CPU and on the device."""
    machine.require_device()
    rows, late = [], False
    networks = sorted(path.parent for path in (ROOT / "tests" / "golden").glob("*/config.yaml"))
    for network in networks:
        weights, frozen = network / "initial.safetensors", network / "frozen.safetensors"
        # Paths of weights are relative to where a run is started.
        overrides = [f"loss.1.network.weights.file={frozen}"] if frozen.exists() else []

        def first_losses(device, network=network, weights=weights if weights.exists() else None, overrides=overrides):
            events = events_of(machine, network / "config.yaml", *overrides, name=network.name, device=device,
                               weights=weights)
            return losses_of(events)[:NUM_LOSSES]

        try:
            cpu, other = first_losses("cpu"), first_losses(machine.device)
        except OutOfTime:
            late = True
            break
        except (OSError, RuntimeError, KeyError, ValueError) as error:
            rows.append({"network": network.name, "error": str(error), "difference": float("inf"), "agrees": False})
            machine.output.result(part, {"network": network.name, "error": str(error)})
            continue
        difference = largest_difference(other, cpu)
        rows.append({"network": network.name, "steps": min(len(cpu), len(other)), "difference": difference,
                     "cpu": cpu, machine.device: other,
                     "agrees": len(cpu) == len(other) == NUM_LOSSES and difference <= LOSS_TOLERANCE})
        machine.output.result(part, {key: rows[-1][key] for key in ("network", "steps", "difference", "agrees")})
    worst = max((row["difference"] for row in rows), default=float("inf"))
    wrong = [row["network"] for row in rows if not row["agrees"]]
    text = f"{len(rows)} of {len(networks)} networks, {NUM_LOSSES} steps, largest difference {worst:.1e}"
    status = "FAILED" if wrong or not rows else "partly" if late else "passed"
    return status, text + (f"; apart: {', '.join(wrong)}" if wrong else ""), rows


def synthetic(shape, samples):
    return f"data={{type: synthetic, shape: {shape}, classes: 10, samples: {samples}, validation_samples: 64}}"


def configurations(rehearse):
    """(file, overrides) of at least forty experiments; in a rehearsal some, and small."""
    batches = {"small": (16, 50), "large": (16, 50)} if rehearse else {"small": (128, 1000), "large": (32, 200)}
    bases = [
        ("configs/quickstart.yaml", [], "small"),
        ("configs/mnist_mlp.yaml", [synthetic([28, 28, 1], 4000)], "small"),
        ("configs/mnist_cnn.yaml", [synthetic([28, 28, 1], 4000)], "small"),
        ("configs/cifar10_resnet18.yaml", [synthetic([32, 32, 3], 800)], "large"),
    ]
    adam = "optimizer={type: adamw, lr: 0.001}"
    variations = [[], ["train.amp=bf16"], ["train.amp=fp16", "train.checkpointing=sqrt"],
                  [adam, "train.accumulation_steps=2"], ["memory.workspace_limit=0", "memory.allocator=planned"],
                  [adam, "memory.moments=8bit", "memory.workspace_limit=1GiB"]]
    num_yielded = 0
    for index, variation in enumerate(variations):
        for file, overrides, size in bases:
            if rehearse and "resnet" in file and index > 0:
                continue
            batch = batches[size][index % 2]
            for expandable in ("false", "true"):
                if "memory.allocator=planned" in variation and expandable == "true":
                    continue  # of which there is one segment
                if rehearse == "short" and num_yielded == 4:
                    return
                num_yielded += 1
                yield file, [*overrides, *variation, f"train.batch_size={batch}",
                             f"memory.expandable_segments={expandable}"]


def each_once_first(every):
    """Soon one of every file and of every override: what brings nothing new comes behind. The same order each time."""
    seen, first, rest = set(), [], []
    for file, overrides in random.Random(1).sample(every, len(every)):
        (rest if {file, *overrides} <= seen else first).append((file, overrides))
        seen.update({file, *overrides})
    return first + rest


def words_of(overrides):
    return [*overrides, f"memory.limit={PEAK_LIMIT_GIB}GiB", "train.steps=2", "train.epochs=1", "schedule=constant"]


def plan_of(machine, file, overrides):
    return machine.events("plan", ROOT / file, *words_of(overrides), f"device={{type: {machine.device}}}",
                          "checkpoint={every: 1000000}", seconds=60)[0]


def compared(machine, file, overrides, plan):
    """The row of one experiment: what was planned beside what the run and the driver counted."""
    end = events_of(machine, file, *words_of(overrides), name="peak")[-1]
    row = {"config": file, "set": overrides}
    for peak in PEAKS:
        row[peak] = {"planned": plan[peak], "measured": end[peak]}
    outside = end.get("outside_allocator", {}).get("bytes", 0)
    row["used"] = {"planned": plan["peak_reserved"] + outside, "measured": end["peak_used"]}
    row["equal"] = all(row[peak]["planned"] == row[peak]["measured"] for peak in PEAKS)
    row["beyond_mib"] = (row["used"]["measured"] - row["used"]["planned"]) / MIB
    return row


def plans_of(machine, every):
    """The plan, or the error, of each; several at a time: most of it is starting processes, and nothing is measured."""
    with concurrent.futures.ThreadPoolExecutor(machine.pick(2, 2, 6)) as pool:
        futures = [pool.submit(plan_of, machine, *experiment) for experiment in every]
        try:
            concurrent.futures.wait(futures)
        except BaseException:  # the check is ended
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [future.exception() or future.result() for future in futures]


def check_peaks(machine, part):
    """Planned bytes against the run's, to the byte; and against the driver's count, one run after the other."""
    machine.require_device()
    every = each_once_first(list(configurations(machine.rehearse)))
    rows, errors, late = [], [], False
    for (file, overrides), plan in zip(every, plans_of(machine, every)):
        try:
            if isinstance(plan, Exception):
                raise plan
            rows.append(compared(machine, file, overrides, plan))
            machine.output.result(part, rows[-1])
        except OutOfTime:
            late = True
        except (OSError, RuntimeError, KeyError, IndexError, ValueError) as error:
            errors.append({"config": file, "set": overrides, "error": str(error)})
            machine.output.result(part, errors[-1])
    apart = [row for row in rows if not row["equal"]]
    beyond = max((row["beyond_mib"] for row in rows), key=abs, default=0)
    # The CPU's count is of a process and its heap, and no promise.
    far = [row for row in rows if abs(row["beyond_mib"]) > DRIVER_NOISE_MIB and not machine.rehearse]
    text = (f"{len(rows) - len(apart)} of {len(every)} plans equal the run to the byte; the driver's count is off by "
            f"at most {beyond:.0f} MiB (allowed ±{DRIVER_NOISE_MIB})")
    text += f"; {len(apart)} apart: {apart[0]['config']} {apart[0]['set']}" if apart else ""
    text += f"; {len(far)} off by more" if far else ""
    text += f"; {len(errors)} did not run: {errors[0]['error']}" if errors else ""
    status = "FAILED" if apart or far or errors or not rows else "partly" if late else "passed"
    return status, text, {"rows": rows, "errors": errors}


def write_too_large(path, total_bytes):
    """A network whose parameters are a third more than the device has, in ten segments."""
    features = 4096
    width = int(total_bytes * 1.33 / 10 / 4 / features)
    layers = "".join(f"    - linear: {{out: {width if i % 2 == 0 else features}, bias: false}}\n" for i in range(10))
    path.write_text(f"name: too-large\ndata: {{type: synthetic, shape: [{features}], classes: 10, samples: 8}}\n"
                    f"model:\n  layers:\n{layers}    - linear: {{out: 10}}\nloss: cross_entropy\n"
                    "optimizer: {type: sgd, lr: 0.1}\ntrain: {batch_size: 1, epochs: 1}\n")


def check_oom(machine, part):
    """Runs that cannot fit, by a limit and by what the device has: each says so, and leaves nothing behind."""
    machine.require_device()
    before = None if machine.rehearse else used_mib()
    num_forced = machine.pick(2, 6, NUM_FORCED_OOMS)
    too_large = machine.folder("oom") / "too_large.yaml"
    write_too_large(too_large, machine.checked_device()["total"])
    done = {"limit": 0, "exhaustion": 0}
    errors, late = [], False
    for i in range(num_forced):
        by = "limit" if i % 2 == 0 else "exhaustion"
        file, overrides = ("configs/quickstart.yaml", ["memory.limit=4MiB"]) if by == "limit" else (too_large, [])
        row = {"by": by, "expandable": i % 4 >= 2}
        try:
            events = events_of(machine, file, *overrides, "memory.preflight=false",
                               f"memory.expandable_segments={str(row['expandable']).lower()}", name="oom",
                               expect=EXIT_OUT_OF_MEMORY)
            if not any(event["event"] == "oom" for event in events):
                raise RuntimeError(f"run {i} ended with {EXIT_OUT_OF_MEMORY} and told of no oom event")
            done[by] += 1
        except OutOfTime:
            late = True
            break
        except (OSError, RuntimeError, ValueError) as error:
            errors.append(str(error))
            row["error"] = str(error)
        machine.output.result(part, row)
    after = None if machine.rehearse else used_mib()
    leaks = before is not None and (after is None or abs(after - before) > DRIVER_NOISE_MIB)
    text = f"{done['limit']} by limit and {done['exhaustion']} by exhaustion of {num_forced}"
    text += f"; used before {before} MiB, after {after} MiB (allowed ±{DRIVER_NOISE_MIB})" if before is not None else ""
    text += f"; {len(errors)} went wrong: {errors[0]}" if errors else ""
    status = "FAILED" if errors or leaks or not any(done.values()) else "partly" if late else "passed"
    return status, text, {**done, "errors": errors, "used_before_mib": before, "used_after_mib": after}


def wrapper_of(machine):
    """A program that is trainer with its libraries, for scripts that also start PyTorch."""
    path = machine.folder("bin") / "trainer"
    path.write_text(f'#!/bin/sh\nexec "{ROOT}/scripts/with_libraries.sh" "{machine.trainer}" "$@"\n')
    path.chmod(0o755)
    return path


def figures_of(path):
    """What a script has written: one JSON value, or lines of them; what can be read of it."""
    if not path.exists():
        return None
    text = path.read_text(encoding="utf-8", errors="replace")
    try:
        return json.loads(text)
    except ValueError:
        lines = []
        for line in text.splitlines():
            try:
                lines.append(json.loads(line))
            except ValueError:
                continue
        return lines


def script_ended(result):
    """(status, reason) of a script that says SKIPPED where it can do nothing."""
    skipped = [line for line in result.stdout.splitlines() if line.startswith("SKIPPED")]
    if result.code == 0 and skipped:
        raise Skipped(skipped[-1].removeprefix("SKIPPED: "))
    if result.ended == "late":
        return "partly", "its time was over"
    return ("passed", "") if result.code == 0 else ("FAILED", result.how())


def require_torch(machine, condition="True", otherwise=""):
    """Skips where no Python process imports PyTorch and finds the condition of it to hold."""
    result = machine.run(sys.executable, "-c", f"import torch; raise SystemExit(not ({condition}))", own=False)
    if result.ended != "itself":
        raise Skipped(f"PyTorch does not answer: {result.how()}")
    if result.code != 0:
        raise Skipped(f"PyTorch is not installed{otherwise}")


def check_bench(machine, _):
    """Beside PyTorch. The figures lie in bench.json as they come, so that the end of the time takes none."""
    machine.require_device()
    script = ROOT / "scripts" / "bench_gpu.py"
    if not script.exists():
        raise Skipped("scripts/bench_gpu.py is not there")
    if machine.rehearse:
        require_torch(machine)
    path, log = machine.output.path("bench.json"), machine.output.path("bench_peer.log")
    path.unlink(missing_ok=True)
    # Told its time, it leaves out what does not fit; it is ended only where it does not keep to it.
    result = machine.run(sys.executable, script, "--json", path, "--peer-log", log, "--trainer", wrapper_of(machine),
                         "--budget", max(10, int(machine.left()) - 10),
                         *(["--rehearse"] if machine.rehearse else []), own=False)
    machine.output.keep_log(log)
    status, reason = script_ended(result)
    lines = (result.stdout if result.code == 0 else result.stderr or result.stdout).strip().splitlines()
    text = "; ".join(filter(None, [reason, *lines[-6:]]))
    figures = figures_of(path)
    if status == "partly" and not figures:
        status, text = "FAILED", f"no figure; {text}"
    return status, text, figures


def check_traces(machine, _):
    """What PyTorch's allocator does, for the tests that replay it."""
    machine.require_device()
    if machine.rehearse:
        raise Skipped("PyTorch's allocator is recorded on a GPU")
    require_torch(machine, "torch.cuda.is_available()", ", or finds no GPU")
    folder = machine.folder("traces")
    result = machine.run(sys.executable, ROOT / "scripts" / "record_allocator_trace.py", "--out", folder, own=False)
    files = sorted(folder.glob("*.json.gz"))
    for path in files:
        machine.output.keep(f"traces/{path.name}", path.read_bytes())
    status, reason = script_ended(result)
    text = f"{len(files)} traces, for tests/memory/traces/" + (f"; {reason}" if reason else "")
    if result.code != 0:
        text += "; " + " / ".join(result.stderr.strip().splitlines()[-2:])
    return status if files else "FAILED", text, [path.name for path in files]
