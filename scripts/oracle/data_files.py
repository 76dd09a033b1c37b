"""Writes data sets in trainer's formats, and reads them with NumPy and pandas alone."""
import csv
import gzip
import pathlib
import struct

import numpy as np
import pandas


DIGITS = pathlib.Path(__file__).resolve().parents[2] / "datasets" / "digits.csv.gz"


def open_for_writing(path):
    return gzip.open(path, "wb") if str(path).endswith(".gz") else open(path, "wb")


def open_for_reading(path):
    return gzip.open(path, "rb") if str(path).endswith(".gz") else open(path, "rb")


def write_idx(path, array):
    """u8 of any rank, after the description of the MNIST family."""
    with open_for_writing(path) as file:
        file.write(bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape))
        file.write(np.ascontiguousarray(array, np.uint8).tobytes())


def read_idx(path):
    with open_for_reading(path) as file:
        content = file.read()
    rank = content[3]
    shape = struct.unpack_from(f">{rank}I", content, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(shape)


def write_cifar10(path, images, labels):
    """Images (N, 32, 32, 3); a record is the label and three planes."""
    records = np.concatenate([labels[:, None].astype(np.uint8), images.transpose(0, 3, 1, 2).reshape(len(images), -1)], 1)
    path.write_bytes(records.astype(np.uint8).tobytes())


def read_cifar10(paths):
    records = np.concatenate([np.fromfile(path, np.uint8).reshape(-1, 3073) for path in paths])
    return records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), records[:, 0]


def write_csv(path, columns, rows, delimiter=",", header=True, quoting=csv.QUOTE_MINIMAL, line_end="\n"):
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter, quoting=quoting, lineterminator=line_end)
        if header:
            writer.writerow(columns)
        writer.writerows(rows)


def read_csv(path, target, delimiter=",", header=True):
    """(features in f64, the target's column as pandas reads it); `target` is a name or a position."""
    table = pandas.read_csv(path, sep=delimiter, header=0 if header else None, skipinitialspace=True,
                            float_precision="round_trip")
    column = target if target in table.columns else table.columns[int(target)]
    return table.drop(columns=[column]).to_numpy(np.float64), table[column]


def standardised(features, train):
    """(x − mean) / std of the training rows, population standard deviation; constant columns become 0."""
    mean, std = train.mean(axis=0), train.std(axis=0, ddof=0)
    constant = np.ptp(train, axis=0) == 0
    # A constant column's own value, since its mean may be rounded.
    mean = np.where(constant, train[0], mean)
    return (features - mean) / np.where(constant, 1, std)


def read_table(path, delimiter=",", markers=()):
    """All columns as pandas takes them, with what it takes for missing."""
    return pandas.read_csv(path, sep=delimiter, na_values=list(markers), float_precision="round_trip",
                           skipinitialspace=True)


def features_of_table(table, train, columns, rules, standardises=True):
    """What the rows of `table` are to a model: its columns in order, filled from the rows of `train`, categories as
    one-hot, numbers standardised. `rules` says by column what stands for missing values; None where none are."""
    parts = []
    for name in columns:
        column, learned, rule = table[name], train[name], rules.get(name)
        is_category = not pandas.api.types.is_numeric_dtype(learned) or name in rules.get("categories", ())
        if rule in ("mean", "median"):
            fill = getattr(learned, rule)()
        elif rule == "mode":
            fill = learned.mode()[0]
        else:
            fill = None
        if fill is not None:
            column, learned = column.fillna(fill), learned.fillna(fill)
        if is_category:
            known = sorted(learned.dropna().unique())
            dummies = pandas.get_dummies(pandas.Categorical(column, categories=known), dtype=float).to_numpy()
            if rule == "category" and learned.isna().any():
                dummies = np.column_stack([dummies, column.isna().to_numpy(float)])
            parts.append(dummies)
        else:
            mean, std = learned.mean(), learned.std(ddof=0)
            parts.append((((column - mean) / std) if standardises else column).to_numpy(np.float64)[:, None])
    return np.concatenate(parts, axis=1)


def standardised_pixels(images, mean=(0,), std=(1,)):
    return (images.astype(np.float64) / 255 - np.asarray(mean, np.float64)) / np.asarray(std, np.float64)
