"""`.params` files: MXNet's list of named arrays, read in all versions, written in V2.

A file is a 24-byte head (magic, reserved, count), that many array records, then either no names
or one per record.  All integers are little-endian, without padding.  A record begins with a magic
number that identifies its version; the oldest (V0, before 0.10) begins with the number of
dimensions instead.  Files are written in V2, which MXNet has read since 0.12, byte for byte as
MXNet would.

Invariant: a size from the file is compared with the remaining bytes before anything of that size is
allocated or skipped, so a damaged header costs neither memory nor time.

Arrays here are plain NumPy: the NDArray layer wraps them.  What a record can hold, and as what:
* a dense array: `numpy.ndarray`; bfloat16 is widened to float32, which is exact;
* nothing (MXNet's array without storage): `None`;
* row_sparse or csr: a `RowSparse` or a `CSR`.
GPU contexts are accepted and dropped.
"""

from __future__ import annotations

import io
import os
import struct
import sys
from collections import Counter
from collections.abc import Sequence
from math import prod
from typing import BinaryIO, NoReturn, Protocol

import numpy as np

from ..base import DTYPE_FLAGS, FLAG_OF_DTYPE, STORAGE_FLAGS, MXNetError
from ..ops.device import CPU
from ..ops.sparse.formats import CSR, RowSparse, Sparse, parts_of
from .atomic import atomic_write
from .foreign import HEAD_SIZE, foreign_format
from .interrupts import from_handler

__all__ = ["read_arrays", "write_arrays", "record_bytes", "record_size", "write_record",
           "array_from_record", "MAX_ARRAYS"]

MAX_ARRAYS = 100_000
"""Most arrays one file may hold.  A few bytes of file can make an empty array of a few hundred
bytes of memory, so the count is bounded by itself; raise it for a file that really is that long."""

_LIST_MAGIC = 0x112
_V1, _V2, _V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
_MAX_NDIM = 32
_CPU = (1, 0)
_DEVICE_TYPES = (1, 2, 3, 5)
_BFLOAT16 = 12
_SPARSE_TYPES = {flag: stype for stype, flag in STORAGE_FLAGS.items() if stype != "default"}
_CHUNK = 1 << 20


Path = str | os.PathLike[str]
Stored = np.ndarray | Sparse | None
Shape = tuple[int, ...]


# ---------------------------------------------------------------------------------------- reading

