"""What `trainer predict` says with exported models, beside PyTorch with the same weights: images through torchvision's
transforms, tables through pandas, masks; probabilities, numbers in the units of the data, classes of pixels.
"""
import json
import sys

import numpy as np
import torch
from torch import nn

import image_files
import safetensors_file
from trainer_runs import RunFailed, config_text

try:
    import torchvision  # noqa: F401
    from torchvision.transforms import v2
    HAS_TORCHVISION = True
except ImportError:
    HAS_TORCHVISION = False

# Of probabilities, and of numbers beside the largest: products in f32 in another order.
ALLOWED = 2e-5
MEAN, STD = [0.48, 0.45, 0.4], [0.22, 0.23, 0.24]
CLASSES = ["ant", "bee, \"wild\"", "cow"]


def asked(case, *words, accept=0):
    code, out, error = case.trainer.ask(case.folder, *words)
    if code != accept:
        raise RunFailed(f"trainer {' '.join(map(str, words))} ended with {code}:\n{error or out}")
    return out


def predicted(case, *words, accept=0):
    """The rows, without the event at the end."""
    events = [json.loads(line) for line in asked(case, "predict", *words, "--json", "-q", accept=accept).splitlines()]
    case.findings.equal("the last event", events[-1]["event"], "predictions")
    case.findings.equal("inputs told", events[-1]["inputs"], len(events) - 1)
    return events[:-1]


