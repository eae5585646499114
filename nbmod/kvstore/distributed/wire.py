"""Messages of plain data and arrays as bytes: JSON, and the arrays' elements.

    length of the JSON in 4 bytes | {"...", "arrays": [[type, shape], ...]} | elements of each array

Nothing is pickled, and what is read is checked against the length of the message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import TypeAlias

import numpy as np

from ...base import Array, MXNetError

__all__ = ["Message", "decode", "encode"]

Message: TypeAlias = "dict[str, object]"
"""Plain data by name."""

_TYPE = re.compile(r"[<|][biuf]\d{1,2}")


def encode(message: Mapping[str, object], arrays: Sequence[Array] = ()) -> bytes:
    """Return a message, plain data of JSON, and arrays as bytes.

    Examples
    --------
    >>> message, (array,) = decode(encode({"key": "w"}, [np.arange(3, dtype=np.int64)]))
    >>> message, array.tolist()
    ({'key': 'w'}, [0, 1, 2])
    """
    little = [np.ascontiguousarray(array, array.dtype.newbyteorder("<")) for array in arrays]
    head = json.dumps({**message, "arrays": [[array.dtype.str, array.shape] for array in little]})
    text = head.encode()
    return b"".join([len(text).to_bytes(4, "little"), text,
                     *(array.reshape(-1).view(np.uint8).data for array in little)])


def decode(content: bytes) -> tuple[Message, list[Array]]:
    """Return the message and the arrays in the bytes that `encode` returned.

    Arrays are read-only, in the memory of `content`.  MXNetError if these are no such bytes.
    """
    try:
        start = 4 + int.from_bytes(content[:4], "little")
        message = json.loads(content[4:start])
        arrays = []
        for kind, shape in message.pop("arrays"):
            if not _TYPE.fullmatch(kind) or any(size < 0 for size in shape):
                raise ValueError(f"an array of type {kind!r} and shape {shape}")
            count = prod(shape)
            array: Array = np.frombuffer(content, np.dtype(kind), count, start)
            arrays.append(array.reshape(shape))
            start += array.nbytes
        if start != len(content):
            raise ValueError(f"{len(content)} bytes, expected {start}")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise MXNetError(f"kvstore: a damaged message: {error}") from None
    return message, arrays
