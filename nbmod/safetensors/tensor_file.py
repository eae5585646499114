"""The format of `.safetensors` files: named NumPy arrays, and text about them.

A file is the length of a header (8 bytes, little-endian), the header, and the elements of all
arrays.  The header is JSON:

    {"__metadata__": {"text": "text"},
     "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}

Offsets count from the end of the header; together the arrays cover every byte to the end of the
file, and no byte twice.  So a name has one meaning, and nothing is hidden between arrays.

Invariant: a size from the file is compared with the size of the file before anything is allocated,
so a hostile header costs no more memory than a small multiple of the file.

Files are written as the package `safetensors` writes them: elements of the widest types first, so
that each array is aligned to its type.  The header lists the arrays in their own order, which is
the order in which they are read.
"""

from __future__ import annotations

import io
import json
import os
import struct
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any, BinaryIO, NamedTuple, NoReturn

import numpy as np

from ..base import Array, DType, MXNetError
from ..core.atomic import atomic_write
from ..core.foreign import HEAD_SIZE, foreign_format, refuse_suffix
from ..core.interrupts import from_handler

__all__ = ["MAX_HEADER", "SafetensorsError", "read_metadata", "read_tensors", "write_tensors"]

MAX_HEADER = 100_000_000
"""Most bytes of a header, as in the package `safetensors`."""

METADATA = "__metadata__"
_MAX_NDIM = 32
_FIELDS = {"dtype", "shape", "data_offsets"}
_BFLOAT16 = "BF16"
DTYPES: dict[str, DType] = {
    "F64": np.dtype("float64"), "F32": np.dtype("float32"), "F16": np.dtype("float16"),
    "I64": np.dtype("int64"), "I32": np.dtype("int32"), "I16": np.dtype("int16"),
    "I8": np.dtype("int8"), "U64": np.dtype("uint64"), "U32": np.dtype("uint32"),
    "U16": np.dtype("uint16"), "U8": np.dtype("uint8"), "BOOL": np.dtype("bool"),
    _BFLOAT16: np.dtype("uint16")}
"""Types by the names of the format; those of a bfloat16 are its bits."""
_NAMES = {dtype: name for name, dtype in DTYPES.items() if name != _BFLOAT16}

Path = str | os.PathLike[str]
Header = tuple[dict[str, "_Stored"], dict[str, str]]


class SafetensorsError(MXNetError, ValueError):
    """A `.safetensors` file that is damaged or hostile, or cannot hold what is to be written."""