def network(generator, channels, outputs, pixels):
    """Of convolutions and norms whose statistics are nothing usual, with the same layers as trainer's."""
    head = [nn.Conv2d(12, outputs, 1)] if pixels else [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, outputs)]
    modules = nn.Sequential(nn.Conv2d(channels, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
                            nn.Conv2d(8, 12, 3, padding=1), nn.ReLU(), *head).eval()
    layers = [{"conv2d": {"out": 8, "kernel": 3, "padding": 1, "bias": False}}, "batchnorm2d", "relu",
              {"conv2d": {"out": 12, "kernel": 3, "padding": 1}}, "relu"]
    layers += [{"conv2d": {"out": outputs, "kernel": 1}}] if pixels else ["global_avgpool", {"linear": {"out": outputs}}]
    if not pixels:  # torch.nn counts the flatten
        modules = nn.Sequential(*list(modules)[:6], nn.Flatten(), list(modules)[7]).eval()
    for name, tensor in modules.state_dict().items():
        if tensor.dtype == torch.float32:
            values = generator.normal(0, 0.4, tuple(tensor.shape))
            tensor.copy_(torch.from_numpy(np.abs(values) + 0.5 if name.endswith("running_var") else values))
    return modules, layers


def saved(case, modules, renamed):
    """The weights under trainer's names: `renamed` maps the number of a module to that of a layer."""
    arrays = {}
    for name, tensor in modules.state_dict().items():
        if tensor.dtype == torch.float32:
            number, _, rest = name.partition(".")
            arrays[f"{renamed.get(int(number), int(number))}.{rest}"] = tensor.numpy()
    safetensors_file.write(case.folder / "weights.safetensors", arrays)


def images_below(case, generator, count, names, channels):
    """Photographs of several sizes in folders, and their paths in the order that predict takes."""
    paths = []
    for index in range(count):
        folder = case.folder / "images" / names[index % len(names)]
        folder.mkdir(parents=True, exist_ok=True)
        height, width = (int(side) for side in generator.integers(40, 120, 2))
        picture = image_files.photograph(generator, height, width, channels)
        image = image_files.Image.fromarray(picture[..., 0] if channels == 1 else picture)
        path = folder / f"{index:02}.{('png', 'jpg', 'webp')[index % 3 if channels == 3 else 0]}"
        image.save(path, **({"lossless": True} if path.suffix == ".webp" else {}))
        paths.append(path)
    return sorted(paths, key=lambda path: (path.parent.name, path.name))


def prepared(paths, transforms, mean, std):
    """(N, C, H, W), f32, as torchvision's transforms of bytes and the normalisation make them."""
    tensors = []
    for path in paths:
        image = v2.functional.pil_to_tensor(image_files.Image.open(path).convert("RGB"))
        tensors.append((transforms(image).float() / 255 - torch.tensor(mean)[:, None, None]) /
                       torch.tensor(std)[:, None, None])
    return torch.stack(tensors)


def export(case, config):
    (case.folder / "model.yaml").write_text(config_text({**config, "device": {"type": "cpu", "threads": 1}}),
                                            encoding="utf-8")
    asked(case, "export", "model.yaml", "--weights", "weights.safetensors", "--to", "exported")


def compare_classes(case, words):
    case.title = f"classes of images, {words}"
    generator = np.random.default_rng(case.number)
    modules, layers = network(generator, 3, len(CLASSES), pixels=False)
    saved(case, modules, {7: 6})
    paths = images_below(case, generator, 14, CLASSES, 3)
    export(case, {"name": "classes",
                  "data": {"type": "image_folder", "root": "images", "split": 0.2,
                           "normalize": {"mean": MEAN, "std": STD},
                           "transforms": {"train": [{"random_resized_crop": {"size": 28}}],
                                          "validation": [{"resize": {"size": 36}}, {"center_crop": {"size": 28}}]}},
                  "model": {"layers": layers}})
    transforms = v2.Compose([v2.Resize(36, antialias=True), v2.CenterCrop(28)])
    with torch.inference_mode():
        wanted = modules(prepared(paths, transforms, MEAN, STD)).softmax(1).numpy()
    rows = predicted(case, "exported", "images", *words)
    case.findings.equal("inputs", [row["input"] for row in rows],
                        [str(path.relative_to(case.folder)) for path in paths])
    found = np.array([[row["probabilities"][name] for name in CLASSES] for row in rows])
    # Pixels of a JPEG, and of a resize, are those of torchvision to a level of 255.
    case.findings.close("probabilities", found, wanted, 1e-3)
    case.findings.equal("classes", [row["class"] for row in rows], [CLASSES[index] for index in found.argmax(1)])
    exact = [index for index, path in enumerate(paths) if path.suffix != ".jpg"]
    case.findings.close("probabilities, without JPEG", found[exact], wanted[exact], 2e-4)


def compare_masks(case, words):
    case.title = f"masks of images, {words}"
    generator = np.random.default_rng(case.number)
    modules, layers = network(generator, 3, 4, pixels=True)
    saved(case, modules, {})
    for name in ("images", "masks"):
        (case.folder / "data" / name).mkdir(parents=True)
    pictures = []
    for index in range(7):
        picture = image_files.photograph(generator, 18, 22)
        pictures.append(picture)
        image_files.Image.fromarray(picture).save(case.folder / "data" / "images" / f"{index}.png")
        image_files.Image.fromarray((picture[..., 0] // 64).astype(np.uint8)).save(
            case.folder / "data" / "masks" / f"{index}.png")
    export(case, {"name": "masks", "data": {"type": "segmentation", "root": "data", "split": 0.3,
                                            "class_names": ["a", "b", "c", "d"]}, "model": {"layers": layers}})
    with torch.inference_mode():
        logits = modules(torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2).float() / 255)
    rows = predicted(case, "exported", "data/images", "--masks", "out", *words)
    top = logits.topk(2, dim=1).values
    clear = (top[:, 0] - top[:, 1] > 1e-4).numpy()
    for index, row in enumerate(rows):
        mask = np.array(image_files.Image.open(case.folder / row["mask"]))
        case.findings.equal(f"pixels of mask {index}", mask[clear[index]].tolist(),
                            logits[index].argmax(0).numpy()[clear[index]].tolist())
    case.findings.holds("most pixels are compared", clear.mean() > 0.99)


def compare_table(case, target):
    case.title = f"a table, {target}"
    import pandas
    generator = np.random.default_rng(case.number)
    size = 90
    table = pandas.DataFrame({"length": generator.normal(50, 9, size), "town": generator.choice(["york", "bath"], size),
                              "weight": np.where(generator.random(size) < 0.2, np.nan, generator.normal(-3, 2, size))})
    table["price"] = (table["length"] * 1000 + (table["town"] == "bath") * 20000 if target == "numeric" else
                      np.where(table["length"] > 50, "long", "short"))
    table.to_csv(case.folder / "train.csv", index=False)
    run = case.trainer.run(case.folder, {
        "data": {"type": "csv", "train": str(case.folder / "train.csv"), "target": "price", "missing": ["median"],
                 **({"target_type": "numeric", "standardize_target": True} if target == "numeric" else {})},
        "model": {"layers": [{"linear": {"out": 9}}, "tanh", {"linear": {"out": 1 if target == "numeric" else 2}}]},
        "loss": "mse" if target == "numeric" else "cross_entropy",
        "optimizer": {"type": "adamw", "lr": 0.05}, "train": {"batch_size": 30, "epochs": 4}}, name="table")
    weights = {name: torch.from_numpy(array).double() for name, array in run.weights(run.saved_steps()[-1]).items()}
    asked(case, "export", "table", "--to", "exported")
    new = table.drop(columns="price").sample(frac=1, random_state=1)[["town", "weight", "length"]]
    new.to_csv(case.folder / "new.csv", index=False)
    with open(case.folder / "new.csv", "a", encoding="utf-8") as file:
        file.write("leeds,1,2\nyork,heavy,3\n")
    rows = predicted(case, "exported", "new.csv", accept=6)
    case.findings.equal("rows", len(rows), size + 2)
    case.findings.holds("a category that training had not is none of them", rows[-2]["error"] is None)
    case.findings.holds("what is no number is an error", rows[-1]["error"] is not None and rows[-1]["input"] == "new.csv:93")

    def standardized(column, values):
        column = column.fillna(column.median())
        return (values.fillna(column.median()) - column.mean()) / column.std(ddof=0)
    features = np.stack([standardized(table["length"], new["length"]), (new["town"] == "bath"), (new["town"] == "york"),
                         standardized(table["weight"], new["weight"])], 1).astype(np.float64)
    hidden = torch.tanh(torch.from_numpy(features) @ weights["0.weight"].T + weights["0.bias"])
    out = hidden @ weights["2.weight"].T + weights["2.bias"]
    if target == "numeric":
        wanted = (out[:, 0] * table["price"].std(ddof=0) + table["price"].mean()).numpy()
        found = np.array([row["numbers"]["price"] for row in rows[:size]])
        case.findings.close("prices, beside the largest", found / np.abs(wanted).max(), wanted / np.abs(wanted).max(), ALLOWED)
    else:
        found = np.array([[row["probabilities"][name] for name in ("long", "short")] for row in rows[:size]])
        case.findings.close("probabilities", found, out.softmax(1).numpy(), ALLOWED)


def cases():
    images = [(compare_classes, ["--batch", "5"]), (compare_classes, ["memory.allocator=planned"]), (compare_masks, [])]
    return [*(images if HAS_TORCHVISION else []), (compare_table, "numeric"), (compare_table, "categorical")]


def run(case):
    compare, variant = cases()[case.index]
    compare(case, variant)


def num_cases(_options):
    if not HAS_TORCHVISION:
        print("  without torchvision: no predictions of images are compared; scripts/python_env.sh installs it",
              file=sys.stderr)
    return len(cases())
