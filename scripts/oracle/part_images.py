"""Images: decoding against PIL, folders of classes against torchvision's ImageFolder, and every transform, masks included,
against torchvision.transforms.v2 on the numbers that trainer draws. Needs torchvision; without it there is no case.
"""
import importlib.util
import json
import tarfile

import numpy as np

import data_files
import philox

HAS_TORCHVISION = importlib.util.find_spec("torchvision") is not None
if HAS_TORCHVISION:
    import torchvision

    import image_files
    import torchvision_transforms

MOST_MEAN, MOST_PIXEL = 1.0, 4.0  # grey levels, of files that hold pixels approximately and of all that is computed
LEAST_SIDE = 10           # of images that are transformed
MODEL = {"layers": ["flatten", {"linear": {"out": 2}}]}


def prepared(case, section, count, *words, name="images", seed=1):
    """What `trainer data --npz` writes: samples, targets, index."""
    config = {"seed": seed, "data": section, "model": MODEL}
    return case.trainer.prepared(case.folder, config, "--samples", count, *words, name=name)


def compare(case, name, measured, expected, exact=False):
    """Images of one shape, by their mean and their largest deviation in grey levels; whether they are equal."""
    if measured.shape != expected.shape:
        case.findings.equal(f"{name}: shape", measured.shape, expected.shape)
        return False
    deviation = np.abs(measured.astype(int) - expected.astype(int))
    case.findings.close(f"{name}: mean", float(deviation.mean()), 0.0, 0.0 if exact else MOST_MEAN)
    case.findings.close(f"{name}: most", float(deviation.max()), 0.0, 0.0 if exact else MOST_PIXEL)
    return not deviation.any()


def tell_equal(case, equal):
    case.title += f", {sum(equal)} of {len(equal)} equal to the bit"


def known_answers(case, _variant):
    """The generator that all the others rely on."""
    for counter, key, words in philox.KNOWN_ANSWERS:
        case.findings.equal(f"Philox of {counter}", philox.philox4x32(counter, key), words)


def decoded(case, variant):
    writer, kind, exact, ending, channels = variant
    generator = np.random.default_rng(case.number)
    height, width = image_files.size(generator)
    count = 4 if case.options.short else 12
    folder = case.folder / "images" / "one"
    folder.mkdir(parents=True)
    for number in range(count):
        (folder / f"{number:02}.{ending}").write_bytes(writer(generator, height, width, kind))
    found = prepared(case, {"type": "image_folder", "train": "images", "channels": channels}, count)
    case.findings.equal("samples", len(found["samples"]), count)
    equal = []
    for number, sample in zip(found["index"], found["samples"]):
        file = f"{number:02}.{ending}"
        equal.append(compare(case, file, sample, image_files.by_pil(folder / file, channels), exact))
    tell_equal(case, equal)


def transparent(case, variant):
    """A colour that stands for nothing, as the PNG specification has it; PIL has it so for 1 and 8 bits alone."""
    generator = np.random.default_rng(case.number)
    height, width = image_files.size(generator)
    folder = case.folder / "images" / "one"
    folder.mkdir(parents=True)
    shown = []
    for number in range(4):
        file, pixels = image_files.transparent_png(generator, height, width, *variant)
        (folder / f"{number}.png").write_bytes(file)
        shown.append(pixels)
    for channels in (3, 4):
        found = prepared(case, {"type": "image_folder", "train": "images", "channels": channels}, 4)
        for number, sample in enumerate(found["samples"]):
            compare(case, f"{number}.png in {channels} channels", sample, shown[number][..., :channels], exact=True)


def turned_otherwise(case, variant):
    """Orientation is that of EXIF, in a PNG in front of the pixels."""
    file, stored = image_files.turned_by_other_means(np.random.default_rng(case.number), 20, 31, variant)
    path = case.folder / "images" / "one" / "a.jpg"
    path.parent.mkdir(parents=True)
    path.write_bytes(file)
    found = prepared(case, {"type": "image_folder", "train": "images"}, 1)
    compare(case, "as it is stored", found["samples"][0], stored)
    case.findings.equal("PIL turns it", image_files.by_pil(path).shape, (31, 20, 3))


