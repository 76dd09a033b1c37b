"""The plan `runs`: does it run?"""
import os
import pathlib
import shutil
import sys
import sysconfig

from losses import largest_difference

from .machine import DRIVER_NOISE_MIB, MIB, OutOfTime, Skipped, ask
from .test_cases import describe, list_cases, run_cases
from .training import events_of, losses_of, speed_of

QUICKSTART = "configs/quickstart.yaml"
TELL_TORCH = ("import torch; print(torch.__version__, torch.version.cuda, torch.backends.cudnn.version(), "
              "torch.cuda.is_available())")
TORCH_SECONDS = 30
NUM_COMPARED = 20  # losses
# f32: other orders of summation, under AdamW's first steps. 16 bit: activations of 8 bits of precision or 11.
TOLERANCES = {"f32": 2e-3, "16 bit": 0.1}
# Name → (overrides, keys of the device, flags, tolerance, whether the bits of the losses are those of "graph").
MODES = {
    "debug-sync": ([], "", ["--debug-sync"], "f32", True),
    "no graph": ([], ", cuda_graph: false", [], "f32", True),
    "graph": ([], "", [], "f32", True),
    "no branches": ([], ", branches: false", [], "f32", True),
    "planned": (["memory.allocator=planned"], "", [], "f32", True),
    "expandable": (["memory.expandable_segments=true"], "", [], "f32", True),
    "bf16": (["train.amp=bf16"], "", [], "16 bit", False),
    "fp16": (["train.amp=fp16"], "", [], "16 bit", False),
}
DEVICE_PROGRAMS = ("test_cuda_device", "test_gpu")


def torch_of(machine):
    """Its versions, or why they are not told."""
    result = machine.run(sys.executable, "-c", TELL_TORCH, seconds=TORCH_SECONDS, own=False)
    if result.ended != "itself":
        return f"does not answer: {result.how()}"
    return result.stdout.strip() if result.code == 0 else "not there"


def what_torch_compile_lacks():
    """It builds what it launches kernels with."""
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang") or shutil.which("cc")
    header = pathlib.Path(sysconfig.get_paths()["include"]) / "Python.h"
    return [name for name, is_there in (("a C compiler", compiler), ("Python.h", header.exists())) if not is_there]


def check_devices(machine, _):
    """What is there: the GPU, the driver, PyTorch, the libraries; and trainer's own view of them."""
    machine.require_device()
    details = {"nvidia_smi": ask("nvidia-smi"), "library_path": machine.library_path.split(":"),
               "torch": torch_of(machine), "compile_lacks": what_torch_compile_lacks()}
    linked = machine.run("ldd", machine.module if machine.module.exists() else machine.trainer, seconds=10)
    details["linked"] = linked.stdout.splitlines()
    details["doctor"] = machine.doctor()
    device = machine.checked_device()
    problem = device.get("problem") or ""
    text = f"{device['name']}, {device['total'] / MIB:.0f} MiB"
    cuda = details["doctor"].get("cuda") or {}
    text += f"; driver {cuda.get('driver') or 'none'}, cuBLASLt {cuda.get('cublas')}, cuDNN {cuda.get('cudnn')}, " \
            f"kernels for {cuda.get('architectures')}; torch {details['torch']}"
    if details["compile_lacks"]:
        text += f"; torch.compile lacks {' and '.join(details['compile_lacks'])}"
    missing = [line.split()[0] for line in details["linked"] if "not found" in line]
    if missing:
        text += f"; not found: {', '.join(missing)}"
    failed = bool(problem or missing)
    return "FAILED" if failed else "passed", text + (f"; {problem}" if problem else ""), details


def check_quickstart(machine, part):
    """The network of the README on the CPU and, in every mode, on the device: each ends, is finite, is near the CPU's,
    and what promises the same bits has them."""
    machine.require_device()
    shorter = machine.pick(["train.steps=3"], [], [])
    runs, rows = {}, []

    def train(name, device, overrides=(), keys="", flags=()):
        try:
            runs[name] = events_of(machine, QUICKSTART, *shorter, *overrides, name=name, device=device,
                                   device_keys=keys, flags=flags)
            end = runs[name][-1]
            row = {"mode": name, "accuracy": end["accuracy"], "samples_per_second": end["samples_per_second"],
                   "passes": end["passes"]}
        except OutOfTime:
            raise
        except (OSError, RuntimeError, ValueError) as error:
            row = {"mode": name, "error": str(error)}
        return row

    late = False
    cpu = train("cpu", "cpu")
    machine.output.result(part, cpu)
    for name, (overrides, keys, flags, tolerance, has_bits) in MODES.items():
        try:
            row = train(name, machine.device, overrides, keys, flags)
        except OutOfTime:
            late = True
            break
        if name in runs and "cpu" in runs:
            losses = losses_of(runs[name])
            row["difference"] = largest_difference(losses[:NUM_COMPARED], losses_of(runs["cpu"])[:NUM_COMPARED])
            row["agrees"] = row["difference"] <= TOLERANCES[tolerance]
            row["losses"] = losses[:NUM_COMPARED]
            if has_bits:
                row["same_bits"] = losses == losses_of(runs.get("debug-sync", runs[name]))
            if name == "graph" and not machine.rehearse:
                row["replays"] = runs[name][-1]["passes"]["replayed"] > 0
                row["branches"] = runs[name][-1]["passes"]["branches"]
        rows.append(row)
        machine.output.result(part, {key: value for key, value in row.items() if key != "losses"})
    wrong = [f"{row['mode']}: {row.get('error') or explained(row)}" for row in [cpu, *rows]
             if "error" in row or not all(row.get(key, True) for key in ("agrees", "same_bits", "replays"))]
    fastest = max((row for row in rows if "error" not in row), key=lambda row: row["samples_per_second"], default=None)
    text = f"{len(rows) - sum('error' in row for row in rows)} of {len(MODES)} modes end"
    if fastest:
        text += f", {fastest['mode']} with {fastest['samples_per_second']:.0f} samples/s"
    text += f"; {'; '.join(wrong)}" if wrong else ""
    return "FAILED" if wrong else "partly" if late else "passed", text, {"cpu": cpu, "modes": rows}


