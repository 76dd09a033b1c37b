#!/usr/bin/env python3
"""The parts of gpu_check.sh. Each ends with a row of the table, whatever happens in it: passed, FAILED, SKIPPED with
the reason, or partly, where its share of the time was over before it was done."""
import argparse
import concurrent.futures
import datetime
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parent.parent
MIB = 1024 * 1024
# Seconds for each part, in order; what one leaves is the next one's. In all under nine minutes.
BUDGETS = {"tests": 75, "memcheck": 60, "losses": 30, "peaks": 110, "oom": 75, "bench": 120, "traces": 55}
NUM_LOSSES = 20
LOSS_TOLERANCE = 1e-4  # of the larger of 1 and the loss
NUM_FORCED_OOMS = 100
EXIT_OUT_OF_MEMORY = 3
PEAK_LIMIT_GIB = 4
REHEARSED_TESTS = ("test_core", "test_memory")


class Skipped(Exception):
    """Why a part cannot be done here."""


class OutOfTime(Exception):
    pass


class Machine:
    """The built tree, the device that is checked, and the time that is left."""

    def __init__(self, build, rehearse, out):
        self.rehearse, self.out = rehearse, out
        self.trainer, self.tests = find_tree(build)
        self.device = "cpu" if rehearse else "cuda"
        self.gpu = {} if rehearse else query_gpu()
        self.deadline = float("inf")

    def left(self):
        return self.deadline - time.monotonic()

    def run(self, command, cwd=ROOT, environment=None):
        """The finished process; OutOfTime where the part's time ends first."""
        if self.left() <= 0:
            raise OutOfTime
        try:
            return subprocess.run([str(word) for word in command], cwd=cwd, env={**os.environ, **(environment or {})},
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                                  timeout=self.left(), check=False)
        except subprocess.TimeoutExpired as error:
            raise OutOfTime from error

    def events(self, *words, expect=0):
        """What a command of trainer says with --json; RuntimeError where it does not end as expected."""
        result = self.run([self.trainer, *words, "--json"])
        if result.returncode != expect:
            raise RuntimeError(f"trainer {' '.join(map(str, words))} ended with {result.returncode}, not {expect}: "
                               + " / ".join(result.stderr.strip().splitlines()[-3:]))
        return [json.loads(line) for line in result.stdout.splitlines()]

    def require_device(self):
        if not self.rehearse and not self.gpu:
            raise Skipped("no GPU: nvidia-smi finds none")
        if not self.trainer:
            raise Skipped("no built trainer: scripts/trainer builds one; --build DIR names another tree")


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


