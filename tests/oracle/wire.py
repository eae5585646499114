"""Messages between the tests and the MXNet worker: one JSON header, then raw arrays.

A frame is `u32 header length | header | array 0 | array 1 | ...`, little-endian, each array as
`u64 byte count | .npy bytes`. The header is `{"message": tree, "arrays": n}`; in the tree an array
is written as `{"~array": i}`, bytes as `{"~bytes": i}`, a tuple as `{"~tuple": [...]}`, so
everything else is restored as it was sent. Nothing is pickled: a frame can only build data.

Both sides import this file, so it must work with Python 3.10 and numpy 1.23.
"""

from __future__ import annotations

import io
import json
import struct
from typing import Any, BinaryIO

import numpy as np


def send(stream: BinaryIO, message: Any) -> None:
    """Write one frame; `message` is any nesting of JSON values, tuples, bytes and arrays."""
    arrays: list[np.ndarray] = []
    header = json.dumps({"message": _pack(message, arrays), "arrays": len(arrays)}).encode()
    stream.write(struct.pack("<I", len(header)) + header)
    for array in arrays:
        blob = io.BytesIO()
        np.lib.format.write_array(blob, array, allow_pickle=False)
        stream.write(struct.pack("<Q", blob.tell()) + blob.getvalue())
    stream.flush()


def receive(stream: BinaryIO) -> Any:
    """Read one frame and return its message; EOFError when the other side has closed."""
    (length,) = struct.unpack("<I", _read(stream, 4))
    header = json.loads(_read(stream, length).decode())
    arrays = []
    for _ in range(header["arrays"]):
        (size,) = struct.unpack("<Q", _read(stream, 8))
        blob = io.BytesIO(_read(stream, size))
        arrays.append(np.lib.format.read_array(blob, allow_pickle=False))
    return _unpack(header["message"], arrays)


def _read(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size)
    if data is None or len(data) < size:
        raise EOFError("the other side of the pipe is gone")
    return data


def _pack(value: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"~array": len(arrays) - 1}
    if isinstance(value, (bytes, bytearray)):
        arrays.append(np.frombuffer(bytes(value), np.uint8))
        return {"~bytes": len(arrays) - 1}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple):
        return {"~tuple": [_pack(item, arrays) for item in value]}
    if isinstance(value, list):
        return [_pack(item, arrays) for item in value]
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise TypeError(f"only string keys can be sent, not {list(value)}")
        return {key: _pack(item, arrays) for key, item in value.items()}
    return value


def _unpack(tree: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(tree, list):
        return [_unpack(item, arrays) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if set(tree) == {"~array"}:
        return arrays[tree["~array"]]
    if set(tree) == {"~bytes"}:
        return arrays[tree["~bytes"]].tobytes()
    if set(tree) == {"~tuple"}:
        return tuple(_unpack(item, arrays) for item in tree["~tuple"])
    return {key: _unpack(item, arrays) for key, item in tree.items()}
