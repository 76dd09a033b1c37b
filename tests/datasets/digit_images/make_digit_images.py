#!/usr/bin/env python3
"""Writes the images of this folder from datasets/digits.csv.gz, and what PIL decodes one of each format to.

Needs PIL and NumPy (.venv/bin/python, see scripts/python_env.sh). Each digit is enlarged to 24×24 by bicubic
interpolation and coloured by a gradient; the formats take turns, so that every class has all of them.
"""
import csv
import gzip
import pathlib
import shutil
import struct
import zlib

import numpy as np
from PIL import Image, ImageOps

FOLDER = pathlib.Path(__file__).resolve().parent
DIGITS = FOLDER.parents[2] / "datasets" / "digits.csv.gz"
SIDE, A_CLASS = 24, 30
EXIF_TURNED = 6  # shown turned by 90 degrees clockwise


def colours_of(grey):
    """Ink in colours that change from left to right, on black: from 0 to 255."""
    across = np.linspace(0, 1, SIDE)[None, :, None]
    colours = np.array([255, 180, 90]) * (1 - across) + np.array([90, 200, 255]) * across
    return np.asarray(grey)[:, :, None] / 255 * colours


def coloured(grey):
    return Image.fromarray(colours_of(grey).round().astype(np.uint8))


def cmyk(grey):
    """With all the black ink that the colours let be taken."""
    light = colours_of(grey) / 255
    most = light.max(axis=2, keepdims=True)
    inks = np.concatenate([1 - light / np.where(most == 0, 1, most), 1 - most], axis=2)
    return Image.fromarray((inks * 255).round().astype(np.uint8), mode="CMYK")


def png_of_16_bits(grey):
    """PIL writes none in colours: the chunks of the PNG specification, rows without a filter."""
    samples = (colours_of(grey) * 257).round().astype(">u2")

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + row.tobytes() for row in samples)
    header = struct.pack(">IIBBBBB", SIDE, SIDE, 16, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")


def save(grey, path, form):
    colour = coloured(grey)
    if form == "jpg":
        colour.save(path, quality=90)
    elif form == "progressive.jpg":
        colour.save(path, quality=85, progressive=True, subsampling=0)
    elif form == "grey.jpg":
        grey.save(path, quality=90)
    elif form == "turned.jpg":
        exif = Image.Exif()
        exif[0x0112] = EXIF_TURNED
        colour.transpose(Image.ROTATE_90).save(path, quality=90, exif=exif)
    elif form == "png":
        colour.save(path)
    elif form == "grey.png":
        grey.save(path)
    elif form == "palette.png":
        colour.quantize(16).save(path)
    elif form == "alpha.png":
        colour.putalpha(grey.point(lambda value: 255 if value > 20 else 0))
        colour.save(path)
    elif form == "webp":
        colour.save(path, lossless=True)
    elif form == "bmp":
        colour.save(path)
    elif form == "lossy.webp":
        colour.save(path, quality=80)
    elif form == "16bit.png":
        path.write_bytes(png_of_16_bits(grey))
    elif form == "cmyk.jpg":
        cmyk(grey).save(path, quality=90)


FORMATS = ("jpg", "progressive.jpg", "grey.jpg", "turned.jpg", "png", "grey.png", "palette.png", "alpha.png", "webp", "bmp",
           "lossy.webp", "16bit.png", "cmyk.jpg")


def main():
    rows = list(csv.reader(gzip.open(DIGITS, "rt")))
    counts = [0] * 10
    for label in range(10):
        shutil.rmtree(FOLDER / "images" / str(label), ignore_errors=True)
        (FOLDER / "images" / str(label)).mkdir(parents=True)
    for *pixels, label in rows:
        label = int(label)
        if counts[label] == A_CLASS:
            continue
        grey = np.array(pixels, dtype=float).reshape(8, 8) * 255 / 16
        grey = Image.fromarray(grey.round().astype(np.uint8)).resize((SIDE, SIDE), Image.BICUBIC)
        form = FORMATS[counts[label] % len(FORMATS)]
        path = FOLDER / "images" / str(label) / f"{counts[label]:02}.{form}"
        counts[label] += 1
        save(grey, path, form)
    zeros = sorted((FOLDER / "images" / "0").iterdir())[:len(FORMATS)]
    decoded = [np.asarray(ImageOps.exif_transpose(Image.open(path)).convert("RGB")) for path in zeros]
    np.save(FOLDER / "decoded_by_pil.npy", np.stack(decoded))


if __name__ == "__main__":
    main()