def ask(*command):
    """stdout of a program that may not be there."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True, cwd=ROOT).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def query_gpu():
    fields = ("name", "driver_version", "memory.total", "memory.used", "clocks.sm", "clocks.mem", "clocks.max.sm",
              "clocks.max.mem", "power.limit", "compute_cap", "pstate")
    answer = ask("nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits", "-i", "0")
    values = [value.strip() for value in answer.splitlines()[0].split(",")] if answer else []
    return dict(zip(fields, values)) if len(values) == len(fields) else {}


def used_mib():
    answer = ask("nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", "0")
    return int(answer.splitlines()[0]) if answer else None


# (a)


def run_test(machine, program):
    """The outcome of one test program: passed, failed, skipped, or out of time."""
    module = machine.trainer.parent / "libtrainer_cuda.so"
    environment = {"TRAINER_CUDA_MODULE": str(module)} if module.exists() else {}
    begin = time.monotonic()
    try:
        result = machine.run([program], cwd=machine.trainer.parent, environment=environment)
    except OutOfTime:
        return {"program": program.name, "outcome": "out of time"}
    output = result.stdout + result.stderr
    skipped = output.count("SKIPPED")
    outcome = {"program": program.name, "outcome": "failed" if result.returncode else "passed", "skipped": skipped,
               "seconds": round(time.monotonic() - begin, 1)}
    if result.returncode:
        outcome["output"] = output[-4000:]
    return outcome


def check_tests(machine):
    machine.require_device()
    if not machine.tests:
        raise Skipped("the tree has no test programs")
    programs = sorted(path for path in machine.tests.glob("test_*") if os.access(path, os.X_OK) and path.is_file())
    if machine.rehearse:
        programs = [program for program in programs if program.name in REHEARSED_TESTS]
    if not programs:
        raise Skipped("the tree has none of the test programs")
    # Those that use the GPU one after the other, beside them the others.
    with concurrent.futures.ThreadPoolExecutor(max(1, (os.cpu_count() or 2) // 2)) as pool:
        outcomes = list(pool.map(lambda program: run_test(machine, program), programs))
    failed = [outcome["program"] for outcome in outcomes if outcome["outcome"] == "failed"]
    late = [outcome["program"] for outcome in outcomes if outcome["outcome"] == "out of time"]
    text = f"{sum(outcome['outcome'] == 'passed' for outcome in outcomes)} of {len(outcomes)} programs pass"
    text += f"; failed: {', '.join(failed)}" if failed else ""
    text += f"; not finished: {', '.join(late)}" if late else ""
    return "FAILED" if failed else "partly" if late else "passed", text, outcomes


def check_memcheck(machine):
    if machine.rehearse:
        raise Skipped("memcheck watches a GPU")
    machine.require_device()
    toolkit = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    sanitizer = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path=f"{toolkit}/bin")
    if not sanitizer:
        raise Skipped("compute-sanitizer is not installed")
    program = machine.tests / "test_gpu" if machine.tests else None
    if not program or not program.exists():
        raise Skipped("the tree has no test_gpu")
    module = machine.trainer.parent / "libtrainer_cuda.so"
    result = machine.run([sanitizer, "--tool", "memcheck", "--error-exitcode", "99", program],
                         cwd=machine.trainer.parent, environment={"TRAINER_CUDA_MODULE": str(module)})
    output = result.stdout + result.stderr
    summary = [line for line in output.splitlines() if "ERROR SUMMARY" in line]
    text = summary[-1].strip("= ") if summary else f"ended with {result.returncode}"
    return "passed" if result.returncode == 0 else "FAILED", text, output[-4000:] if result.returncode else None


# (b)


def first_losses(machine, network, device, folder):
    words = ["run", network / "config.yaml", f"device={{type: {device}}}", "checkpoint.every=1000000",
             f"output={folder}/{network.name}-{device}"]
    weights = network / "initial.safetensors"
    if weights.exists():
        words += ["--weights", weights]
    return [event["loss"] for event in machine.events(*words) if event["event"] == "step"][:NUM_LOSSES]


def check_losses(machine):
    machine.require_device()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for network in sorted(path.parent for path in (ROOT / "tests" / "golden").glob("*/config.yaml")):
            cpu = first_losses(machine, network, "cpu", folder)
            other = first_losses(machine, network, machine.device, f"{folder}/other")
            difference = max((abs(a - b) / max(1, abs(a)) for a, b in zip(cpu, other)), default=float("inf"))
            rows.append({"network": network.name, "steps": min(len(cpu), len(other)), "difference": difference,
                         "cpu": cpu, machine.device: other,
                         "agrees": len(cpu) == len(other) == NUM_LOSSES and difference <= LOSS_TOLERANCE})
    worst = max(row["difference"] for row in rows)
    wrong = [row["network"] for row in rows if not row["agrees"]]
    text = f"{len(rows)} networks, {NUM_LOSSES} steps, largest difference {worst:.1e}"
    return "FAILED" if wrong else "passed", text + (f"; apart: {', '.join(wrong)}" if wrong else ""), rows


# (c)


def synthetic(shape, samples):
    return f"data={{type: synthetic, shape: {shape}, classes: 10, samples: {samples}, validation_samples: 64}}"


def configurations(rehearse):
    """(file, overrides) of at least forty experiments."""
    batches = {"small": (16, 50), "large": (16, 50)} if rehearse else {"small": (128, 1000), "large": (32, 200)}
    bases = [
        ("configs/quickstart.yaml", [], "small"),
        ("configs/mnist_mlp.yaml", [synthetic([28, 28, 1], 4000)], "small"),
        ("configs/mnist_cnn.yaml", [synthetic([28, 28, 1], 4000)], "small"),
        ("configs/cifar10_resnet18.yaml", [synthetic([32, 32, 3], 800)], "large"),
    ]
    adam = "optimizer={type: adamw, lr: 0.001}"
    variations = [[], ["optimizer={type: sgd, lr: 0.01}"], ["optimizer={type: sgd, lr: 0.01, momentum: 0.9}"],
                  [adam, "train.accumulation_steps=2"], ["memory.workspace_limit=0"],
                  [adam, "memory.workspace_limit=1GiB"]]
    for index, variation in enumerate(variations):
        for file, overrides, size in bases:
            if rehearse and "resnet" in file and index > 0:
                continue
            batch = batches[size][index % 2]
            for expandable in ("false", "true"):
                yield file, [*overrides, *variation, f"train.batch_size={batch}",
                             f"memory.expandable_segments={expandable}"]


def compare_peaks(machine, file, overrides, folder):
    words = [ROOT / file, *overrides, f"device={{type: {machine.device}}}", f"memory.limit={PEAK_LIMIT_GIB}GiB",
             "train.steps=2", "train.epochs=1", "schedule=constant", "checkpoint={every: 1000000}"]
    plan = machine.events("plan", *words)[0]
    end = machine.events("run", *words, f"output={folder}")[-1]
    row = {"config": file, "set": overrides}
    for peak in ("peak_requested", "peak_allocated", "peak_reserved"):
        row[peak] = {"planned": plan[peak], "measured": end[peak]}
    outside = end.get("outside_allocator", {}).get("bytes", 0)
    row["used"] = {"planned": plan["peak_reserved"] + outside, "measured": end["peak_used"]}
    row["equal"] = all(row[peak]["planned"] == row[peak]["measured"]
                       for peak in ("peak_requested", "peak_allocated", "peak_reserved"))
    return row


def check_peaks(machine):
    machine.require_device()
    rows, errors, late = [], [], False
    every = list(configurations(machine.rehearse))
    # Several at a time where the GPU has room for them: most of the time goes into starting and ending processes.
    has_room = float(machine.gpu.get("memory.total", 0)) > 8 * PEAK_LIMIT_GIB * 1024
    num_workers = 4 if has_room else 1
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(num_workers) as pool:
        futures = [pool.submit(compare_peaks, machine, file, overrides, f"{folder}/{index}")
                   for index, (file, overrides) in enumerate(every)]
        for (file, overrides), future in zip(every, futures):
            try:
                rows.append(future.result())
            except OutOfTime:
                late = True
            except (OSError, RuntimeError, KeyError, IndexError) as error:
                errors.append({"config": file, "set": overrides, "error": str(error)})
    apart = [row for row in rows if not row["equal"]]
    beyond = max((row["used"]["measured"] - row["used"]["planned"] for row in rows), default=0)
    text = (f"{len(rows) - len(apart)} of {len(every)} plans equal the run to the byte; "
            f"used beyond reserved and context: at most {beyond / MIB:.0f} MiB")
    text += f"; {len(apart)} apart" if apart else ""
    text += f"; {len(errors)} did not run: {errors[0]['error']}" if errors else ""
    status = "FAILED" if apart or errors or not rows else "partly" if late else "passed"
    return status, text, {"at_a_time": num_workers, "rows": rows, "errors": errors}


# (d)


def write_too_large(path, total_bytes):
    """A network whose parameters are a third more than the device has, in ten segments."""
    features = 4096
    width = int(total_bytes * 1.33 / 10 / 4 / features)
    layers = "".join(f"    - linear: {{out: {width if i % 2 == 0 else features}, bias: false}}\n" for i in range(10))
    path.write_text(f"name: too-large\ndata: {{type: synthetic, shape: [{features}], classes: 10, samples: 8}}\n"
                    f"model:\n  layers:\n{layers}    - linear: {{out: 10}}\nloss: cross_entropy\n"
                    "optimizer: {type: sgd, lr: 0.1}\ntrain: {batch_size: 1, epochs: 1}\n")


def check_oom(machine):
    machine.require_device()
    before = None if machine.rehearse else used_mib()
    devices = {device["kind"]: device for device in machine.events("doctor")[0]["devices"]}
    if machine.device not in devices:
        raise RuntimeError(f"trainer doctor names no device {machine.device}")
    num_forced = 6 if machine.rehearse else NUM_FORCED_OOMS
    done = {"limit": 0, "exhaustion": 0}
    errors, late = [], False
    with tempfile.TemporaryDirectory() as folder:
        too_large = pathlib.Path(folder) / "too_large.yaml"
        write_too_large(too_large, devices[machine.device]["total"])
        for i in range(num_forced):
            by = "limit" if i % 2 == 0 else "exhaustion"
            words = ([ROOT / "configs" / "quickstart.yaml", "memory.limit=6MiB"] if by == "limit" else [too_large])
            words += [f"device={{type: {machine.device}}}", "memory.preflight=false",
                      f"memory.expandable_segments={'true' if i % 4 >= 2 else 'false'}", f"output={folder}/{i}"]
            try:
                events = machine.events("run", *words, expect=EXIT_OUT_OF_MEMORY)
            except OutOfTime:
                late = True
                break
            except (OSError, RuntimeError) as error:
                errors.append(str(error))
                continue
            if any(event["event"] == "oom" for event in events):
                done[by] += 1
            else:
                errors.append(f"run {i} ended with {EXIT_OUT_OF_MEMORY} and told of no oom event")
    after = None if machine.rehearse else used_mib()
    text = f"{done['limit']} by limit and {done['exhaustion']} by exhaustion of {num_forced}"
    text += f"; used before {before} MiB, after {after} MiB" if before is not None else ""
    text += f"; {len(errors)} went wrong: {errors[0]}" if errors else ""
    status = "FAILED" if errors or before != after else "partly" if late else "passed"
    return status, text, {**done, "errors": errors, "used_before_mib": before, "used_after_mib": after}


# (e), (f)


def check_bench(machine):
    if machine.rehearse:
        raise Skipped("times of a GPU are measured on one")
    machine.require_device()
    script = ROOT / "scripts" / "bench_gpu.py"
    if not script.exists():
        raise Skipped("scripts/bench_gpu.py is not there")
    path = machine.out / "bench_gpu_part.json"
    result = machine.run([sys.executable, script, "--json", path], environment={"TRAINER": str(machine.trainer)})
    figures = json.loads(path.read_text()) if path.exists() else None
    path.unlink(missing_ok=True)
    lines = (result.stdout if result.returncode == 0 else result.stderr).strip().splitlines()
    return "passed" if result.returncode == 0 else "FAILED", lines[-1] if lines else "", figures


def check_traces(machine):
    if machine.rehearse:
        raise Skipped("PyTorch's allocator is recorded on a GPU")
    machine.require_device()
    if subprocess.run([sys.executable, "-c", "import torch; raise SystemExit(not torch.cuda.is_available())"],
                      capture_output=True, check=False).returncode != 0:
        raise Skipped("PyTorch is not installed, or finds no GPU")
    folder = machine.out / "allocator_traces"
    result = machine.run([sys.executable, ROOT / "scripts" / "record_allocator_trace.py", "--out", folder])
    files = sorted(path.name for path in folder.glob("*.json.gz"))
    text = f"{len(files)} traces in {folder}; to be kept in tests/memory/traces/"
    if result.returncode != 0:
        text += "; " + " / ".join(result.stderr.strip().splitlines()[-2:])
    return "passed" if result.returncode == 0 and files else "FAILED", text, files


PARTS = {"tests": check_tests, "memcheck": check_memcheck, "losses": check_losses, "peaks": check_peaks,
         "oom": check_oom, "bench": check_bench, "traces": check_traces}


def run_part(machine, name):
    begin = time.monotonic()
    details = None
    try:
        status, text, details = PARTS[name](machine)
    except Skipped as reason:
        status, text = "SKIPPED", str(reason)
    except OutOfTime:
        status, text = "partly", "its time was over"
    except Exception as error:  # a part's failure is its row, and the others go on
        status, text, details = "FAILED", str(error) or type(error).__name__, traceback.format_exc()
    return {"part": name, "status": status, "seconds": round(time.monotonic() - begin, 1), "text": text,
            "details": details}


def describe(machine):
    """Date, machine and program, for the head of the file."""
    doctor = None
    if machine.trainer:
        try:
            machine.deadline = time.monotonic() + 30
            doctor = machine.events("doctor")[0]
        except (RuntimeError, OutOfTime, IndexError, OSError) as error:
            doctor = {"error": str(error)}
    return {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "rehearsal": machine.rehearse, "gpu": machine.gpu or None,
            "commit": ask("git", "rev-parse", "HEAD") or None,
            "changed": bool(ask("git", "status", "--porcelain", "--untracked-files=no")),
            "system": platform.platform(), "cores": os.cpu_count(), "doctor": doctor,
            # What cuDNN plans for this GPU from elsewhere.
            "cudnn_device_properties": ((doctor or {}).get("cuda") or {}).get("cudnn_device_properties")}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, help="where the JSON file goes; scripts/results if not given")
    parser.add_argument("--build", type=pathlib.Path, help="the build tree, or an installed one")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--rehearse", action="store_true", help="with the CPU in the GPU's place")
    arguments = parser.parse_args()
    default_out = ROOT / "build" / "gpu_check" if arguments.rehearse else ROOT / "scripts" / "results"
    out = (arguments.out or default_out).resolve()
    out.mkdir(parents=True, exist_ok=True)

    begin = time.monotonic()
    machine = Machine(arguments.build, arguments.rehearse, out)
    report = describe(machine)
    rows = report["parts"] = []
    deadline = time.monotonic()
    for name in arguments.only:
        deadline += BUDGETS[name]
        machine.deadline = deadline
        print(f"{name} …", file=sys.stderr, flush=True)
        rows.append(run_part(machine, name))
    report["seconds"] = round(time.monotonic() - begin, 1)

    print(f"{'part':<10} {'':<8} {'seconds':>7}")
    for row in rows:
        print(f"{row['part']:<10} {row['status']:<8} {row['seconds']:>7.1f}  {row['text']}")
    if machine.gpu or machine.rehearse:
        kind = "rehearsal" if machine.rehearse else "gpu_" + "_".join(machine.gpu["name"].lower().split())
        path = out / f"{kind}_{report['date'][:19].replace(':', '')}.json"
        path.write_text(json.dumps(report, indent=1) + "\n")
        print(f"written to {path}")
    return 1 if any(row["status"] == "FAILED" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