FOLDERS = {
    "numbers": ["10/a.png", "9/a.png", "9/b.png", "2/z.png"],
    "letters": ["Zebra/1.png", "ant/1.png", "ant/2.png", "Ant/1.png", "ämter/1.png", "b c/1.png"],
    "nested": ["a/x/2.png", "a/x/1.png", "a/x-y/1.png", "a/x.png", "a/x y/3.png", "a-b/1.png", "a/X/1.png", "b/1.png",
               "b/deep/er/1.png", "b/deep/1.png"],
    "kinds": ["a/1.jpg", "a/1.JPEG", "a/2.png", "a/10.webp", "a/1.bmp", "b/1.PNG", "b/_.png"],
}


def folders(case, variant):
    """Each image has a grey level of its own, which says whose sample is where."""
    root = case.folder / "images"
    for number, path in enumerate(FOLDERS[variant]):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        form = {"jpg": "JPEG", "jpeg": "JPEG", "webp": "WEBP", "bmp": "BMP", "png": "PNG"}[path.rpartition(".")[2].lower()]
        image = image_files.Image.fromarray(np.full((8, 8, 3), 10 * number, np.uint8))
        (root / path).write_bytes(image_files.saved(image, form))
    by_torchvision = torchvision.datasets.ImageFolder(str(root))
    found = prepared(case, {"type": "image_folder", "train": "images"}, 1000)
    levels = [int(round(float(np.asarray(by_torchvision[i][0]).mean()) / 10)) for i in range(len(by_torchvision))]
    case.findings.equal("order", [int(round(float(sample.mean()) / 10)) for sample in found["samples"]], levels)
    case.findings.equal("classes", found["targets"].tolist(), by_torchvision.targets)
    case.findings.equal("numbers", found["index"].tolist(), list(range(len(by_torchvision))))
    code, text, error = case.trainer.ask(case.folder, "data", "images.yaml", "--no-sheet", "--json")
    case.findings.equal("trainer data", (code, error), (0, ""))
    case.findings.equal("names of classes", [each["name"] for each in json.loads(text)["classes"]], by_torchvision.classes)


def drawn_range(random, low, high):
    first, second = sorted((random.uniform(low, high), random.uniform(low, high)))
    return [round(first, 3), round(second, 3)]


def resize(random):
    keys = {"size": [random.randint(3, 70), random.randint(3, 70)]}
    if random.random() < 0.7:
        keys["interpolation"] = random.choice(["nearest", "bilinear", "bicubic"])
    return {"resize": keys}


def resize_shorter(random):
    return {"resize": {"size": random.randint(3, 60), "interpolation": random.choice(["nearest", "bilinear", "bicubic"])}}


def center_crop(random):
    return {"center_crop": {"size": random.choice([random.randint(1, 60), [random.randint(1, 90), random.randint(1, 90)]])}}


def random_crop(random):
    keys = {"size": [random.randint(1, 70), random.randint(1, 70)], "pad_if_needed": True}
    keys["padding"] = random.choice([0, random.randint(1, 9), [random.randint(0, 5), random.randint(0, 9)],
                                     [random.randint(0, 5) for _ in range(4)]])
    keys["fill"] = random.choice([0, random.randint(0, 255)])
    return {"random_crop": keys}


def bordered_crop(random):
    """Borders are not longer than an image, which torchvision's reflection does not reach beyond."""
    padding = random.randint(1, LEAST_SIDE - 1)
    size = [random.randint(1, LEAST_SIDE + 2 * padding) for _ in range(2)]
    return {"random_crop": {"size": size, "padding": padding, "padding_mode": random.choice(["reflect", "edge"])}}


def random_resized_crop(random):
    keys = {"size": [random.randint(3, 60), random.randint(3, 60)]}
    if random.random() < 0.7:
        keys["scale"] = drawn_range(random, 0.01, 1)
    if random.random() < 0.7:
        keys["ratio"] = drawn_range(random, 0.2, 4)
    if random.random() < 0.7:
        keys["interpolation"] = random.choice(["nearest", "bilinear", "bicubic"])
    return {"random_resized_crop": keys}


