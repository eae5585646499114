"""Record files made and read by either package; `mx` is nbmod in the tests, MXNet in the oracle.

Files travel as bytes: a program writes or reads them in a folder of its own.
"""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path
from typing import Any

import numpy as np


def write(mx: Any, records: list[bytes], keys: list[Any] | None = None) -> tuple[bytes, bytes]:
    """The record file and, with keys, its index."""
    with tempfile.TemporaryDirectory() as folder:
        rec, idx = str(Path(folder) / "a.rec"), Path(folder) / "a.idx"
        if keys is None:
            writer = mx.recordio.MXRecordIO(rec, "w")
            for record in records:
                writer.write(record)
            writer.close()
            return Path(rec).read_bytes(), b""
        writer = mx.recordio.MXIndexedRecordIO(str(idx), rec, "w", type(keys[0]))
        places = [writer.tell()]
        for key, record in zip(keys, records, strict=True):
            writer.write_idx(key, record)
            places.append(writer.tell())
        assert writer.keys == keys and list(writer.idx.values()) == places[:-1]
        writer.close()
        return Path(rec).read_bytes(), idx.read_bytes()


def read(mx: Any, rec: bytes, idx: bytes = b"", keys: list[Any] | None = None,
         key_type: str = "int") -> list[Any]:
    """Every record in turn; with keys those by key, then in turn after a `seek` to the first."""
    with tempfile.TemporaryDirectory() as folder:
        path, index = Path(folder) / "a.rec", Path(folder) / "a.idx"
        path.write_bytes(rec)
        index.write_bytes(idx)
        if keys is None:
            reader = mx.recordio.MXRecordIO(str(path), "r")
            first = reader.read()
            reader.reset()
            again = pickle.loads(pickle.dumps(reader))
            found = [first, *iter(again.read, None)]
        else:
            kind = {"int": int, "str": str}[key_type]
            reader = mx.recordio.MXIndexedRecordIO(str(index), str(path), "r", kind)
            found = [list(reader.keys), *(reader.read_idx(key) for key in keys)]
            reader.seek(keys[0])
            found += [reader.read(), pickle.loads(pickle.dumps(reader)).read_idx(keys[-1])]
        reader.close()
        return found


def by_key(mx: Any, rec: str, idx: str, keys: list[int]) -> list[bytes]:
    """Records of a file at a given path, and the record after the last of them."""
    reader = mx.recordio.MXIndexedRecordIO(idx, rec, "r")
    return [*(reader.read_idx(key) for key in keys), reader.read()]


def packed(mx: Any, headers: list[tuple]) -> list[Any]:
    """Bytes of each header with data, and the results of unpacking."""
    answers: list[Any] = []
    for flag, label, number, second in headers:
        record = mx.recordio.pack(mx.recordio.IRHeader(flag, label, number, second), b"data")
        header, data = mx.recordio.unpack(record)
        answers.append([record, *map(np.asarray, header), data])
    return answers


def decoded(mx: Any, records: list[bytes]) -> list[Any]:
    """`unpack_img` of each record: in color, gray and as it is."""
    return [[mx.recordio.unpack_img(record, iscolor)[1] for iscolor in (1, 0, -1)]
            for record in records]


def pack_images(mx: Any, images: list[np.ndarray], format: str, quality: int) -> list[bytes]:
    """`pack_img` of each image."""
    return [mx.recordio.pack_img((0, float(number), number, 0), image, quality, format)
            for number, image in enumerate(images)]
