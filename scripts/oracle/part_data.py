"""Data readers: every sample that reaches the model against NumPy and pandas over the same files, which are np.save's,
np.savez's and safetensors' own where they are arrays; orders, splits and last batches."""
import csv
import gzip

import numpy as np

import data_files
import data_probe
import safetensors_file
from trainer_runs import gradient_probe

try:
    from safetensors.numpy import save_file as save_safetensors
except ImportError:
    def save_safetensors(arrays, file):
        safetensors_file.write(file, arrays)

ROUNDING = 2.0**-24


def planes(images):
    """As `flatten` leaves images: channel, row, column."""
    return images.transpose(0, 3, 1, 2).reshape(len(images), -1) if images.ndim == 4 else images


def compare_samples(case, seen, samples, targets, allowed, name="sample"):
    """In the order of the files."""
    case.findings.equal(f"number of {name}s", len(seen), len(samples))
    for index, ((sample, target), expected, expected_target) in enumerate(zip(seen, samples, targets)):
        case.findings.close(f"{name} {index}", np.asarray(sample), expected, allowed)
        if isinstance(target, int):
            case.findings.equal(f"target of {name} {index}", target, int(expected_target))
        else:
            case.findings.close(f"target of {name} {index}", target[0], float(expected_target),
                                2 * ROUNDING * abs(float(expected_target)))


def compare_evaluation(case, section, outputs, samples, targets, allowed_input):
    """The samples set aside, by the loss that known weights have over them. The seed is that of the probe, since it
    decides a split."""
    generator = np.random.default_rng(case.number)
    weight = (generator.normal(size=(outputs, samples.shape[1])) / np.sqrt(samples.shape[1])).astype(np.float32)
    file = case.folder / "evaluated.safetensors"
    safetensors_file.write(file, {"1.weight": weight})
    config = {"seed": case.number, "data": section,
              "model": {"layers": ["flatten", {"linear": {"out": outputs, "bias": False}}]},
              "optimizer": {"type": "sgd", "lr": 0}, "train": {"batch_size": 7, "steps": 1}}
    run = case.trainer.run(case.folder, config, "--weights", file, name="evaluated")
    logits = samples @ weight.astype(np.float64).T
    shifted = logits - logits.max(axis=1, keepdims=True)
    losses = np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(samples)), targets]
    event = run.evaluations[-1]
    case.findings.equal("validation samples", event["samples"], len(samples))
    allowed = 4 * allowed_input * float(np.abs(weight).sum(axis=1).max()) + 1e-6
    case.findings.close("validation loss", event["loss"], float(losses.mean()), allowed)
    own = logits[np.arange(len(samples)), targets]
    if np.partition(np.abs(logits - own[:, None]), 1, axis=1)[:, 1].min() > 1e-5:
        case.findings.close("validation accuracy", event["accuracy"], float((logits.argmax(1) == targets).mean()), 1e-12)


def images_of(generator, count, shape, classes):
    labels = np.concatenate([np.arange(classes), generator.integers(0, classes, count)])[:count]
    return generator.integers(0, 256, (count, *shape), dtype=np.uint8), labels


def pixel_rounding(mean, std):
    return 4 * ROUNDING * float((1 + np.max(np.abs(mean))) / np.min(std))