def read_arrays(source: Path | bytes | bytearray | memoryview) -> tuple[list[Stored], list[str]]:
    """The arrays of a `.params` file and their names (empty if the file has none), in file order.

    `source` is a path, or the content itself as bytes, bytearray or memoryview.
    Raises MXNetError naming the file, the byte offset, what was expected and what was found.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        content = memoryview(source).cast("B")
        return _read_list(_StreamReader(_ViewedBytes(content), len(content), "<buffer>"))
    path = os.fspath(source)
    try:
        with open(path, "rb") as stream:
            return _read_list(_StreamReader(stream, os.fstat(stream.fileno()).st_size, path))
    except OSError as error:
        if from_handler(error):
            raise
        raise MXNetError(f"{path}: cannot be read: {error.strerror or error}") from error


def array_from_record(content: bytes | bytearray | memoryview) -> Stored:
    """The array in one bare record, as pickles hold it.  Inverse of `record_bytes`."""
    reader = _StreamReader(_ViewedBytes(content), len(content), "<array record>")
    array = _read_record(reader)
    reader.expect_end()
    return array


class _Stream(Protocol):
    """A stream of bytes."""

    def read(self, size: int, /) -> bytes: ...

    def readinto(self, buffer: memoryview, /) -> int: ...

    def seek(self, offset: int, /) -> int: ...


class _ViewedBytes:
    """A stream of bytes in memory, which are not copied first."""

    def __init__(self, content: bytes | bytearray | memoryview):
        self._content, self._at = memoryview(content), 0

    def read(self, size: int, /) -> bytes:
        return bytes(self._next(size))

    def readinto(self, buffer: memoryview, /) -> int:
        content = self._next(len(buffer))
        buffer[:len(content)] = content
        return len(content)

    def seek(self, offset: int, /) -> int:
        self._at = offset
        return offset

    def _next(self, size: int) -> memoryview:
        content = self._content[self._at:self._at + size]
        self._at += len(content)
        return content


class _StreamReader:
    """A stream of known size that never allocates more than its remaining bytes."""

    def __init__(self, stream: _Stream, size: int, label: str):
        self.stream, self.size, self.label, self.offset = stream, size, label, 0

    def fail(self, expected: str, actual: str, at: int | None = None) -> NoReturn:
        offset = self.offset if at is None else at
        raise MXNetError(f"{self.label}: damaged at byte {offset}: expected {expected}, "
                         f"found {actual}")

    def need(self, count: int, what: str) -> None:
        left = self.size - self.offset
        if count > left:
            self.fail(f"{count} bytes of {what}", f"{left} bytes to the end of the file")

    def read(self, count: int, what: str) -> bytes:
        self.need(count, what)
        content = self.stream.read(count)
        if len(content) != count:
            self.fail(f"{count} bytes of {what}", f"{len(content)} (the file shrank)")
        self.offset += count
        return content

    def unpack(self, code: str, what: str) -> tuple[int, ...]:
        return struct.unpack("<" + code, self.read(struct.calcsize("<" + code), what))

    def unpack_one(self, code: str, what: str) -> int:
        return self.unpack(code, what)[0]

    def fill(self, array: np.ndarray) -> None:
        """Read `array.nbytes` bytes, already known to be there, into a contiguous array."""
        if array.nbytes == 0:
            return
        got = self.stream.readinto(array.reshape(-1).view(np.uint8).data)
        if got != array.nbytes:
            self.fail(f"{array.nbytes} bytes of array data", f"{got} (the file shrank)")
        self.offset += array.nbytes

    def expect_end(self) -> None:
        if self.offset != self.size:
            self.fail("the end of the file", f"{self.size - self.offset} more bytes")


def _read_list(reader: _StreamReader) -> tuple[list[Stored], list[str]]:
    _require_format(reader)
    _magic, _reserved, count = reader.unpack("QQQ", "file head (magic, reserved, count)")
    _check_count(reader, count, 4, "arrays", at=16)
    arrays = [_read_record(reader) for _ in range(count)]
    at = reader.offset
    named = reader.unpack_one("Q", "number of names")
    if named not in (0, count):
        reader.fail(f"0 or {count} names", str(named), at=at)
    _check_count(reader, named, 8, "names", at=at)
    names = [_read_name(reader) for _ in range(named)]
    reader.expect_end()
    for name, occurrences in Counter(names).items():
        if occurrences > 1:
            reader.fail("names that differ", f"{name[:80]!r} twice", at=at)
    return arrays, names


def _require_format(reader: _StreamReader) -> None:
    """Name another format, however short the file is."""
    head = reader.stream.read(HEAD_SIZE)
    reader.stream.seek(0)
    magic = head[:8]
    if not struct.pack("<Q", _LIST_MAGIC).startswith(magic):
        reader.fail(f"magic {_LIST_MAGIC:#x} of a .params file",
                    f"{int.from_bytes(magic, 'little'):#x}{foreign_format(head)}", at=0)


def _check_count(reader: _StreamReader, count: int, least: int, what: str, at: int) -> None:
    left = reader.size - reader.offset
    if count * least > left:
        reader.fail(f"at most {left // least} {what} in the {left} bytes left", str(count), at=at)
    if count > MAX_ARRAYS:
        limit = f"at most {MAX_ARRAYS} {what} (nbmod.core.serialization.MAX_ARRAYS)"
        reader.fail(limit, str(count), at=at)


def _read_name(reader: _StreamReader) -> str:
    at = reader.offset
    content = reader.read(reader.unpack_one("Q", "length of a name"), "a name")
    try:
        name = content.decode("utf-8")
    except UnicodeDecodeError:
        reader.fail("a name in utf-8", repr(content[:40]), at=at)
    if "\0" in name:
        reader.fail("a name without NUL", repr(name[:40]), at=at)
    return name


def _read_record(reader: _StreamReader) -> Stored:
    at = reader.offset
    magic = reader.unpack_one("I", "an array record")
    if magic in (_V2, _V3):
        stype = reader.unpack_one("i", "storage type")
        if stype in _SPARSE_TYPES and magic == _V2:
            return _read_sparse(reader, _SPARSE_TYPES[stype])
        if stype != 0:
            reader.fail("storage type 0 (dense), 1 (row_sparse) or 2 (csr)", str(stype), at=at + 4)
        return _read_dense(reader, _read_shape(reader), none_ndim=0 if magic == _V2 else -1)
    if magic == _V1:
        return _read_dense(reader, _read_shape(reader), none_ndim=0)
    return _read_dense(reader, _read_dims(reader, magic, "I", at), none_ndim=0)


def _read_shape(reader: _StreamReader) -> tuple[int, ...] | None:
    at = reader.offset
    return _read_dims(reader, reader.unpack_one("i", "number of dimensions"), "q", at)


def _read_dims(reader: _StreamReader, ndim: int, code: str, at: int) -> tuple[int, ...] | None:
    """`ndim` dimensions; None is the unknown shape (-1 dimensions)."""
    if ndim == -1:
        return None
    if not 0 <= ndim <= _MAX_NDIM:
        reader.fail(f"an array record (a known magic or 0 to {_MAX_NDIM} dimensions)",
                    f"{ndim & 0xFFFFFFFF:#x}", at=at)
    at = reader.offset
    shape = reader.unpack(f"{ndim}{code}", "dimensions") if ndim else ()
    if min(shape, default=0) < 0 or prod(max(dim, 1) for dim in shape) > 1 << 59:
        reader.fail("dimensions of an array", str(shape), at=at)
    return shape


def _read_dense(reader: _StreamReader, shape: tuple[int, ...] | None, none_ndim: int) -> Stored:
    ndim = -1 if shape is None else len(shape)
    if ndim == none_ndim:
        return None
    if shape is None:
        reader.fail("0 or more dimensions", "-1", at=reader.offset - 4)
    _read_context(reader)
    return _read_data(reader, shape, _read_dtype(reader))


def _read_context(reader: _StreamReader) -> None:
    at = reader.offset
    device_type, _device_id = reader.unpack("ii", "context")
    if device_type not in _DEVICE_TYPES:
        reader.fail(f"a device type among {_DEVICE_TYPES}", str(device_type), at=at)


def _read_dtype(reader: _StreamReader) -> int:
    at = reader.offset
    flag = reader.unpack_one("i", "dtype")
    if flag not in DTYPE_FLAGS and flag != _BFLOAT16:
        reader.fail(f"a dtype flag among {[*DTYPE_FLAGS, _BFLOAT16]}", str(flag), at=at)
    return flag


def _read_data(reader: _StreamReader, shape: tuple[int, ...], flag: int) -> np.ndarray:
    size = prod(shape)
    if flag == _BFLOAT16:
        reader.need(2 * size, f"bfloat16 data of shape {shape}")
        return _read_bfloat16(reader, size).reshape(shape)
    dtype = DTYPE_FLAGS[flag]
    reader.need(dtype.itemsize * size, f"{dtype} data of shape {shape}")
    at = reader.offset
    array = CPU.empty(shape, dtype)
    reader.fill(array)
    if sys.byteorder == "big":
        array.byteswap(inplace=True)
    if dtype == np.bool_ and size and array.view(np.uint8).max() > 1:
        reader.fail("booleans (bytes 0 and 1)", "other bytes", at=at)
    return array


def _read_bfloat16(reader: _StreamReader, size: int) -> np.ndarray:
    """A bfloat16 is the upper half of a float32; read in chunks to avoid a second copy."""
    wide = CPU.full((size,), np.uint32, 0)
    for begin in range(0, size, _CHUNK):
        half = np.empty(min(_CHUNK, size - begin), np.dtype("<u2"))
        reader.fill(half)
        wide[begin:begin + half.size] = half
    wide <<= np.uint32(16)
    return wide.view(np.float32)


def _read_sparse(reader: _StreamReader, stype: str) -> Stored:
    at = reader.offset
    stored, shape = _read_shape(reader), _read_shape(reader)
    if not shape:
        return None
    if stored is None:
        reader.fail("the shape of the stored values", "-1 dimensions", at=at)
    _read_context(reader)
    flag = _read_dtype(reader)
    kinds = [_read_aux_head(reader) for _ in range(1 if stype == "row_sparse" else 2)]
    _check_sparse_shapes(reader, stype, (stored, shape), [aux_shape for _, aux_shape in kinds], at)
    data = _read_data(reader, stored, flag)
    aux_at = reader.offset
    aux = tuple(_read_data(reader, aux_shape, aux_flag) for aux_flag, aux_shape in kinds)
    if not _indices_fit(stype, shape, aux):
        reader.fail(f"ascending indices inside shape {shape}", "others", at=aux_at)
    if stype == "csr":
        indptr = aux[0] if aux[0].size else np.zeros(shape[0] + 1, np.int64)
        return CSR(indptr.astype(np.int64, copy=False), aux[1].astype(np.int64, copy=False), data,
                   shape)
    return RowSparse(aux[0].astype(np.int64, copy=False), data, shape)


def _read_aux_head(reader: _StreamReader) -> tuple[int, tuple[int, ...]]:
    at = reader.offset
    flag = _read_dtype(reader)
    shape = _read_shape(reader)
    if flag not in (4, 6) or shape is None or len(shape) != 1:
        reader.fail("a vector of int32 or int64 indices", f"dtype {flag}, shape {shape}", at=at)
    return flag, shape


def _check_sparse_shapes(reader: _StreamReader, stype: str, shapes: tuple[Shape, Shape],
                         aux: list[Shape], at: int) -> None:
    stored, shape = shapes
    if stype == "row_sparse":
        fits = len(stored) == len(shape) and stored[1:] == shape[1:] and aux == [stored[:1]]
    else:
        indptr, columns = aux
        fits = (len(shape) == 2 and len(stored) == 1 and columns == stored
                and indptr in ((shape[0] + 1,), (0,)))
    if not fits:
        reader.fail(f"{stype} parts of shape {shape}", f"values {stored}, indices {aux}", at=at)


def _indices_fit(stype: str, shape: tuple[int, ...], aux: tuple[np.ndarray, ...]) -> bool:
    def inside(index: np.ndarray, bound: int) -> bool:
        return not index.size or (index.min() >= 0 and index.max() < bound)

    if stype == "row_sparse":
        rows, = aux
        return bool(inside(rows, shape[0]) and (rows[1:] > rows[:-1]).all())
    indptr, columns = aux
    ends = (indptr[0], indptr[-1]) if indptr.size else (0, 0)
    ordered = ends == (0, columns.size) and (indptr[1:] >= indptr[:-1]).all()
    return bool(ordered and inside(columns, shape[1]))


# ---------------------------------------------------------------------------------------- writing

def write_arrays(path: Path, arrays: Sequence[Stored], names: Sequence[str] = ()) -> None:
    """Write a `.params` file atomically: the old file stays until the new one is complete on disk.

    `names` is empty or has one distinct name per array.  Raises MXNetError for arrays the format
    cannot hold (see `record_bytes`) and for a path that cannot be written.
    """
    if names and len(names) != len(arrays):
        raise MXNetError(f"{path}: {len(names)} names for {len(arrays)} arrays")
    if len(set(names)) != len(names):
        raise MXNetError(f"{path}: the names of the arrays must differ, given {list(names)}")
    encoded = [_encoded_name(name) for name in names]
    heads = [_record_head(array) for array in arrays]
    with atomic_write(path) as stream:
        stream.write(struct.pack("<QQQ", _LIST_MAGIC, 0, len(arrays)))
        for head, array in zip(heads, arrays, strict=True):
            stream.write(head)
            _write_data(stream, array)
        stream.write(struct.pack("<Q", len(encoded)))
        for name in encoded:
            stream.write(struct.pack("<Q", len(name)) + name)


def record_bytes(array: Stored) -> bytes:
    """One array as a bare V2 record, as MXNet's pickles hold it.

    Raises MXNetError for a dtype without an MXNet flag and for a 0-d array, which V2 cannot tell
    from None.  int16 and uint16 have flags, but MXNet 1.9.1 does not load files that hold them.
    """
    stream = io.BytesIO()
    write_record(stream, array)
    return stream.getvalue()


def write_record(stream: BinaryIO, array: Stored) -> None:
    """Write what `record_bytes` returns, without a copy of the elements."""
    stream.write(_record_head(array))
    _write_data(stream, array)


def record_size(array: Stored) -> int:
    """Bytes of a record."""
    parts = () if array is None else parts_of(array)
    return len(_record_head(array)) + sum(part.nbytes for part in parts)


def _encoded_name(name: str) -> bytes:
    if not isinstance(name, str) or "\0" in name:
        raise MXNetError(f"array name {name!r}: expected a str without NUL")
    try:
        return name.encode("utf-8")
    except UnicodeEncodeError as error:
        raise MXNetError(f"array name {name!r} cannot be written as utf-8") from error


def _record_head(array: Stored) -> bytes:
    if array is None:
        return struct.pack("<Iii", _V2, 0, 0)
    if isinstance(array, (CSR, RowSparse)):
        head = struct.pack("<Ii", _V2, STORAGE_FLAGS[array.stype]) + _shape_bytes(array.data.shape)
        head += _shape_bytes(array.shape) + struct.pack("<iii", *_CPU, _flag_of(array.data))
        return head + b"".join(struct.pack("<i", _flag_of(aux)) + _shape_bytes(aux.shape)
                               for aux in array.aux)
    if array.ndim == 0:
        raise MXNetError("a 0-d array cannot be written to a .params file; reshape it to (1,)")
    return (struct.pack("<Ii", _V2, 0) + _shape_bytes(array.shape)
            + struct.pack("<iii", *_CPU, _flag_of(array)))


def _shape_bytes(shape: tuple[int, ...]) -> bytes:
    return struct.pack(f"<i{len(shape)}q", len(shape), *shape)


def _flag_of(array: np.ndarray) -> int:
    flag = FLAG_OF_DTYPE.get(array.dtype.newbyteorder("="))
    if flag is None:
        known = ", ".join(str(dtype) for dtype in FLAG_OF_DTYPE)
        raise MXNetError(f"dtype {array.dtype} cannot be written to a .params file; "
                         f"convert the array to one of {known}")
    return flag


def _write_data(stream: BinaryIO, array: Stored) -> None:
    for part in () if array is None else parts_of(array):
        if part.size:
            little = np.ascontiguousarray(part, part.dtype.newbyteorder("<"))
            stream.write(little.reshape(-1).view(np.uint8).data)