def flip(random):
    return {"flip": {"direction": random.choice(["horizontal", "vertical"]), "p": random.choice([0.5, 0.8])}}


def rotate(random):
    keys = {"degrees": random.choice([random.randint(1, 180), drawn_range(random, -200, 400), [90, 90], [-180, -180]])}
    keys["interpolation"] = random.choice(["nearest", "bilinear"])
    if random.random() < 0.5:
        keys["fill"] = random.randint(0, 255)
    return {"rotate": keys}


def color_jitter(random):
    keys = {}
    while not keys:
        for name in ("brightness", "contrast", "saturation"):
            if random.random() < 0.6:
                keys[name] = random.choice([round(random.uniform(0.05, 1.5), 3), drawn_range(random, 0, 3)])
        if random.random() < 0.5:
            keys["hue"] = random.choice([round(random.uniform(0.01, 0.5), 3), drawn_range(random, -0.5, 0.5)])
    return {"color_jitter": keys}


def one_color(name):
    def make(random):
        low, high = (-0.5, 0.5) if name == "hue" else (0, 3)
        return {"color_jitter": {name: drawn_range(random, low, high)}}
    return make


def random_erasing(random):
    keys = {"p": random.choice([0.5, 1.0]), "fill": random.randint(0, 255)}
    if random.random() < 0.6:
        keys["scale"] = drawn_range(random, 0.01, 1)
    if random.random() < 0.6:
        keys["ratio"] = drawn_range(random, 0.1, 5)
    return {"random_erasing": keys}


def to_grey(random):
    return {"to_grey": random.choice([{}, {"channels": 3}, {"p": 0.5}])}


# Kinds by name: (what makes one, whether images of any size become one).
TRANSFORMS = {"resize": (resize, True), "resize of the shorter side": (resize_shorter, False),
              "center_crop": (center_crop, True), "random_crop": (random_crop, True),
              "random_crop with a mirrored border": (bordered_crop, True),
              "random_resized_crop": (random_resized_crop, True), "flip": (flip, False), "rotate": (rotate, False),
              "color_jitter": (color_jitter, False), "brightness": (one_color("brightness"), False),
              "contrast": (one_color("contrast"), False), "saturation": (one_color("saturation"), False),
              "hue": (one_color("hue"), False), "random_erasing": (random_erasing, False), "to_grey": (to_grey, False)}
GEOMETRY = ("resize", "resize of the shorter side", "center_crop", "random_crop", "random_crop with a mirrored border",
            "random_resized_crop", "flip", "rotate", "random_erasing")


def chain(random, kinds):
    """Several in a row, one of which gives all images one size."""
    first = random.choice([name for name in kinds if TRANSFORMS[name][1] and "mirrored" not in name])
    names = [random.choice(kinds) for _ in range(random.randint(1, 3))]
    names.insert(random.randint(0, len(names)), first)
    return [TRANSFORMS[name][0](random) for name in names if "mirrored" not in name]


def stored_images(case, generator, count, one_size, channels):
    """Files of several kinds, as PIL decodes them, in the order of their names."""
    folder = case.folder / "images" / "one"
    folder.mkdir(parents=True)
    first = image_files.size(generator)
    images = []
    for number in range(count):
        height, width = (max(side, LEAST_SIDE) for side in (first if one_size else image_files.size(generator)))
        writer, kind, _, ending = image_files.SOME_KINDS[generator.integers(0, len(image_files.SOME_KINDS))]
        path = folder / f"{number:02}.{ending}"
        path.write_bytes(writer(generator, height, width, kind))
        images.append(image_files.by_pil(path, channels))
    return images