def idx(case, variant):
    generator = np.random.default_rng(case.number)
    channels = 3 if variant == "channels" else 1
    shape = (case.random.randint(2, 6), case.random.randint(2, 6), channels)
    train, labels = images_of(generator, 23, shape, 4)
    validation, validation_labels = images_of(generator, 9, shape, 4)
    suffix = ".gz" if variant == "gzip" else ""
    separator = "." if variant == "dotted" else "-"
    mean, std = [0.0], [1.0]
    section = {"type": "idx", "root": str(case.folder), "shuffle": False}
    if variant in ("normalised", "channels"):
        mean, std = [0.4, 0.5, 0.3][:channels], [0.2, 0.3, 0.25][:channels]
        section["normalize"] = {"mean": mean, "std": std}
    names = {"train": (f"train-images{separator}idx3-ubyte{suffix}", f"train-labels{separator}idx1-ubyte{suffix}"),
             "validation": (f"t10k-images{separator}idx3-ubyte{suffix}", f"t10k-labels{separator}idx1-ubyte{suffix}")}
    if variant == "named":
        names = {"train": ("a.idx", "a-labels.idx"), "validation": ("b-images.idx", "b-labels.idx")}
        section.update(train="a.idx", train_labels="a-labels.idx", validation="b-images.idx")
    for part, images, its_labels in (("train", train, labels), ("validation", validation, validation_labels)):
        data_files.write_idx(case.folder / names[part][0], images[..., 0] if channels == 1 else images)
        data_files.write_idx(case.folder / names[part][1], its_labels)
    if variant == "more classes":
        section["classes"] = 6
    outputs = section.get("classes", 4)

    def read(part):
        images = data_files.read_idx(case.folder / names[part][0])
        images = images[..., None] if images.ndim == 3 else images
        return planes(data_files.standardised_pixels(images, mean, std)), data_files.read_idx(case.folder / names[part][1])
    seen, _ = data_probe.seen_samples(case.trainer, case.folder, section, outputs, seed=case.number)
    allowed = pixel_rounding(mean, std)
    compare_samples(case, seen, *read("train"), allowed)
    compare_evaluation(case, section, outputs, *read("validation"), allowed)


def cifar10(case, variant):
    generator = np.random.default_rng(case.number)
    folder = case.folder / "cifar-10-batches-bin" if variant == "as unpacked" else case.folder
    folder.mkdir(exist_ok=True)
    files = [folder / f"data_batch_{i}.bin" for i in range(1, 6)]
    for file in [*files, folder / "test_batch.bin"]:
        data_files.write_cifar10(file, *images_of(generator, case.random.randint(2, 4), (32, 32, 3), 10))
    mean, std = [0.4914, 0.4822, 0.4465], [0.247, 0.2435, 0.2616]
    section = {"type": "cifar10", "root": str(case.folder), "shuffle": False, "normalize": {"mean": mean, "std": std}}
    seen, _ = data_probe.seen_samples(case.trainer, case.folder, section, 10, seed=case.number)
    allowed = pixel_rounding(mean, std)
    images, labels = data_files.read_cifar10(files)
    compare_samples(case, seen, planes(data_files.standardised_pixels(images, mean, std)), labels, allowed)
    images, labels = data_files.read_cifar10([folder / "test_batch.bin"])
    compare_evaluation(case, section, 10, planes(data_files.standardised_pixels(images, mean, std)), labels, allowed)


CSV_VARIANTS = {
    "plain": {}, "semicolons": {"delimiter": ";"}, "tabs": {"delimiter": "\t"}, "bars without header": {
        "delimiter": "|", "header": False}, "quoted": {"quoting": csv.QUOTE_ALL}, "CRLF": {"line_end": "\r\n"},
    "target by name": {"target": "b"}, "target by position": {"target": "1"}, "numeric target": {"numeric": True},
    "text labels": {"labels": ["pear", "apple", "an \"odd\", one", "fig"]}, "number labels": {"labels": [10, 9, -1, 2.5]},
    "constant column": {"columns": "constant"}, "timestamps": {"columns": "timestamps"}, "tiny": {"columns": "tiny"},
    "huge": {"columns": "huge"}, "offset": {"columns": "offset"}, "split": {"split": 0.3}, "gzip": {"gzip": True},
}


def column_values(generator, kind, count):
    values = generator.normal(size=(count, 4))
    if kind == "constant":
        values[:, 1] = 0.1
    elif kind == "timestamps":
        values[:, 2] = 1_767_225_600 + generator.integers(0, 86_400, count)
    elif kind == "tiny":
        values *= 1e-40
    elif kind == "huge":
        values *= 1e40
    elif kind == "offset":
        values[:, 0] += 1e6
    return values


