"""Runs of trainer whose losses, speed or memory are compared."""
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


def speed_of(events):
    """Of the later half of the steps: what comes first is warmed up and recorded."""
    steps = [event for event in events if event["event"] == "step"]
    steps = steps[len(steps) // 2:]
    end = events[-1]
    seconds = statistics.median(step["step_seconds"] for step in steps)
    return {"samples_per_second": statistics.median(step["samples"] for step in steps) / seconds,
            "step_seconds": seconds, "steps": len(steps), "peak_reserved": end["peak_reserved"],
            "peak_used": end["peak_used"], "passes": end.get("passes"), "libraries": end.get("libraries")}
