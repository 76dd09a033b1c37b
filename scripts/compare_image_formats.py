#!/usr/bin/env python3
"""Is a set of images learned as well from folders of files as from its binary format?

Writes the images of idx files (MNIST, Fashion-MNIST) or of CIFAR-10's binary files as class folders of PNG and of JPEG
files, trains the same small CNN by the same recipe on each, and prints a line of JSON a run and the mean accuracies of
the seeds. Ends with 1 where folders differ from the binary format by more than --points. --json keeps all of it. Runs
itself by .venv/bin/python (scripts/python_env.sh) where this Python has no PIL.
"""
import argparse
import gzip
import importlib.util
import json
import pathlib
import statistics
import sys
import tempfile

import interpreters
from trainer_events import ROOT, Trainer, TrainerFailed

EXIT_SKIPPED = 77
FORMATS = ("binary", "png", "jpeg")


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="of train-images-idx3-ubyte[.gz] and the like, or of data_batch_1.bin and the like")
    parser.add_argument("--images", type=int, default=0, metavar="N", help="of the training images, the first; 0: all (0)")
    parser.add_argument("--epochs", type=int, default=2, metavar="N")
    parser.add_argument("--seeds", type=int, default=2, metavar="N", help="runs of each format (2)")
    parser.add_argument("--quality", type=int, default=95, metavar="N", help="of JPEGs (95)")
    parser.add_argument("--points", type=float, default=0.5, metavar="X", help="that accuracies may differ by (0.5)")
    parser.add_argument("--trainer", default=str(ROOT / "build" / "release" / "trainer"), metavar="FILE", help="the program")
    parser.add_argument("--json", metavar="FILE", help="write every figure there")
    return parser.parse_args()


def idx_array(folder, name):
    import numpy as np
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            rank = data[3]
            shape = np.frombuffer(data, ">i4", rank, 4)
            return np.frombuffer(data, np.uint8, offset=4 + 4 * rank).reshape(shape)
    raise SystemExit(f"{folder}: no {name}")


def read_parts(folder):
    """The format's name, and images with labels for training and validation."""
    import numpy as np
    if (folder / "data_batch_1.bin").is_file():
        def read(*names):
            rows = np.concatenate([np.fromfile(folder / name, np.uint8).reshape(-1, 3073) for name in names])
            return rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), rows[:, 0]
        return "cifar10", read(*(f"data_batch_{i}.bin" for i in range(1, 6))), read("test_batch.bin")
    parts = [(idx_array(folder, f"{part}-images-idx3-ubyte"), idx_array(folder, f"{part}-labels-idx1-ubyte"))
             for part in ("train", "t10k")]
    return "idx", *parts


def write_binary(root, kind, parts):
    """The chosen part in the binary format."""
    import numpy as np
    root.mkdir(parents=True)
    if kind == "cifar10":
        def write(name, images, labels):
            rows = np.concatenate([labels[:, None], images.transpose(0, 3, 1, 2).reshape(len(images), -1)], 1)
            rows.astype(np.uint8).tofile(root / name)
        for i, (images, labels) in enumerate(zip(np.array_split(parts[0][0], 5), np.array_split(parts[0][1], 5)), 1):
            write(f"data_batch_{i}.bin", images, labels)
        write("test_batch.bin", *parts[1])
        return
    for (images, labels), name in zip(parts, ("train", "t10k")):
        for kind_name, array in (("images-idx3", images), ("labels-idx1", labels)):
            header = bytes([0, 0, 8, array.ndim]) + b"".join(int(n).to_bytes(4, "big") for n in array.shape)
            (root / f"{name}-{kind_name}-ubyte").write_bytes(header + np.ascontiguousarray(array).tobytes())


def write_folders(root, parts, suffix, **options):
    from PIL import Image
    for (images, labels), part in zip(parts, ("train", "val")):
        for label in set(labels.tolist()):
            (root / part / str(label)).mkdir(parents=True)
        for i, (image, label) in enumerate(zip(images, labels)):
            Image.fromarray(image).save(root / part / str(label) / f"{i:05}.{suffix}", **options)


def configuration(kind, form, root, channels, options, seed):
    data = {"root": str(root)}
    data |= {"type": kind} if form == "binary" else {"type": "image_folder", "channels": channels}
    layers = []
    for width in (32, 64):
        layers += [{"conv2d": {"out": width, "kernel": 3, "padding": 1}}, "batchnorm2d", "relu",
                   {"maxpool2d": {"kernel": 2}}]
    layers += ["flatten", {"linear": {"out": 128}}, "relu", {"linear": {"out": 10}}]
    return {"name": f"{form}-{seed}", "seed": seed, "device": {"type": "cpu"}, "data": data, "model": {"layers": layers},
            "loss": "cross_entropy", "optimizer": {"type": "adamw", "lr": 2e-3}, "schedule": "cosine",
            "train": {"batch_size": 128, "epochs": options.epochs}}


def accuracy_of(trainer, folder, config):
    path = folder / f"{config['name']}.json"  # JSON is YAML
    config["output"] = str(folder / "runs" / config["name"])
    path.write_text(json.dumps(config), encoding="utf-8")
    events = [json.loads(line) for line in trainer.ask("run", path).splitlines()]
    evals = [event for event in events if event["event"] == "eval"]
    return evals[-1]["accuracy"]


def main():
    options = parsed()
    if importlib.util.find_spec("PIL") is None:
        interpreters.go_on_in_environment()
        print("left out: no PIL; scripts/python_env.sh installs it", file=sys.stderr)
        return EXIT_SKIPPED
    kind, train, validation = read_parts(pathlib.Path(options.folder))
    if options.images:
        train = tuple(part[:options.images] for part in train)
    parts = (train, validation)
    channels = 3 if train[0].ndim == 4 else 1
    trainer = Trainer(options.trainer)
    figures = {form: [] for form in FORMATS}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        roots = {form: folder / form for form in FORMATS}
        write_binary(roots["binary"], kind, parts)
        write_folders(roots["png"], parts, "png")
        write_folders(roots["jpeg"], parts, "jpg", quality=options.quality)
        for seed in range(1, options.seeds + 1):
            for form in FORMATS:
                config = configuration(kind, form, roots[form], channels, options, seed)
                figures[form].append(accuracy_of(trainer, folder, config))
                print(json.dumps({"format": form, "seed": seed, "accuracy": figures[form][-1]}), flush=True)
    means = {form: statistics.mean(values) for form, values in figures.items()}
    differences = {form: round(100 * (means[form] - means["binary"]), 3) for form in FORMATS[1:]}
    result = {"data": kind, "train_images": len(train[0]), "validation_images": len(validation[0]),
              "epochs": options.epochs, "seeds": options.seeds, "jpeg_quality": options.quality, "accuracy": figures,
              "mean": means, "points_from_binary": differences}
    print(json.dumps({"mean": means, "points_from_binary": differences}))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0 if all(abs(each) <= options.points for each in differences.values()) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TrainerFailed as error:
        sys.exit(str(error))