def csv_table(case, variant):
    options = CSV_VARIANTS[variant]
    generator = np.random.default_rng(case.number)
    labels = options.get("labels", [0, 1, 2, 3])
    header, delimiter = options.get("header", True), options.get("delimiter", ",")
    names = ["a", "b", "c", "d", "y"]
    # As trainer takes it: a name, a position, or the last column.
    target = options.get("target", "4")
    position = names.index(target) if target in names else int(target)
    files = {}
    for part, count in (("train", 26), ("validation", 11)):
        values = column_values(generator, options.get("columns"), count)
        if options.get("numeric"):
            targets = [round(float(value), 4) for value in generator.normal(size=count)]
        else:
            targets = [labels[i] for i in [*range(len(labels)), *generator.integers(0, len(labels), count)][:count]]
        rows = [list(map(float, row)) for row in values]
        for row, its_target in zip(rows, targets):
            row.insert(position, its_target)
        files[part] = case.folder / f"{part}.csv"
        data_files.write_csv(files[part], names, rows, delimiter, header, options.get("quoting", csv.QUOTE_MINIMAL),
                             options.get("line_end", "\n"))
        if options.get("gzip"):
            packed = files[part].with_suffix(".csv.gz")
            packed.write_bytes(gzip.compress(files[part].read_bytes()))
            files[part] = packed
    section = {"type": "csv", "train": str(files["train"]), "validation": str(files["validation"]), "shuffle": False,
               "header": header, "delimiter": delimiter}
    if "target" in options:
        section["target"] = target
    if options.get("numeric"):
        section["target_type"] = "numeric"
    if "split" in options:
        del section["validation"]
        section["split"] = options["split"]
    read = {part: data_files.read_csv(file, names[position] if header else position, delimiter, header)
            for part, file in files.items()}
    return section, read, bool(options.get("numeric")), len(labels)


def classes_of(column, all_labels):
    order = {label: index for index, label in enumerate(sorted(set(all_labels)))}
    return np.array([order[label] for label in column])


def csv_data(case, variant):
    section, read, numeric, outputs = csv_table(case, variant)
    features, column = read["train"]
    targets = column.to_numpy(np.float64) if numeric else classes_of(column.tolist(), column.tolist())
    seen, _ = data_probe.seen_samples(case.trainer, case.folder, section, 1 if numeric else outputs, numeric=numeric,
                                      seed=case.number)
    if variant == "split":
        compare_split(case, section, seen, features, targets, outputs)
        return
    expected = data_files.standardised(features, features)
    # One rounding to f32, and what doubles lose of numbers that are large beside their deviation.
    deviation = features.std(axis=0)
    condition = float(np.max(np.abs(features).max(axis=0)[deviation > 0] / deviation[deviation > 0]))
    allowed = (4 * ROUNDING + 8 * 2.0**-53 * condition) * float(np.abs(expected).max())
    compare_samples(case, seen, expected, targets, allowed)
    if not numeric:
        others, column = read["validation"]
        compare_evaluation(case, section, outputs, data_files.standardised(others, features),
                           classes_of(column.tolist(), read["train"][1].tolist()), allowed)


def compare_split(case, section, seen, features, targets, outputs):
    """Which samples are set aside is trainer's own choice: its training samples say which, whatever their scale."""
    count = len(features) - round(section["split"] * len(features))
    case.findings.equal("training samples", len(seen), count)
    found = np.array([sample for sample, _ in seen])
    # Standardising keeps the order of a column's numbers, and the numbers of a column are all different: rows of the
    # training set are found by their first feature, which is affine in the file's.
    whole = features[:, 0]
    slope, offset = affine(found[:, 0], whole)
    chosen = [int(np.argmin(np.abs(whole - (slope * value + offset)))) for value in found[:, 0]]
    case.findings.equal("rows are taken once, in order", chosen, sorted(set(chosen)))
    train = features[chosen]
    expected = data_files.standardised(train, train)
    allowed = 8 * ROUNDING * float(np.abs(expected).max())
    compare_samples(case, seen, expected, targets[chosen], allowed)
    aside = [row for row in range(len(features)) if row not in set(chosen)]
    compare_evaluation(case, section, outputs, data_files.standardised(features[aside], train), targets[aside], allowed)


def affine(found, whole):
    """(slope, offset) with which every found number, standardised, is one of the whole: tried over which numbers of the
    file its two extremes may be."""
    low, high = found.min(), found.max()
    ordered = np.sort(whole)
    best = (np.inf, 1.0, 0.0)
    for i in range(len(ordered)):
        for j in range(i + len(found) - 1, len(ordered)):
            slope = (ordered[j] - ordered[i]) / (high - low)
            offset = ordered[i] - slope * low
            off = max(np.abs(whole - (slope * value + offset)).min() for value in found)
            best = min(best, (off, slope, offset))
    return best[1], best[2]


