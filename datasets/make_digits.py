#!/usr/bin/env python3
"""Writes datasets/digits.csv.gz from the copy of the digits that scikit-learn carries.

Needs Debian's python3-sklearn (/usr/bin/python3 datasets/make_digits.py). One line an image: 64 values from 0 to 16,
row by row, then the digit. The output is the same, byte for byte, each time.
"""
import gzip
import io
import pathlib

from sklearn.datasets import load_digits

digits = load_digits()
lines = io.StringIO()
for pixels, label in zip(digits.data, digits.target):
    lines.write(",".join(str(int(value)) for value in (*pixels, label)) + "\n")
path = pathlib.Path(__file__).with_name("digits.csv.gz")
path.write_bytes(gzip.compress(lines.getvalue().encode("ascii"), compresslevel=9, mtime=0))
print(f"{path}: {len(digits.target)} images")
