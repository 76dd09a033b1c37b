#!/usr/bin/env python3
"""What a page of `trainer report` costs: to make, in seconds and memory, and to move about in, in frames.

Makes the page of a step with 100,000 buffers or more (a chain of small linear layers), opens it in headless Chromium
without a GPU, and pans, zooms and hovers for some seconds each by events: milliseconds from frame to frame as
requestAnimationFrame tells them, at the screen's 60 Hz and without that bound. Then makes pages of a program of 10,000 ops
and of a run of 10,000 steps: seconds, processor seconds and peak resident memory of the command. Prints a line of JSON a
case; --json keeps all. Runs itself by the system's Python where this one has no selenium (Debian's python3-selenium,
chromium-driver).
"""
import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

import interpreters

ROOT = pathlib.Path(__file__).resolve().parent.parent
SECONDS = 4

LAYERS = """name: chain
data: {{type: synthetic, shape: [48], classes: 10, samples: 16}}
model:
  layers:
    - repeat:
        times: {times}
        layers: [{{linear: {{out: 64}}}}, relu, {{linear: {{out: 32}}}}, relu, {{linear: {{out: 48}}}}, relu]
    - linear: {{out: 10}}
optimizer: {{type: adam, lr: 0.001}}
train: {{batch_size: 8}}
"""
RUN = """name: long
data: {type: digits}
model: {layers: [flatten, {linear: {out: 32}}, relu, {linear: {out: 10}}]}
optimizer: {type: sgd, lr: 0.01}
train: {batch_size: 16, steps: 10000, epochs: 100000}
"""

# What is done to the map, once a frame, for so long; answers with the times of the frames.
MOVE = """
const [kind, seconds, done] = arguments;
const canvas = document.querySelectorAll('.pictures canvas')[1], bounds = canvas.getBoundingClientRect();
canvas.focus();
const key = (name) => canvas.dispatchEvent(new KeyboardEvent('keydown', {key: name, bubbles: true}));
const times = [];
let count = 0;
if (kind === 'pan') for (let i = 0; i < 3; ++i) key('+');
const moves = {
  pan: () => key(count % 60 < 30 ? 'ArrowRight' : 'ArrowLeft'),
  zoom: () => canvas.dispatchEvent(new WheelEvent('wheel', {deltaY: count % 120 < 60 ? -20 : 20, ctrlKey: true, bubbles: true, cancelable: true,
    clientX: bounds.left + bounds.width / 2, clientY: bounds.top + bounds.height / 2})),
  hover: () => canvas.dispatchEvent(new PointerEvent('pointermove', {bubbles: true, clientX: bounds.left + 90 + (count * 7) % (bounds.width - 110),
    clientY: bounds.top + 20 + (count * 3) % (bounds.height - 70)})),
};
const frame = (time) => {
  times.push(time);
  if (time - times[0] > 1000 * seconds) { key('0'); return done(times); }
  moves[kind]();
  ++count;
  requestAnimationFrame(frame);
};
requestAnimationFrame(frame);
"""


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trainer", default=str(ROOT / "build" / "release" / "trainer"), metavar="FILE", help="the program")
    parser.add_argument("--json", metavar="FILE", help="write every figure there")
    return parser.parse_args()


def measured(words):
    """Wall and processor seconds, and the most that was resident, of a command that must succeed."""
    begin = time.perf_counter()
    process = os.spawnv(os.P_NOWAIT, words[0], list(map(str, words)))
    _, status, usage = os.wait4(process, 0)
    if status != 0:
        sys.exit(f"{' '.join(map(str, words))}: {status}")
    return {"seconds": time.perf_counter() - begin, "processor_seconds": usage.ru_utime + usage.ru_stime, "peak_resident": usage.ru_maxrss * 1024}


def best_of(turns, words):
    return min((measured(words) for _ in range(turns)), key=lambda each: each["seconds"])


def make_driver(is_bound):
    from selenium import webdriver
    options = webdriver.ChromeOptions()
    for word in ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,1000", "--force-device-scale-factor=1",
                 *([] if is_bound else ["--disable-frame-rate-limit", "--disable-gpu-vsync"])]:
        options.add_argument(word)
    return webdriver.Chrome(service=webdriver.chrome.service.Service("/usr/bin/chromedriver"), options=options)


def frames_of(page, is_bound):
    driver = make_driver(is_bound)
    try:
        begin = time.perf_counter()
        driver.get(f"file://{page}")
        driver.set_script_timeout(60)
        while not driver.execute_script("return Boolean(window.trainerReport)"):
            time.sleep(0.02)
        driver.execute_async_script("const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()))")
        opened = time.perf_counter() - begin
        found = {"seconds_to_open": opened, "blocks": driver.execute_script("return window.trainerReport.maps[0].blocks"),
                 "browser": driver.capabilities["browserVersion"]}
        driver.execute_script("document.querySelectorAll('.pictures canvas')[1].scrollIntoView({block: 'center'})")
        for kind in ("pan", "zoom", "hover"):
            drawn = driver.execute_script("return window.trainerReport.maps[0].frames")
            times = driver.execute_async_script(MOVE, kind, SECONDS)
            drawn = driver.execute_script("return window.trainerReport.maps[0].frames") - drawn
            gaps = sorted(b - a for a, b in zip(times, times[1:]))
            found[kind] = {"frames": len(gaps), "drawn": drawn, "median_ms": statistics.median(gaps), "p95_ms": gaps[int(0.95 * len(gaps))],
                           "frames_a_second": 1000 * len(gaps) / (times[-1] - times[0])}
        return found
    finally:
        driver.quit()


def main():
    arguments = parsed()
    try:
        import selenium  # noqa: F401
    except ImportError:
        interpreters.go_on_as_system()
        raise
    figures = {"num_cpus": os.cpu_count(), "load_before": os.getloadavg()}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)

        def report(source, page):
            return {**best_of(3, [arguments.trainer, "report", source, "-o", page, "--overwrite", "--quiet"]), "page_bytes": page.stat().st_size}

        for case, times in (("step_of_100000_buffers", 2570), ("program_of_10000_ops", 830)):
            (folder / f"{case}.yaml").write_text(LAYERS.format(times=times))
            figures[case] = report(folder / f"{case}.yaml", folder / f"{case}.html")
            print(json.dumps({case: figures[case]}), flush=True)
        (folder / "long.yaml").write_text(RUN)
        measured([arguments.trainer, "run", folder / "long.yaml", f"output={folder / 'run'}", "--quiet"])
        figures["run_of_10000_steps"] = report(folder / "run", folder / "run.html")
        print(json.dumps({"run_of_10000_steps": figures["run_of_10000_steps"]}), flush=True)
        for frames, is_bound in (("frames_at_60_hz", True), ("frames_without_bound", False)):
            figures[frames] = frames_of(folder / "step_of_100000_buffers.html", is_bound)
            print(json.dumps({frames: figures[frames]}), flush=True)
    figures["load_after"] = os.getloadavg()
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
