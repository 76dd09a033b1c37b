#!/usr/bin/env python3
"""Images a second from JPEG files to batches: trainer's workers beside torchvision's transforms in a DataLoader.

500×375 JPEGs, random_resized_crop to 224² and flip, two workers each, by turns, on files that the system has cached. trainer
trains a model that costs next to nothing (global_avgpool and a linear layer) on what it reads; the DataLoader's batches are
thrown away. Prints a line of JSON a turn and the ratio of the medians; --json keeps all of it. Runs itself by
.venv/bin/python (scripts/python_env.sh) where this Python has no torchvision. Leave the machine alone meanwhile.

--cached: the same files through resize to 256², random_crop to 224² and flip, kept behind the resize (data.cache: ram and
disk, timed by `bench --data`), beside a raw file of 256² images that numpy maps into memory, cropped and flipped by two
threads, and beside what memory allows: as many bytes copied from one place to another by two threads. Also without flip: what
it would save the host if the device did it.

--waiting: one thread reads as without --cached, and one trains two convolutions that take longer than it. Prints the share
of the steps whose batch was there when it was asked for (data_seconds below 0.1 ms), and of the time that was waited.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import interpreters

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEIGHT, WIDTH, RESIZED, CROP, BATCH, CLASSES = 375, 500, 256, 224, 64, 4
EXIT_SKIPPED = 77


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=768, metavar="N", help="files (768)")
    parser.add_argument("--epochs", type=int, default=5, metavar="N", help="that are measured in a turn, behind a first one (5)")
    parser.add_argument("--turns", type=int, default=5, metavar="N", help="of each side (5)")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="threads, or processes of the DataLoader (2)")
    parser.add_argument("--cached", action="store_true", help="images that are kept, beside numpy's memory map")
    parser.add_argument("--waiting", action="store_true", help="whether training waits for samples that are read faster")
    parser.add_argument("--seconds", type=float, default=3, metavar="S", help="of each measurement of --cached (3)")
    parser.add_argument("--trainer", default=str(ROOT / "build" / "release" / "trainer"), metavar="FILE", help="the program")
    parser.add_argument("--json", metavar="FILE", help="write every figure there")
    return parser.parse_args()


def make_images(folder, count):
    """Smooth colours with edges and noise, of quality 90: about 50 KiB each, as photographs of that size have."""
    import numpy as np
    from PIL import Image, ImageDraw
    random = np.random.default_rng(1)
    total = 0
    for number in range(count):
        coarse = random.integers(0, 256, (6, 8, 3), dtype=np.uint8)
        image = Image.fromarray(coarse).resize((WIDTH, HEIGHT), Image.BICUBIC)
        draw = ImageDraw.Draw(image)
        for _ in range(12):
            x, y = (int(value) for value in random.integers(0, (WIDTH, HEIGHT)))
            size = int(random.integers(10, 120))
            draw.ellipse([x, y, x + size, y + size], fill=tuple(int(value) for value in random.integers(0, 256, 3)))
        pixels = np.asarray(image).astype(np.int16) + random.integers(-10, 11, (HEIGHT, WIDTH, 3))
        path = folder / "train" / str(number % CLASSES) / f"{number:05}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path, quality=90)
        total += path.stat().st_size
    return total / count


def steps_of_run(options, folder, layers, workers, threads):
    """Events of the steps behind the first epoch."""
    config = {"data": {"type": "image_folder", "root": str(folder), "workers": workers, "transforms": {
                  "train": [{"random_resized_crop": {"size": CROP}}, "flip"]}},
              "model": {"layers": [*layers, "global_avgpool", {"linear": {"out": CLASSES}}]},
              "device": {"type": "cpu", "threads": threads}, "train": {"batch_size": BATCH, "epochs": options.epochs + 1},
              "checkpoint": {"every": 0}, "output": str(folder / "run")}
    path = folder / "config.yaml"
    path.write_text(json.dumps(config), encoding="utf-8")
    result = subprocess.run([options.trainer, "run", str(path), "--json", "--overwrite"], check=True, stdout=subprocess.PIPE,
                            text=True, cwd=ROOT)
    return [event for event in map(json.loads, result.stdout.splitlines()) if event["event"] == "step" and event["epoch"] > 1]


def trainer_turn(options, folder):
    steps = steps_of_run(options, folder, [], options.workers, 0)
    return sum(step["samples"] for step in steps) / sum(step["step_seconds"] for step in steps)


def waiting(options, folder):
    """Shares of the steps that did not wait, and of the time that was waited, of each turn."""
    convolutions = [{"conv2d": {"out": channels, "kernel": 3, "stride": 2, "padding": 1}} for channels in (16, 32)]
    found = []
    for turn in range(options.turns):
        steps = steps_of_run(options, folder, convolutions, 1, 1)
        seconds = sum(step["step_seconds"] for step in steps)
        found.append({"steps": len(steps), "seconds_a_step": seconds / len(steps),
                      "did_not_wait": sum(step["data_seconds"] < 1e-4 for step in steps) / len(steps),
                      "waited": sum(step["data_seconds"] for step in steps) / seconds})
        print(json.dumps({"turn": turn, **{key: round(value, 4) for key, value in found[-1].items()}}), flush=True)
    return found


def loader_turn(options, folder):
    import torch
    from torchvision import datasets
    from torchvision.transforms import v2
    chain = v2.Compose([v2.RandomResizedCrop(CROP), v2.RandomHorizontalFlip(), v2.PILToTensor()])
    loader = torch.utils.data.DataLoader(datasets.ImageFolder(str(folder / "train"), chain), BATCH, shuffle=True,
                                         num_workers=options.workers, persistent_workers=True)
    count, start = 0, None
    for epoch in range(options.epochs + 1):
        if epoch == 1:
            start = time.perf_counter()
        for images, _ in loader:
            count += len(images) if epoch > 0 else 0
    return count / (time.perf_counter() - start)


def kept_turn(options, folder, cache, flips=True):
    """Samples a second into batches, of images that are in the cache."""
    drawn = [{"random_crop": {"size": CROP}}, *(["flip"] if flips else [])]
    config = {"data": {"type": "image_folder", "root": str(folder), "workers": options.workers, "cache": cache,
                       **({"cache_folder": str(folder / "cache")} if cache == "disk" else {}),
                       "transforms": {"train": [{"resize": {"size": [RESIZED, RESIZED]}}, *drawn]}},
              "model": {"layers": ["global_avgpool", {"linear": {"out": CLASSES}}]},
              "train": {"batch_size": BATCH, "epochs": 1}}
    path = folder / f"{cache}.yaml"
    path.write_text(json.dumps(config), encoding="utf-8")
    result = subprocess.run([options.trainer, "bench", str(path), "--data", "--json", "--seconds", str(options.seconds)],
                            check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT,
                            env={**os.environ, "XDG_CACHE_HOME": str(folder / "kept")})
    return json.loads(result.stdout)["data"]["all_threads"]["samples_per_second"]


def by_threads(options, work):
    """Images a second of threads that each call work(thread, batch of numbers), again and again."""
    import concurrent.futures
    import numpy as np
    random = np.random.default_rng(1)
    batches = [random.permutation(options.images)[:BATCH] for _ in range(64)]

    def thread(number, seconds):
        count, end = 0, time.perf_counter() + seconds
        while time.perf_counter() < end:
            work(number, batches[(count // BATCH + 32 * number) % 64])
            count += BATCH
        return count / seconds
    with concurrent.futures.ThreadPoolExecutor(options.workers) as pool:
        list(pool.map(thread, range(options.workers), [0.5] * options.workers))
        return sum(pool.map(thread, range(options.workers), [options.seconds] * options.workers))


def map_turn(options, folder):
    """As FFCV keeps images: raw, mapped into memory."""
    import numpy as np
    path = folder / "raw.npy"
    if not path.exists():
        from PIL import Image
        raw = np.lib.format.open_memmap(path, "w+", np.uint8, (options.images, RESIZED, RESIZED, 3))
        for number, file in enumerate(sorted((folder / "train").glob("*/*.jpg"))):
            raw[number] = np.asarray(Image.open(file).resize((RESIZED, RESIZED), Image.BILINEAR))
        raw.flush()
    raw = np.load(path, mmap_mode="r")
    outputs = [np.empty((BATCH, CROP, CROP, 3), np.uint8) for _ in range(options.workers)]
    randoms = [np.random.default_rng(number) for number in range(options.workers)]

    def work(thread, numbers):
        places = randoms[thread].integers(0, RESIZED - CROP + 1, (len(numbers), 2))
        flips = randoms[thread].integers(0, 2, len(numbers))
        for at, number in enumerate(numbers):
            top, left = places[at]
            crop = raw[number, top:top + CROP, left:left + CROP]
            outputs[thread][at] = crop[:, ::-1] if flips[at] else crop
    return by_threads(options, work)


def copy_turn(options, _folder):
    """Images of 224² that lie together, copied as they are: what memory allows."""
    import numpy as np
    images = np.zeros((options.images, CROP * CROP * 3), np.uint8)
    images[:] = 7
    outputs = [np.zeros((BATCH, CROP * CROP * 3), np.uint8) for _ in range(options.workers)]

    def work(thread, numbers):
        for at, number in enumerate(numbers):
            outputs[thread][at] = images[number]
    return by_threads(options, work)


def main():
    options = parsed()
    if importlib.util.find_spec("torchvision") is None:
        interpreters.go_on_in_environment()
        print("skipped: torchvision is not installed; scripts/python_env.sh installs it", file=sys.stderr)
        return EXIT_SKIPPED
    import torch
    import torchvision
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        mean_bytes = make_images(folder, options.images)
        if options.waiting:
            found = waiting(options, folder)
            summary = {"num_cpus": os.cpu_count(), "mean_file_bytes": round(mean_bytes), "batch": BATCH, "waiting": found}
            if options.json:
                pathlib.Path(options.json).write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
            return 0
        sides = {"trainer": trainer_turn, "loader": loader_turn}
        if options.cached:
            sides = {"ram": lambda *given: kept_turn(*given, "ram"), "ram without flip": lambda *given: kept_turn(*given, "ram", False),
                     "disk": lambda *given: kept_turn(*given, "disk"),
                     "memory map": map_turn, "copy": copy_turn}
        found = {side: [] for side in sides}
        for turn in range(options.turns):
            for side, run in sides.items():
                found[side].append(run(options, folder))
                print(json.dumps({"turn": turn, "side": side, "images_per_second": round(found[side][-1], 1)}), flush=True)
    medians = {side: statistics.median(values) for side, values in found.items()}
    summary = {"images": options.images, "mean_file_bytes": round(mean_bytes), "workers": options.workers, "batch": BATCH,
               "num_cpus": os.cpu_count(), "torch": torch.__version__, "torchvision": torchvision.__version__,
               "images_per_second": found, "medians": medians}
    if options.cached:
        ratios = {f"{side} over {other}": medians[side] / medians[other] for side in ("ram", "disk") for other in ("memory map", "copy")}
        ratios["ram over ram without flip"] = medians["ram"] / medians["ram without flip"]
    else:
        ratios = {"trainer over loader": medians["trainer"] / medians["loader"]}
    summary["ratios"] = ratios
    print(json.dumps({"medians": {side: round(value, 1) for side, value in medians.items()},
                      "ratios": {name: round(value, 2) for name, value in ratios.items()}}))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