class _Stored(NamedTuple):
    """Where an array is in a file."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


# ---------------------------------------------------------------------------------------- reading


def read_tensors(source: Path | bytes) -> tuple[dict[str, Array], dict[str, str]]:
    """Read the arrays of a `.safetensors` file, and its metadata.

    Parameters
    ----------
    source : str, path or bytes
        Name of the file, or its content.

    Returns
    -------
    arrays : dict of str to numpy.ndarray
        Arrays by name, in the order of the header.  Elements of bfloat16 are widened to float32,
        which is exact.
    metadata : dict of str to str
        Texts by name.

    Raises
    ------
    SafetensorsError
        If the file is damaged in any way; names the file and the array.
    MXNetError
        If it cannot be read.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from nbmod.safetensors import read_tensors, write_tensors
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "a.safetensors")
    ...     write_tensors(path, {"x": np.arange(3, dtype="uint8")}, {"made by": "hand"})
    ...     read_tensors(path)
    ({'x': array([0, 1, 2], dtype=uint8)}, {'made by': 'hand'})
    """
    if isinstance(source, bytes):
        return _read(io.BytesIO(source), len(source), "<buffer>")
    with _opened(source) as stream:
        return _read(stream, os.fstat(stream.fileno()).st_size, os.fspath(source))


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """The file for reading; an OSError becomes an MXNetError that names it."""
    try:
        with open(path, "rb") as stream:
            yield stream
    except OSError as error:
        if from_handler(error):
            raise
        raise MXNetError(f"{os.fspath(path)}: cannot be read: {error.strerror or error}"
                         ) from error


def read_metadata(path: Path) -> dict[str, str]:
    """Read the metadata of a `.safetensors` file, texts by name, and no arrays.

    Parameters
    ----------
    path : str or path
        Name of the file.

    Raises
    ------
    SafetensorsError
        If the header is damaged; names the file and the array.
    MXNetError
        If it cannot be read.
    """
    with _opened(path) as stream:
        return _read_header(stream, os.fstat(stream.fileno()).st_size, str(path))[1][1]


def _read(stream: BinaryIO, size: int, label: str) -> tuple[dict[str, Array], dict[str, str]]:
    start, (tensors, metadata) = _read_header(stream, size, label)
    entries = {}
    for name in sorted(tensors, key=lambda name: tensors[name].begin):
        stream.seek(start + tensors[name].begin)
        entries[name] = _read_array(stream, tensors[name], f"{label}: tensor {name!r}")
    return {name: entries[name] for name in tensors}, metadata


def _read_header(stream: BinaryIO, size: int, label: str) -> tuple[int, Header]:
    """Where the elements begin, and what the header says."""
    head = stream.read(8)
    length = int.from_bytes(head, "little")
    if len(head) < 8 or not 2 <= length <= min(size - 8, MAX_HEADER):
        stream.seek(0)
        raise SafetensorsError(
            f"{label}: damaged: expected the length of a header, from 2 to "
            f"{min(max(size - 8, 0), MAX_HEADER)} bytes, found {length}"
            f"{foreign_format(stream.read(HEAD_SIZE))}")
    return 8 + length, _parse_header(stream.read(length), size - 8 - length, label)


def _parse_header(content: bytes, nbytes: int, label: str) -> Header:
    """The arrays in `nbytes` bytes of elements, and the metadata."""
    try:
        header = json.loads(content.decode("utf-8"), object_pairs_hook=_unique,
                            parse_constant=_refuse_constant)
        if not content.startswith(b"{"):
            raise ValueError("it does not begin with '{'")
        json.dumps(list(header), ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        raise SafetensorsError(f"{label}: damaged header: {error}") from None
    metadata = header.pop(METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(text, str)
                                                 for text in metadata.values()):
        raise SafetensorsError(f"{label}: damaged header: {METADATA} has other values than texts")
    tensors = {name: _parse_entry(entry, f"{label}: tensor {name[:80]!r}")
               for name, entry in header.items()}
    _check_cover(tensors, nbytes, label)
    return tensors, metadata


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the name {twice[:80]!r} is there twice")
    return members


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _parse_entry(entry: object, label: str) -> _Stored:
    if not isinstance(entry, dict) or entry.keys() != _FIELDS:
        raise SafetensorsError(f"{label}: damaged header: expected dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise SafetensorsError(f"{label}: the type is {str(dtype)[:20]!r}, expected one of "
                               f"{', '.join(DTYPES)}")
    if not _are_sizes(shape) or len(shape) > _MAX_NDIM or (
            prod(max(dim, 1) for dim in shape) > 1 << 59):
        raise SafetensorsError(f"{label}: damaged header: {str(shape)[:80]} is no shape of an "
                               "array")
    if not _are_sizes(offsets) or len(offsets) != 2 or (
            offsets[1] - offsets[0] != prod(shape) * DTYPES[dtype].itemsize):
        raise SafetensorsError(
            f"{label}: damaged header: data_offsets are {str(offsets)[:80]}, expected a distance "
            f"of {prod(shape) * DTYPES[dtype].itemsize} bytes for shape {tuple(shape)} of {dtype}")
    return _Stored(dtype, tuple(shape), *offsets)


def _are_sizes(value: object) -> bool:
    return isinstance(value, list) and all(type(one) is int and one >= 0 for one in value)


def _check_cover(tensors: Mapping[str, _Stored], nbytes: int, label: str) -> None:
    """Arrays follow each other from the first byte to the last."""
    at = 0
    for name, stored in sorted(tensors.items(), key=lambda item: (item[1].begin, item[1].end)):
        if stored.begin != at:
            what = "overlap others" if stored.begin < at else "leave a gap before them"
            raise SafetensorsError(f"{label}: tensor {name[:80]!r}: damaged header: data_offsets "
                                   f"[{stored.begin}, {stored.end}] {what}, expected a begin at "
                                   f"{at}")
        at = stored.end
    if at != nbytes:
        raise SafetensorsError(f"{label}: damaged: the arrays have {at} bytes, and the file has "
                               f"{nbytes} after the header")


def _read_array(stream: BinaryIO, stored: _Stored, label: str) -> Array:
    array = np.empty(stored.shape, DTYPES[stored.dtype])
    if array.size:
        got = stream.readinto(array.reshape(-1).view(np.uint8).data)  # type: ignore[attr-defined]
        if got != array.nbytes:
            raise SafetensorsError(f"{label}: {array.nbytes} bytes expected, {got} found (the file "
                                   "shrank)")
    if sys.byteorder == "big":
        array.byteswap(inplace=True)
    if array.dtype == np.bool_ and array.size and array.view(np.uint8).max() > 1:
        raise SafetensorsError(f"{label}: damaged: expected booleans, bytes 0 and 1")
    if stored.dtype == _BFLOAT16:    # the upper half of a float32
        return (array.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return array


# ---------------------------------------------------------------------------------------- writing


def write_tensors(path: Path, arrays: Mapping[str, Array],
                  metadata: Mapping[str, str] | None = None) -> None:
    """Write a `.safetensors` file, as a whole or not at all.

    Parameters
    ----------
    path : str or path
        Name of the file.
    arrays : dict of str to numpy.ndarray
        Arrays by name.
    metadata : dict of str to str, optional
        Texts by name.

    Raises
    ------
    SafetensorsError
        If the format cannot hold a name, a text or the type of an array.
    MXNetError
        If the file cannot be written, or its name has the suffix of another format.
    """
    refuse_suffix(os.fspath(path), ".safetensors")
    values = {name: np.asarray(array) for name, array in arrays.items()}
    order = sorted(values, key=lambda name: -values[name].itemsize)
    header = _encode_header(os.fspath(path), values, order, dict(metadata or {}))
    with atomic_write(path) as stream:
        stream.write(struct.pack("<Q", len(header)) + header)
        for name in order:
            array = values[name]
            if array.size:
                little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
                stream.write(little.reshape(-1).view(np.uint8).data)


def _encode_header(label: str, arrays: Mapping[str, Array], order: Sequence[str],
                   metadata: dict[str, str]) -> bytes:
    at, begins = 0, {}
    for name in order:
        begins[name], at = at, at + arrays[name].nbytes
    header: dict[str, object] = {METADATA: metadata} if metadata else {}
    for name, array in arrays.items():
        dtype = _NAMES.get(array.dtype.newbyteorder("="))
        if dtype is None:
            raise SafetensorsError(f"{label}: tensor {name!r}: arrays of {array.dtype} cannot be "
                                   f"written; convert it to one of {', '.join(map(str, _NAMES))}")
        begin = begins[name]
        header[name] = {"dtype": dtype, "shape": list(array.shape),
                        "data_offsets": [begin, begin + array.nbytes]}
    texts = [*arrays, *metadata, *metadata.values()]
    if METADATA in arrays or not all(isinstance(text, str) for text in texts):
        raise SafetensorsError(f"{label}: names and metadata must be texts, and no name "
                               f"{METADATA!r}")
    try:
        content = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    except UnicodeEncodeError as error:
        raise SafetensorsError(f"{label}: a name cannot be written as utf-8: {error}") from None
    content += b" " * (-len(content) % 8)    # so that elements are aligned
    if len(content) > MAX_HEADER:
        raise SafetensorsError(f"{label}: a header of {len(content)} bytes, expected at most "
                               f"{MAX_HEADER}")
    return content
