"""Runs of trainer whose losses, speed or memory are compared."""
import math
import statistics

from .machine import ROOT


def events_of(machine, config, *overrides, name, weights=None, flags=(), device=None, expect=0, seconds=60, **more):
    """The events of a run into a fresh folder."""
    words = ["run", ROOT / config, *overrides, "checkpoint={every: 1000000}", f"output={machine.folder(name) / 'run'}",
             *flags]
    # The configs of the CPU benchmark name a device with threads.
    words.insert(2, f"device={{type: {device or machine.device}{more.pop('device_keys', '')}}}")
    if weights:
        words += ["--weights", weights]
    return machine.events(*words, expect=expect, seconds=seconds, **more)


def losses_of(events):
    return [event["loss"] for event in events if event["event"] == "step"]


def largest_difference(losses, expected):
    """Of the larger of 1 and the loss; infinite where there are none, or not as many, or one is no number."""
    if len(losses) != len(expected) or not losses or not all(map(is_number, losses)):
        return math.inf
    return max(abs(a - b) / max(1, abs(b)) for a, b in zip(losses, expected))


def is_number(loss):
    return isinstance(loss, (int, float)) and math.isfinite(loss)


def speed_of(events):
    """Of the later half of the steps: what comes first is warmed up and recorded."""
    steps = [event for event in events if event["event"] == "step"]
    steps = steps[len(steps) // 2:]
    end = events[-1]
    seconds = statistics.median(step["step_seconds"] for step in steps)
    return {"samples_per_second": statistics.median(step["samples"] for step in steps) / seconds,
            "step_seconds": seconds, "steps": len(steps), "peak_reserved": end["peak_reserved"],
            "peak_used": end["peak_used"], "passes": end.get("passes"), "libraries": end.get("libraries")}