def transform(case, variant):
    name, of_training = variant
    generator = np.random.default_rng(case.number)
    is_chain = name == "chain"
    steps = chain(case.random, list(TRANSFORMS)) if is_chain else [TRANSFORMS[name][0](case.random)]
    one_size = not is_chain and not TRANSFORMS[name][1]
    channels = case.random.choice([1, 3] if is_chain else [1, 3, 4])
    images = stored_images(case, generator, 6 if case.options.short else 12, one_size, channels)
    case.title += f": {steps}, {channels} channels"
    epoch = case.random.randint(1, 5) if of_training else 1
    part = "train" if of_training else "validation"
    section = {"type": "image_folder", part: "images", "channels": channels, "transforms": {part: steps}}
    words = ["--epoch", epoch]
    if not of_training:
        section = {**section, "train": "images", "transforms": {"train": steps, "validation": steps}}
        words = ["--validation"]
    found = prepared(case, section, len(images), *words, seed=case.number)
    case.findings.equal("samples", len(found["samples"]), len(images))
    equal = []
    for number, sample in zip(found["index"].tolist(), found["samples"]):
        numbers = philox.DrawnNumbers(case.number, epoch - 1, number)
        shown = images[number]
        if channels == 4 and name not in GEOMETRY:  # torchvision refuses alpha here, and trainer leaves it alone
            shown = shown[..., :3]
        expected, _ = torchvision_transforms.transformed(steps, numbers, shown)
        if sample.shape[2] == 4 and expected.shape[2] == 3:
            expected = np.concatenate([expected, images[number][..., 3:]], axis=2)
        equal.append(compare(case, f"image {number}", sample, expected))
    tell_equal(case, equal)


def masks(case, variant):
    """The geometry of masks, to the bit, with -100 where they show nothing."""
    generator = np.random.default_rng(case.number)
    steps = chain(case.random, GEOMETRY) if variant == "chain" else [TRANSFORMS[variant][0](case.random)]
    one_size = variant != "chain" and not TRANSFORMS[variant][1]
    images = stored_images(case, generator, 6, one_size, 3)
    folder = case.folder / "masks"
    folder.mkdir()
    expected_masks = []
    for number, image in enumerate(images):
        mask = image_files.photograph(generator, *image.shape[:2], 1)[..., 0] // 52
        image_files.Image.fromarray(mask).save(folder / f"{number:02}.png")
        expected_masks.append(mask.astype(np.int64))
    case.title += f": {steps}"
    section = {"type": "segmentation", "train": "images/one", "train_labels": "masks", "classes": 5,
               "transforms": {"train": steps}}
    config = {"seed": case.number, "data": section, "model": {"layers": [{"conv2d": {"out": 5, "kernel": 1}}]},
              "loss": {"type": "cross_entropy", "ignore_index": -100}}
    found = case.trainer.prepared(case.folder, config, name="images")
    case.findings.equal("samples", len(found["samples"]), len(images))
    for number, sample, target in zip(found["index"].tolist(), found["samples"], found["targets"]):
        numbers = philox.DrawnNumbers(case.number, 0, number)
        image, mask = torchvision_transforms.transformed(steps, numbers, images[number], expected_masks[number])
        compare(case, f"image {number}", sample, image)
        mask[mask < 0] = -100
        case.findings.equal(f"mask {number}", target.tolist(), mask.tolist())


def sources(case, variant):
    """The same images from other kinds of data than folders."""
    generator = np.random.default_rng(case.number)
    steps = [{"random_crop": {"size": [15, 18], "padding": 2}}, {"color_jitter": {"brightness": 0.4, "hue": 0.2}},
             {"flip": {}}]
    section = {"type": variant, "transforms": {"train": steps}}
    count, labels = 9, generator.integers(0, 3, 9)
    labels[:3] = range(3)
    if variant in ("idx", "arrays"):
        channels = 1 if variant == "idx" else 3
        images = [image_files.photograph(generator, 16, 19, channels) for _ in range(count)]
        if variant == "idx":
            data_files.write_idx(case.folder / "images", np.stack(images)[..., 0])
            data_files.write_idx(case.folder / "labels", labels.astype(np.uint8))
            section.update(train="images", train_labels="labels")
        else:
            np.savez(case.folder / "train.npz", x=np.stack(images), y=labels)
            section.update(train="train.npz", layout="channels_last")
    else:
        images = stored_images(case, generator, count, False, 3)
        files = sorted((case.folder / "images" / "one").iterdir())
        if variant == "tar":
            with tarfile.open(case.folder / "train-00.tar", "w") as shard:
                for number, (file, label) in enumerate(zip(files, labels)):
                    (case.folder / "class").write_text(str(label), encoding="utf-8")
                    shard.add(file, f"{number:04}{file.suffix}")
                    shard.add(case.folder / "class", f"{number:04}.cls")
            section.update(train="train-*.tar")
        else:
            rows = [f"{file.relative_to(case.folder)},{label}" for file, label in zip(files, labels)]
            (case.folder / "train.csv").write_text("\n".join(["path,label", *rows]) + "\n", encoding="utf-8")
            section.update(train="train.csv")
        # What a crop cannot be cut from is enlarged first.
        steps.insert(0, {"resize": {"size": [16, 20]}})
    found = prepared(case, section, count, "--epoch", 3, seed=case.number)
    case.findings.equal("classes", found["targets"].tolist(), labels.tolist())
    for number, sample in enumerate(found["samples"]):
        numbers = philox.DrawnNumbers(case.number, 2, number)
        compare(case, f"image {number}", sample, torchvision_transforms.transformed(steps, numbers, images[number])[0])