# What stands for missing values: by column of TABLE_COLUMNS, and how trainer is told so.
TABLE_RULES = {
    "filled by mean": {"missing": ["mean", "mode"]}, "filled by median": {"missing": ["median", "category"]},
    "filled by mode": {"missing": "mode"}, "dropped": {"missing": "drop"},
    "dropped where words are missing": {"missing": ["median", "drop"]},
    "column by column": {"columns": {"length": {"missing": "median"}, "grade": {"type": "category", "missing": "category"},
                                     "colour": {"missing": "mode"}, "shape": {"missing": "drop"}}},
    "semicolons and markers": {"missing": ["mean", "category"], "missing_values": ["?", "-99"], "delimiter": ";"},
    "quoted, in CRLF": {"missing": ["mean", "category"], "quoting": csv.QUOTE_ALL, "line_end": "\r\n"},
    "as they are": {"missing": ["mean", "category"], "standardize": False},
    "numeric": {"missing": ["mean", "category"], "target": "price"},
    "two targets": {"missing": ["mean", "category"], "target": ["weight", "price"]},
    "standardised targets": {"missing": ["mean", "category"], "target": ["weight", "price"], "standardize_target": True},
}
TABLE_COLUMNS = ["number", "length", "colour", "grade", "shape", "width", "price", "weight", "kind"]
COLOURS = ["red", "Green", "a, b", 'say "x"', "blau;grün", "two\nlines"]


def random_table(generator, count, extra_colours, markers):
    """Rows of cells, about one in six of those that may be missing empty or one of the markers."""
    gaps = ["", "NA", "null", *markers]

    def maybe(value):
        return gaps[generator.integers(len(gaps))] if generator.random() < 1 / 6 else value
    return [[1000 + i, maybe(round(float(generator.normal(10, 4)), 3)),
             maybe((COLOURS + extra_colours)[generator.integers(len(COLOURS) + len(extra_colours))]),
             maybe(int(generator.integers(1, 5))), maybe("round" if generator.random() < 0.5 else "long"),
             round(float(generator.normal()), 4), round(float(generator.normal(50, 9)), 2),
             round(float(generator.normal(3, 1)), 3), ["pear", "fig", "apple"][i if i < 3 else generator.integers(3)]]
            for i in range(count)]


def rule_of(options, column, is_category):
    """What trainer is told of a column, by hand: its own rule, else the first that suits."""
    own = options.get("columns", {}).get(column, {})
    if "missing" in own:
        return own["missing"]
    rules = options.get("missing", [])
    suited = ("mode", "category", "drop") if is_category else ("mean", "median", "mode", "drop")
    return next((rule for rule in ([rules] if isinstance(rules, str) else rules) if rule in suited), None)


def table_data(case, variant):
    """Words, gaps, columns that are left out: what pandas makes of the same file by fillna, dropna and get_dummies."""
    options = dict(TABLE_RULES[variant])
    generator = np.random.default_rng(case.number)
    delimiter, markers = options.get("delimiter", ","), options.get("missing_values", [])
    quoting, line_end = options.pop("quoting", csv.QUOTE_MINIMAL), options.pop("line_end", "\n")
    files = {part: case.folder / f"{part}.csv" for part in ("train", "validation")}
    for part, count, colours in (("train", 40, []), ("validation", 17, ["unseen", "never"])):
        data_files.write_csv(files[part], TABLE_COLUMNS, random_table(generator, count, colours, markers), delimiter,
                             quoting=quoting, line_end=line_end)
    targets = options.get("target", "kind")
    numeric = targets != "kind"
    targets = [targets] if isinstance(targets, str) else targets
    options.setdefault("columns", {"grade": "category"})
    section = {"type": "csv", "train": str(files["train"]), "validation": str(files["validation"]), "shuffle": False,
               "target": "kind", "target_type": "numeric" if numeric else "categorical",
               "exclude": ["num*", "kind" if numeric else "price"], **options}
    tables = {part: data_files.read_table(file, delimiter, markers) for part, file in files.items()}
    columns = [name for name in TABLE_COLUMNS if name not in (*targets, "number", "kind" if numeric else "price")]
    words = {"colour", "grade", "shape"}
    columns_options = {name: value for name, value in options["columns"].items() if isinstance(value, dict)}
    rules = {name: rule_of({**options, "columns": columns_options}, name, name in words) for name in columns}
    dropping = [name for name, rule in rules.items() if rule == "drop"]
    tables = {part: table.dropna(subset=dropping) for part, table in tables.items()}
    rules["categories"] = ("grade",)
    features = {part: data_files.features_of_table(table, tables["train"], columns, rules,
                                                   options.get("standardize", True)) for part, table in tables.items()}
    outputs = len(targets) if numeric else 3
    seen, _ = data_probe.seen_samples(case.trainer, case.folder, section, outputs, numeric=numeric, seed=case.number)
    allowed = 8 * ROUNDING * float(np.abs(features["train"]).max())
    if not numeric:
        classes = {part: classes_of(table["kind"].tolist(), tables["train"]["kind"].tolist())
                   for part, table in tables.items()}
        compare_samples(case, seen, features["train"], classes["train"], allowed)
        compare_evaluation(case, section, outputs, features["validation"], classes["validation"], allowed)
        return
    wanted = tables["train"][targets].to_numpy(np.float64)
    if options.get("standardize_target"):
        wanted = data_files.standardised(wanted, wanted)
    case.findings.equal("number of samples", len(seen), len(wanted))
    for index, ((sample, target), expected, expected_target) in enumerate(zip(seen, features["train"], wanted)):
        case.findings.close(f"sample {index}", np.asarray(sample), expected, allowed)
        case.findings.close(f"targets of sample {index}", np.asarray(target), expected_target,
                            8 * ROUNDING * float(np.abs(wanted).max()))


