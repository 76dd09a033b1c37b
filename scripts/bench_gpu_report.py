"""What bench_gpu.py makes of its figures: medians, ratios, bounds, text."""
import statistics

from bench_gpu_networks import MEMORY_GOAL, NETWORKS

MIB = 2**20
# trainer's speed is told over the fastest of each kind of modes.
KINDS = {"fastest": ("eager", "captured", "compile", "compile captured", "compile graphs"),
         "compiled with graphs": ("compile captured", "compile graphs"),
         "compiled": ("compile",), "captured": ("captured",), "eager": ("eager",)}


def summary_of(plan):
    """Of a plan event, what bounds a step: the calls as [FLOPs, bytes of the operands, how many of them]."""
    calls = [[op["flops"], op["input_bytes"] + op["output_bytes"], op["calls"]] for op in plan["ops"]]
    return {"flops": plan["step_flops"], "bytes": sum(num_bytes * count for _, num_bytes, count in calls),
            "calls": sum(count for _, _, count in calls), "peak_reserved": plan["peak_reserved"], "by_call": calls}


def bounds_of(program, ceilings, precision):
    """Seconds that a step takes at least by FLOPs, by bytes (each operand once) and by calls, and where each call takes the
    longest of its three. Calls of one kernel each: those of several take more."""
    if not ceilings or "failed" in ceilings:
        return {}
    rate, bandwidth = ceilings["flops_per_second"][precision], ceilings["bytes_per_second"]
    gap = ceilings["node_seconds"]
    return {"flops": program["flops"] / rate, "bytes": program["bytes"] / bandwidth, "calls": program["calls"] * gap,
            "together": sum(count * max(flops / rate, num_bytes / bandwidth, gap)
                            for flops, num_bytes, count in program["by_call"])}


def speed_of(result):
    """Median, least, most and spread of the repetitions; None without any."""
    runs = [run["samples_per_second"] for run in result.get("runs", [])]
    if not runs:
        return None
    median = statistics.median(runs)
    return {"median": median, "least": min(runs), "most": max(runs), "spread": (max(runs) - min(runs)) / median,
            "step_seconds": statistics.median(run["step_seconds"] for run in result["runs"])}


def ratios_in(results):
    """trainer over the fastest mode of each kind, in one precision: speed, and memory beside the fastest of all."""
    speeds = {mode: speed_of(result) for mode, result in results.items()}
    own = speeds.pop("trainer", None)
    ratios = {}
    if not own:
        return ratios
    for kind, modes in KINDS.items():
        timed = [mode for mode in modes if speeds.get(mode)]
        if timed:
            fastest = max(timed, key=lambda mode: speeds[mode]["median"])
            ratios[kind] = {"mode": fastest, "speed": own["median"] / speeds[fastest]["median"],
                            "trains_alike": "differs" not in results[fastest]}
    peers = {mode: results[mode]["memory"] for mode, speed in speeds.items() if speed and results[mode].get("memory")}
    memory = results["trainer"].get("memory")
    for name, mode in (("memory", ratios.get("fastest", {}).get("mode")),
                       ("memory_of_least", min(peers, key=lambda mode: peers[mode]["reserved_steady"], default=None))):
        if mode in peers and memory:
            ratios[name] = {"mode": mode, **{key: memory[key] / peers[mode][key]
                                             for key in ("reserved", "reserved_steady", "allocated", "driver")
                                             if peers[mode].get(key)}}
    return ratios


def ratios_of(name, entry):
    """By precision, and what becomes of the goals."""
    ratios = {precision: ratios_in(results) for precision, results in entry["precisions"].items()}
    goals = []
    for precision, found in ratios.items():
        for kind, goal in NETWORKS[name]["goals"].get(precision, {}).items():
            value = found.get(kind, {}).get("speed")
            counts = value is not None and found[kind]["trains_alike"]
            goals.append({"precision": precision, "what": f"speed over {kind}", "goal": goal, "value": value,
                          "met": value >= goal if counts else None})
        value = found.get("memory", {}).get("reserved_steady")
        goals.append({"precision": precision, "what": "reserved memory beside the fastest mode", "goal": MEMORY_GOAL,
                      "value": value, "met": value <= MEMORY_GOAL if value is not None else None})
    return {"by_precision": ratios, "goals": goals}


def report(name, entry, ceilings, options):
    """Prints it; whether something failed that should not."""
    print(f"\n{name}", end="")
    if "failed" in entry:
        print(f": FAILED: {entry['failed']}")
        return True
    print(f", batch {entry['batch']}, PyTorch {entry.get('peer', {}).get('torch', 'not there')}")
    has_failed = False
    for precision, results in entry["precisions"].items():
        program = entry["program"][precision]
        bounds = bounds_of(program, ceilings, precision)
        print(f"  {precision}: {program['flops'] / 1e9:.3g} GFLOP, {program['bytes'] / 1e6:.3g} MB, "
              f"{program['calls']:.0f} calls a step", end="")
        if bounds:
            print("; at least " + ", ".join(f"{bounds[key] * 1e6:.0f} µs by {key}" for key in ("flops", "bytes", "calls"))
                  + f", {bounds['together'] * 1e6:.0f} µs by the longest of each call", end="")
        print(f"\n    {'':18}{'samples/s':>12}{'±':>5}{'ms/step':>10}{'reserved':>11}{'steady':>9}{'driver':>9} MiB")
        for mode, result in results.items():
            speed = speed_of(result)
            if not speed:
                # What a rehearsal makes fail or hang has failed as it should.
                has_failed = has_failed or ("dropped" not in result and mode not in ("fails", "hangs"))
                print(f"    {mode:18}{'dropped' if 'dropped' in result else 'FAILED':>12}  "
                      + str(result.get("dropped") or result.get("failed") or "no repetition").splitlines()[0][:110])
                continue
            memory = result.get("memory") or {}
            print(f"    {mode:18}{speed['median']:12.0f}{speed['spread'] / 2:5.0%}{speed['step_seconds'] * 1e3:10.4f}"
                  + "".join(f"{memory[key] / MIB:{width}.0f}" if memory.get(key) else f"{'-':>{width}}"
                            for key, width in (("reserved", 11), ("reserved_steady", 9), ("driver", 9)))
                  + ("" if len(result["runs"]) == options.repetitions else f"  {len(result['runs'])} repetitions")
                  + ("  trains otherwise" if "differs" in result else "")
                  + (f", then FAILED: {result['failed_later'].splitlines()[0][:60]}" if "failed_later" in result else ""))
            has_failed = has_failed or "failed_later" in result or "differs" in result
        for kind, ratio in entry["ratios"]["by_precision"][precision].items():
            if "speed" in ratio:
                print(f"    {ratio['speed']:.2f}× the speed of {kind} ({ratio['mode']})")
    for goal in entry["ratios"]["goals"]:
        verdict = {None: "not known", True: "met", False: "not met"}[goal["met"]]
        value = "-" if goal["value"] is None else f"{goal['value']:.2f}×"
        print(f"  {goal['precision']}: {goal['what']} {value}, goal {goal['goal']}×: {verdict}")
    return has_failed
