"""Reads and writes safetensors files of NumPy arrays: u64 length, JSON header, bytes, in the order of the names. NumPy has
no bf16: it is read as the f32 of the same value."""
import json
import struct

import numpy as np

DTYPES = {"F32": np.dtype("<f4"), "F64": np.dtype("<f8"), "I32": np.dtype("<i4"), "I64": np.dtype("<i8"),
          "U8": np.dtype("u1"), "F16": np.dtype("<f2"), "I8": np.dtype("i1"), "I16": np.dtype("<i2"),
          "U16": np.dtype("<u2"), "U32": np.dtype("<u4"), "U64": np.dtype("<u8"), "BOOL": np.dtype("?")}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def write(path, arrays):
    header, chunks, offset = {}, [], 0
    for name in sorted(arrays):
        # ascontiguousarray turns a scalar into one element, so the shape is taken before it.
        array = np.asarray(arrays[name])
        data = np.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": NAMES[array.dtype], "shape": list(array.shape),
                        "data_offsets": [offset, offset + len(data)]}
        chunks.append(data)
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(chunks))


def read(path):
    with open(path, "rb") as file:
        content = file.read()
    (length,) = struct.unpack_from("<Q", content)
    body = content[8 + length:]
    return {name: array(body[entry["data_offsets"][0]:entry["data_offsets"][1]], entry["dtype"]).reshape(entry["shape"])
            for name, entry in json.loads(content[8:8 + length]).items() if name != "__metadata__"}


def array(content, dtype):
    if dtype == "BF16":
        return (np.frombuffer(content, "<u2").astype("<u4") << 16).view("<f4")
    return np.frombuffer(content, DTYPES[dtype]).copy()