def digits(case, _variant):
    """The built-in digits: those trained on and those set aside are all of them."""
    table = np.loadtxt(gzip.open(data_files.DIGITS, "rt"), delimiter=",", dtype=int)
    pixels = (table[:, :64] * 255 + 8) // 16
    images, labels = planes(data_files.standardised_pixels(pixels.reshape(-1, 8, 8, 1))), table[:, 64]
    seen, _ = data_probe.seen_samples(case.trainer, case.folder, {"type": "digits", "shuffle": False}, 10, seed=case.number)
    rows = {tuple(row): [] for row in pixels.tolist()}
    for index, row in enumerate(pixels.tolist()):
        rows[tuple(row)].append(index)
    chosen = [rows.get(tuple(np.rint(sample * 255).astype(int).tolist()), [-1])[0] for sample, _ in seen]
    case.findings.equal("training samples", len(seen), 1797 - 360)
    case.findings.equal("every one is a digit of the file, once", len(set(chosen) - {-1}), 1797 - 360)
    compare_samples(case, seen, images[chosen], labels[chosen], pixel_rounding([0], [1]))
    aside = sorted(set(range(1797)) - set(chosen))
    compare_evaluation(case, {"type": "digits", "shuffle": False}, 10, images[aside], labels[aside],
                       pixel_rounding([0], [1]))