def explained(row):
    faults = []
    if not row.get("agrees", True):
        faults.append(f"losses apart from the CPU's by {row['difference']:.1e}")
    if not row.get("same_bits", True):
        faults.append("other bits than with --debug-sync")
    if not row.get("replays", True):
        faults.append(f"no step was replayed: {row['passes']['obstacle']}")
    return ", ".join(faults)


def outside_of(events):
    """(when the device was made, when the run ended): bytes of this process that no segment holds."""
    end = events[-1]
    last = [event for event in events if event["event"] == "step"][-1]["memory"]
    return end["outside_allocator"]["bytes"], last["device_used"] - last["reserved"]


def check_loading(machine, part):
    """Whether all that is loaded is loaded when the device is made: what the process holds outside the allocator must
    not grow in the steps, whatever CUDA_MODULE_LOADING says."""
    machine.require_device()
    rows, errors = [], []
    configs, steps = machine.pick(([QUICKSTART], 2), ([QUICKSTART], 6), (["configs/bench/mlp.yaml", QUICKSTART], 6))
    for config in configs:
        for loading in ("", "LAZY", "EAGER"):
            try:
                events = events_of(machine, config, f"train.steps={steps}", "train.batch_size=64", name="loading",
                                   CUDA_MODULE_LOADING=loading or None)
            except (OSError, RuntimeError, KeyError, ValueError) as error:
                errors.append(f"{pathlib.PurePath(config).stem} {loading or 'unset'}: {error}")
                machine.output.result(part, {"config": config, "loading": loading or "unset", "error": str(error)})
                continue
            before, after = outside_of(events)
            rows.append({"config": config, "loading": loading or "unset", "outside_at_first": before,
                         "outside_at_last": after, "parts": events[-1]["outside_allocator"]["parts"]})
            machine.output.result(part, rows[-1])
    growth = max(((row["outside_at_last"] - row["outside_at_first"]) / MIB for row in rows), default=0.0)
    # Own kernels and cuBLASLt's in the first network, cuDNN's too in the second.
    text = "outside the allocator, MiB at first and at last: " + "; ".join(
        f"{pathlib.PurePath(row['config']).stem} {row['loading']} {row['outside_at_first'] / MIB:.0f} "
        f"{row['outside_at_last'] / MIB:.0f}" for row in rows)
    text += f"; grows by at most {growth:.0f} (allowed {DRIVER_NOISE_MIB})"
    # On the CPU the process itself is counted, whose heap grows.
    failed = growth > DRIVER_NOISE_MIB and not machine.rehearse
    text += f"; did not run: {'; '.join(errors)}" if errors else ""
    return "FAILED" if failed or errors else "passed", text, rows


def check_tests(machine, part):
    """The tests that need the device, one after the other: they compare what the whole device holds."""
    machine.require_device()
    programs = [machine.tests / name for name in DEVICE_PROGRAMS if machine.tests and (machine.tests / name).exists()]
    if not programs:
        raise Skipped("the tree has no tests of the device")
    cases = []
    for program in programs:
        names = list_cases(machine, program)
        cases += [(program, name) for name in names[:machine.pick(3, len(names), len(names))]]
    rows, late = run_cases(machine, part, cases)
    status, text, count = describe(rows, len(cases), late)
    if count["skipped"] and not machine.rehearse:  # there is a GPU
        status = "FAILED"
    return status, text, rows


def check_speeds(machine, part):
    """A first figure for each network and precision, with and without branches."""
    machine.require_device()
    networks = [("configs/bench/mlp.yaml", 1024, 200), ("configs/bench/cnn.yaml", 256, 200),
                ("configs/bench/resnet18.yaml", 256, 60)]
    precisions = {"f32": ("", ""), "f32 without branches": (", branches: false", ""), "bf16": ("", "train.amp=bf16"),
                  "bf16 without branches": (", branches: false", "train.amp=bf16"), "tf32": (", tf32: true", ""),
                  "fp16": ("", "train.amp=fp16")}
    rows, wrong, late = [], [], False
    for config, batch, steps in machine.pick(networks[:1], networks[:2], networks):
        for precision, (keys, override) in precisions.items():
            batch, steps = machine.pick((8, 2), (16, 4), (batch, steps))
            row = {"config": config, "batch": batch, "precision": precision}
            try:
                events = events_of(machine, config, f"train.batch_size={batch}", f"train.steps={steps}",
                                   "train.epochs=1000", *([override] if override else []), name="speed", device_keys=keys, seconds=40)
                row.update(speed_of(events))
            except OutOfTime:
                late = True
                break
            except (OSError, RuntimeError, ValueError) as error:
                row["error"] = str(error)
                wrong.append(f"{config} {precision}: {error}")
            rows.append(row)
            machine.output.result(part, row)
    text = "; ".join(f"{row['config'].split('/')[-1][:-5]} {row['precision']} {row['samples_per_second']:.0f}/s"
                     for row in rows if "error" not in row)
    text += f"; {len(wrong)} failed: {wrong[0]}" if wrong else ""
    return "FAILED" if wrong else "partly" if late else "passed", text, rows
