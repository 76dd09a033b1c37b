"""The part `ranks` of the plan `evidence`: several ranks that share the one GPU, through NCCL."""
from losses import largest_difference

from .evidence import PEAKS, synthetic
from .machine import MIB, ROOT, OutOfTime, Skipped
from .runs import outside_of
from .training import events_of, losses_of

CONFIG = "configs/mnist_mlp.yaml"
OVERRIDES = [synthetic([28, 28, 1], 4000), "train.batch_size=96", "train.epochs=1", "schedule=constant",
             "memory.limit=512MiB"]
FIRST_THAT_SHARES = (2, 30)
TOLERANCE = 2e-3  # other orders of summation
NUM_COMPARED = 20  # losses
DETERMINISTIC = ["parallel.deterministic=true", "parallel.parts=4"]  # the same losses on 1, 2 and 4 ranks
SHARE = {"NCCL_MULTI_RANK_GPU_ENABLE": "1"}


def require_nccl(machine):
    version = (machine.doctor().get("cuda") or {}).get("nccl") or ""
    if tuple(map(int, version.split(".")[:2] if version else (0, 0))) < FIRST_THAT_SHARES:
        raise Skipped(f"ranks share a GPU from NCCL 2.30 on, and there is {version or 'none'}: the PyPI package "
                      "nvidia-nccl-cu13 has it")


def check_ranks(machine, part):
    """2 and 4 ranks on one GPU: their losses are those of one process, with parallel.deterministic to the bit, and rank 0
    holds what the plan says to the byte."""
    machine.require_device()
    if not machine.rehearse:
        require_nccl(machine)
    rows, late = [], False
    for deterministic in (False, True):
        if not late:
            late = run_ranks(machine, part, deterministic, rows)
    texts = []
    for row in rows:
        name = f"{row['ranks']} ranks{', deterministic' if row['deterministic'] else ''}"
        if "error" in row:
            texts.append(f"{name}: {row['error']}")
            continue
        nccl = sum(each["bytes"] for each in (row["outside"]["measured"] or {}).get("parts", []) if each["name"] == "NCCL")
        texts.append(f"{name}: losses apart by {row['difference']:.1e}, the plan "
                     f"{'equals' if row['equal'] else 'is not'} the run"
                     + (f", NCCL {nccl / MIB:.0f} MiB, {row['grown_mib']:.0f} more beside the allocator at the end"
                        if nccl else ""))
    failed = not rows or any("error" in row or not row["agrees"] or not row["equal"] for row in rows)
    return "FAILED" if failed else "partly" if late else "passed", "; ".join(texts), rows


def run_ranks(machine, part, deterministic, rows):
    """Adds a row for each number of ranks. Returns whether the time was over before the last."""
    overrides = [*OVERRIDES, f"train.steps={machine.pick(4, 8, 30)}", *(DETERMINISTIC if deterministic else [])]
    one = losses_of(events_of(machine, CONFIG, *overrides, name="ranks"))[:NUM_COMPARED]
    for ranks in machine.pick((2,), (2, 4), (2, 4)):
        row = {"ranks": ranks, "deterministic": deterministic}
        try:
            plan = machine.events("plan", ROOT / CONFIG, *overrides, "--ranks", ranks,
                                  f"device={{type: {machine.device}}}", "checkpoint={every: 1000000}", seconds=60)[0]
            events = events_of(machine, CONFIG, *overrides, name="ranks", flags=["--ranks", ranks], **SHARE)
            end = events[-1]
            losses = losses_of(events)[:NUM_COMPARED]
            row["difference"] = largest_difference(losses, one)
            row["agrees"] = losses == one if deterministic else (
                len(losses) == len(one) and row["difference"] <= TOLERANCE)
            row["peaks"] = {peak: {"planned": plan[peak], "measured": end[peak]} for peak in PEAKS}
            row["equal"] = all(peak["planned"] == peak["measured"] for peak in row["peaks"].values())
            row["outside"] = {"planned": plan.get("outside_allocator"), "measured": end.get("outside_allocator")}
            before, after = outside_of(events)
            row["grown_mib"] = (after - before) / MIB
            row["samples_per_second"] = end["samples_per_second"]
        except OutOfTime:
            return True
        except (OSError, RuntimeError, KeyError, IndexError, ValueError) as error:
            row["error"] = str(error)
        rows.append(row)
        machine.output.result(part, row)
    return False