def split(case, variant):
    """Samples that are set aside keep their numbers, by which they are drawn."""
    generator = np.random.default_rng(case.number)
    images = stored_images(case, generator, 12, False, 3)
    steps = [{"random_resized_crop": {"size": [17, 23]}}, {"flip": {}}]
    section = {"type": "image_folder", "train": "images", "split": 0.3,
               "transforms": {"train": steps, "validation": [{"resize": {"size": [17, 23]}}]}}
    trained = prepared(case, section, 100, "--epoch", 2, seed=case.number)
    aside = prepared(case, section, 100, "--validation", seed=case.number)
    case.findings.equal("each once", sorted(trained["index"].tolist() + aside["index"].tolist()), list(range(len(images))))
    case.findings.equal("set aside", len(aside["index"]), round(0.3 * len(images)))
    for found, its_steps, epoch in ((trained, steps, 1), (aside, section["transforms"]["validation"], 0)):
        case.findings.equal("in order", found["index"].tolist(), sorted(found["index"].tolist()))
        for number, sample in zip(found["index"].tolist(), found["samples"]):
            numbers = philox.DrawnNumbers(case.number, epoch, number)
            compare(case, f"image {number}", sample,
                    torchvision_transforms.transformed(its_steps, numbers, images[number])[0])


VARIANTS = [(known_answers, "known answers")]
if HAS_TORCHVISION:
    VARIANTS += [(decoded, (*kind, channels)) for kind in image_files.KINDS for channels in (3, 1, 4)]
    VARIANTS += [(transparent, form) for form in ((1, 1), (1, 2), (1, 4), (1, 8), (1, 16), (3, 8), (3, 16))]
    VARIANTS += [(turned_otherwise, means) for means in ("XMP", "behind the pixels")]
    VARIANTS += [(folders, name) for name in FOLDERS]
    VARIANTS += [(transform, (name, True)) for name in TRANSFORMS for _ in range(4)]
    VARIANTS += [(transform, (name, False)) for name in ("resize", "resize of the shorter side", "center_crop", "chain")]
    VARIANTS += [(transform, ("chain", True))] * 24
    VARIANTS += [(masks, name) for name in (*GEOMETRY, *["chain"] * 8)]
    VARIANTS += [(sources, kind) for kind in ("idx", "arrays", "image_list", "tar")]
    VARIANTS += [(split, "split")]
# One of each.
SHORT = [variant for position, variant in enumerate(VARIANTS) if variant not in VARIANTS[:position]]
SHORT = [(function, variant) for function, variant in SHORT if function is not decoded or variant[-1] == 3]


def run(case):
    function, variant = (SHORT if case.options.short else VARIANTS)[case.index]
    case.title = f"{function.__name__}, {variant[0] if function is transform else variant}"
    if function is decoded:
        case.title = f"decoded, {variant[0].__name__} {variant[1]}, {variant[-1]} channels"
    function(case, variant)


def num_cases(options):
    return len(SHORT if options.short else VARIANTS)
