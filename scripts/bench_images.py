#!/usr/bin/env python3
"""Images a second from JPEG files to batches: trainer's workers beside torchvision's transforms in a DataLoader.

500×375 JPEGs, random_resized_crop to 224² and flip, two workers each, by turns, on files that the system has cached. trainer
trains a model that costs next to nothing (global_avgpool and a linear layer) on what it reads; the DataLoader's batches are
thrown away. Prints a line of JSON a turn and the ratio of the medians; --json keeps all of it. Runs itself by
.venv/bin/python (scripts/python_env.sh) where this Python has no torchvision. Leave the machine alone meanwhile.
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

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEIGHT, WIDTH, CROP, BATCH, CLASSES = 375, 500, 224, 64, 4
EXIT_SKIPPED = 77


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=768, metavar="N", help="files (768)")
    parser.add_argument("--epochs", type=int, default=5, metavar="N", help="that are measured in a turn, behind a first one (5)")
    parser.add_argument("--turns", type=int, default=5, metavar="N", help="of each side (5)")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="threads, or processes of the DataLoader (2)")
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


def trainer_turn(options, folder):
    config = {"data": {"type": "image_folder", "root": str(folder), "workers": options.workers, "transforms": {
                  "train": [{"random_resized_crop": {"size": CROP}}, "flip"]}},
              "model": {"layers": ["global_avgpool", {"linear": {"out": CLASSES}}]}, "device": {"type": "cpu"},
              "train": {"batch_size": BATCH, "epochs": options.epochs + 1}, "checkpoint": {"every": 0},
              "output": str(folder / "run")}
    path = folder / "config.yaml"
    path.write_text(json.dumps(config), encoding="utf-8")
    result = subprocess.run([options.trainer, "run", str(path), "--json", "--overwrite"], check=True, stdout=subprocess.PIPE,
                            text=True, cwd=ROOT)
    steps = [event for event in map(json.loads, result.stdout.splitlines()) if event["event"] == "step" and event["epoch"] > 1]
    return sum(step["samples"] for step in steps) / sum(step["step_seconds"] for step in steps)


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


def main():
    options = parsed()
    if importlib.util.find_spec("torchvision") is None:
        python = ROOT / ".venv" / "bin" / "python"
        if not python.exists() or pathlib.Path(sys.executable) == python:
            print("skipped: torchvision is not installed; scripts/python_env.sh installs it", file=sys.stderr)
            return EXIT_SKIPPED
        os.execv(str(python), [str(python), __file__, *sys.argv[1:]])
    import torch
    import torchvision
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        mean_bytes = make_images(folder, options.images)
        found = {"trainer": [], "loader": []}
        for turn in range(options.turns):
            for side, run in (("trainer", trainer_turn), ("loader", loader_turn)):
                found[side].append(run(options, folder))
                print(json.dumps({"turn": turn, "side": side, "images_per_second": round(found[side][-1], 1)}), flush=True)
    medians = {side: statistics.median(values) for side, values in found.items()}
    summary = {"images": options.images, "mean_file_bytes": round(mean_bytes), "workers": options.workers, "batch": BATCH,
               "num_cpus": os.cpu_count(), "torch": torch.__version__, "torchvision": torchvision.__version__,
               "images_per_second": found, "medians": medians, "ratio": medians["trainer"] / medians["loader"]}
    print(json.dumps({"medians": {side: round(value, 1) for side, value in medians.items()}, "ratio": round(summary["ratio"], 2)}))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