WHOLE_TYPES = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "int64", "uint64"]
NUMBER_TYPES = ["float16", "float32", "float64", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool"]
ARRAY_VARIANTS = {
    "npy features": {}, "npz features": {"file": "npz"}, "compressed features": {"file": "compressed"},
    "safetensors features": {"file": "safetensors"}, "npy pixels": {"pixels": True},
    "npz pixels of one channel": {"pixels": True, "file": "npz", "channels": 0},
    "compressed pixels, channels first": {"pixels": True, "file": "compressed", "layout": "channels_first"},
    "safetensors pixels, channels first": {"pixels": True, "file": "safetensors", "layout": "channels_first"},
    "npz images of numbers": {"file": "npz", "layout": "channels_last", "images": True},
    "npy images of numbers, channels first": {"layout": "channels_first", "images": True},
    "npy numbers as targets": {"numeric": True}, "compressed numbers as targets": {"numeric": True, "file": "compressed"},
    "npz, all parts in one file": {"file": "npz", "names": ["x_train", "y_train", "x_test", "y_test"]},
}


def array_values(generator, dtype, shape):
    """Of a type's whole range where it is one of integers; else of any order of size."""
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(bool)
    if np.issubdtype(dtype, np.integer):
        limits = np.iinfo(dtype)
        return generator.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
    values = generator.normal(size=shape)
    return (values if dtype == "float16" else values * 10.0 ** generator.integers(-6, 7)).astype(dtype)


def array_files(case, options, parts):
    """Writes {name: array} by the library of the format; keys of the `data` section."""
    names = options.get("names", ["images", "labels"] if options.get("pixels") else ["x", "y"])
    kind = options.get("file", "npy")
    if kind == "npy":
        for name, array in parts.items():
            np.save(case.folder / f"{name}.npy", array)
        return {"train": "train.npy", "train_labels": "train_labels.npy", "validation": "validation.npy",
                "validation_labels": "validation_labels.npy"}
    save = {"npz": np.savez, "compressed": np.savez_compressed,
            "safetensors": lambda file, **arrays: save_safetensors(arrays, file)}[kind]
    suffix = "safetensors" if kind == "safetensors" else "npz"
    if len(names) == 4:
        save(case.folder / "all.npz", **dict(zip(names, parts.values())))
        return {"train": "all.npz", "fields": dict(zip(["input", "target", "validation_input", "validation_target"], names))}
    for part in ("train", "validation"):
        save(case.folder / f"{part}.{suffix}", **{names[0]: parts[part], names[1]: parts[f"{part}_labels"]})
    return {"train": f"train.{suffix}", "validation": f"validation.{suffix}"}


def arrays(case, variant):
    options = ARRAY_VARIANTS[variant]
    generator = np.random.default_rng(case.number)
    layout = options.get("layout", "channels_last")
    has_images = options.get("pixels") or options.get("images")
    shape = (case.random.randint(1, 9),)
    if has_images:
        sides, channels = (case.random.randint(5, 8), case.random.randint(5, 8)), options.get("channels", 3)
        shape = sides if channels == 0 else (*sides, channels) if layout == "channels_last" else (channels, *sides)
    dtype = "uint8" if options.get("pixels") else case.random.choice(NUMBER_TYPES)
    numeric, outputs = options.get("numeric", False), 1 if options.get("numeric") else 4
    parts = {}
    for part, count in (("train", 23), ("validation", 9)):
        parts[part] = array_values(generator, dtype, (count, *shape))
        if numeric:
            parts[f"{part}_labels"] = generator.normal(size=count).astype(case.random.choice(["float32", "float64"]))
        else:
            parts[f"{part}_labels"] = images_of(generator, count, (1,), 4)[1].astype(case.random.choice(WHOLE_TYPES))
    section = {"type": "arrays", "root": str(case.folder), "shuffle": False, **array_files(case, options, parts)}
    if has_images and options.get("channels", 3):
        section["layout"] = layout
    if numeric:
        section["target_type"] = "numeric"
    case.title += f", {dtype} {shape}"

    def read(part):
        """As the model's first layer finds it, in the order of planes."""
        samples = parts[part].astype(np.float32).astype(np.float64)
        if options.get("pixels"):
            samples = samples / 255
        if samples.ndim == 4 and layout == "channels_last":
            samples = samples.transpose(0, 3, 1, 2)
        return samples.reshape(len(samples), -1), parts[f"{part}_labels"].astype(np.float64 if numeric else np.int64)
    samples, targets = read("train")
    largest = float(max(np.abs(samples).max(), np.abs(read("validation")[0]).max()))
    allowed = 4 * ROUNDING * largest
    seen, _ = data_probe.seen_samples(case.trainer, case.folder, section, outputs, numeric=numeric, seed=case.number)
    compare_samples(case, seen, samples, targets, allowed)
    # A loss of numbers that are large beside 1 is that of few samples.
    if not numeric and largest < 10:
        compare_evaluation(case, section, outputs, *read("validation"), allowed)


def order(case, variant):
    """Image i is lit in pixel i alone, and all have one class: a step's gradient says who was in its batch."""
    count, batch, epochs = case.random.randint(20, 30), case.random.randint(3, 8), 4
    images = np.zeros((count, 6, 6, 1), np.uint8)
    images.reshape(count, -1)[np.arange(count), np.arange(count)] = 255
    data_files.write_idx(case.folder / "train-images-idx3-ubyte", images[..., 0])
    data_files.write_idx(case.folder / "train-labels-idx1-ubyte", np.zeros(count, np.uint8))
    section = {"type": "idx", "root": str(case.folder), "classes": 2, "shuffle": variant != "unshuffled",
               "drop_last": variant == "drop_last"}
    orders = {}
    for name, seed in (("one", case.number), ("again", case.number), ("other", case.number + 1)):
        config = gradient_probe({"seed": seed, "data": section, "model": {"init": "zeros", "layers": ["flatten", {
            "linear": {"out": 2}}]}, "train": {"batch_size": batch, "epochs": epochs, "log_every": 1}})
        run = case.trainer.run(case.folder, config, name=name)
        batches = []
        for event in run.steps:
            row = -run.gradients(event["step"])["1.weight"][0] * 2 * event["samples"]
            case.findings.close(f"{name} step {event['step']} is a mean of its samples", row[:count], np.rint(row[:count]),
                                1e-5)
            batches.append((event["epoch"], event["samples"], np.flatnonzero(np.rint(row) > 0).tolist()))
        orders[name] = batches
    sizes = [batch] * (count // batch) + ([count % batch] if count % batch and variant != "drop_last" else [])
    for epoch in range(1, epochs + 1):
        mine = [entry for entry in orders["one"] if entry[0] == epoch]
        case.findings.equal(f"epoch {epoch}: sizes of batches", [entry[1] for entry in mine], sizes)
        met = [sample for entry in mine for sample in entry[2]]
        case.findings.equal(f"epoch {epoch}: nobody twice", len(met), len(set(met)))
        case.findings.equal(f"epoch {epoch}: samples", len(met), sum(sizes))
        if variant == "unshuffled":
            case.findings.equal(f"epoch {epoch}: in order", met, list(range(sum(sizes))))
    case.findings.equal("the seed decides the order", orders["again"], orders["one"])
    if variant != "unshuffled":
        in_epoch = [[entry[2] for entry in orders["one"] if entry[0] == epoch] for epoch in range(1, epochs + 1)]
        case.findings.holds("each epoch has its own order", all(in_epoch[i] != in_epoch[j] for i in range(epochs)
                                                                for j in range(i)))
        case.findings.holds("another seed has another order", orders["other"] != orders["one"])
        if variant == "drop_last" and count % batch:
            left = [set(range(count)) - {s for e in orders["one"] if e[0] == epoch for s in e[2]} for epoch in (1, 2, 3, 4)]
            case.findings.holds("others are left out in other epochs", len({tuple(sorted(one)) for one in left}) > 1)


def refused(case, variant):
    """What pandas would read as a number that is none, or not at all alike."""
    bad = {"missing value": "1,,0", "NaN": "1,nan,0", "infinity": "1,inf,0", "text": "1,two,0", "short row": "1,2",
           "long row": "1,2,3,4", "thousands": '1,"1,234",0', "unit": "1,5 kg,0"}[variant]
    file = case.folder / "train.csv"
    file.write_text(f"a,b,y\n1,2,0\n3,4,1\n{bad}\n", encoding="utf-8")
    config = {"data": {"type": "csv", "train": str(file)}, "model": {"layers": [{"linear": {"out": 2}}]}}
    run_ = case.trainer.run(case.folder, config, accept=(0, 6))
    case.findings.equal("exit code", run_.exit_code, 6)
    case.findings.holds("the message names the line", "train.csv:4" in run_.said, run_.said)


VARIANTS = [(idx, variant) for variant in ("plain", "gzip", "dotted", "named", "normalised", "channels", "more classes")]
VARIANTS += [(cifar10, variant) for variant in ("plain", "as unpacked")]
VARIANTS += [(csv_data, variant) for variant in CSV_VARIANTS]
VARIANTS += [(table_data, variant) for variant in TABLE_RULES]
VARIANTS += [(arrays, variant) for variant in ARRAY_VARIANTS]
VARIANTS += [(digits, "built in")]
VARIANTS += [(order, variant) for variant in ("shuffled", "unshuffled", "drop_last")]
VARIANTS += [(refused, variant) for variant in ("missing value", "NaN", "infinity", "text", "short row", "long row",
                                                "thousands", "unit")]
SHORT = [(function, variant) for function, variant in VARIANTS
         if function is not digits and variant not in list(ARRAY_VARIANTS)[1::2]]


def run(case):
    function, variant = (SHORT if case.options.short else VARIANTS)[case.index]
    case.title = f"{function.__name__}, {variant}"
    function(case, variant)


def num_cases(options):
    return len(SHORT if options.short else VARIANTS)
