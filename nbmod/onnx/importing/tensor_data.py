"""Tensors of ONNX files as arrays, checked before memory is allocated.

The number of elements that the dimensions declare must be stored in the file, or in a file of
external data inside the model's folder.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...base import FLAG_OF_DTYPE
from ...core.interrupts import from_handler
from .errors import DamagedModel
from .imported_tensor import Array, DType

if TYPE_CHECKING:
    from onnx import TensorProto

__all__ = ["TensorReader", "element_type"]

MAX_RANK = 32
SHARED, REPEATS = 2 ** 28, 4
"""How many bytes external data may need, besides how often those that its files have."""


def element_type(number: int, where: str) -> DType:
    """The numpy type of a number of `TensorProto.DataType`, DamagedModel if there is none."""
    import onnx

    if number not in onnx.TensorProto.DataType.values() or not number:
        raise DamagedModel(f"{where}: element type {number} is none of ONNX's")
    dtype: DType = onnx.helper.tensor_dtype_to_np_dtype(number)
    return dtype


class TensorReader:
    """Reads tensors of a model in a folder; without one, external data is refused."""

    def __init__(self, folder: Path | None):
        self.folder = folder
        self._sizes: dict[Path, int] = {}
        self._read = 0

    def read(self, tensor: TensorProto, where: str) -> Array:
        """The array of a tensor.

        Raises DamagedModel if its data does not match its dimensions, or lies outside the model's
        folder.
        """
        import onnx

        shape = tuple(tensor.dims)
        if len(shape) > MAX_RANK or any(size < 0 for size in shape):
            raise DamagedModel(f"{where}: dimensions {shape[:MAX_RANK]} are not those of an array")
        dtype = element_type(tensor.data_type, where)
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            return self._external(tensor, shape, dtype, where)
        try:
            self._check_size(tensor, shape, where)
            array: Array = onnx.numpy_helper.to_array(tensor)
        except Exception as error:  # what numpy and onnx raise for wrong data is not documented
            if isinstance(error, DamagedModel) or from_handler(error):
                raise
            raise DamagedModel(f"{where}: its data cannot be read: {error}") from None
        return array

    def _check_size(self, tensor: TensorProto, shape: tuple[int, ...], where: str) -> None:
        import onnx

        kind, count = tensor.data_type, math.prod(shape)
        if tensor.HasField("raw_data"):
            size, expected = len(tensor.raw_data), _stored_bytes(kind, count)
        else:
            field = onnx.helper.tensor_dtype_to_field(kind)
            size = len(getattr(tensor, field))
            stored = {**_PACKED, **_COMPLEX}.get(onnx.TensorProto.DataType.Name(kind), 1)
            expected = math.ceil(count * stored)
        if size != expected:
            raise DamagedModel(f"{where}: dimensions {shape} need {expected} stored elements or "
                               f"bytes, but the file has {size}")

    def _external(self, tensor: TensorProto, shape: tuple[int, ...], dtype: DType, where: str
                  ) -> Array:
        """Data in another file, which must lie inside the folder of the model."""
        entries = {entry.key: entry.value for entry in tensor.external_data}
        path = self._inside(entries.get("location", ""), where)
        try:
            offset, size = int(entries.get("offset", 0)), path.stat().st_size
            length = int(entries.get("length", size - offset))
        except (ValueError, OSError) as error:
            raise DamagedModel(f"{where}: external data cannot be found: {error}") from None
        if dtype not in FLAG_OF_DTYPE and dtype.kind not in "iuf":
            raise DamagedModel(f"{where}: external data of type {dtype} is not supported")
        needed = math.prod(shape) * dtype.itemsize
        if offset < 0 or length != needed or offset + length > size:
            raise DamagedModel(f"{where}: dimensions {shape} of {dtype} need {needed} bytes, but "
                               f"{length} are declared at {offset} of {size} in {path.name}")
        self._count(path, size, needed, where)
        with path.open("rb") as file:
            file.seek(offset)
            return np.frombuffer(file.read(needed), dtype.newbyteorder("<")).reshape(shape)

    def _count(self, path: Path, size: int, needed: int, where: str) -> None:
        """Count what is read; DamagedModel if tensors have the same bytes again and again."""
        self._sizes[path] = size
        self._read += needed
        if self._read > SHARED + REPEATS * sum(self._sizes.values()):
            raise DamagedModel(f"{where}: external data: tensors need {self._read} bytes together, "
                               f"and their files have {sum(self._sizes.values())}")

    def _inside(self, location: str, where: str) -> Path:
        """The path of a file of external data; DamagedModel unless it is inside the folder."""
        if self.folder is None:
            raise DamagedModel(f"{where}: external data needs a folder; import the model from a "
                               "file, not from memory")
        parts = location.replace("\\", "/").split("/")
        if (not location or "\0" in location or os.path.isabs(location) or ".." in parts
                or ":" in location):
            raise DamagedModel(f"{where}: external data in {location[:200]!r}, expected a relative "
                               "path inside the folder of the model")
        folder = Path(os.path.realpath(self.folder))
        path = Path(os.path.realpath(folder / location))
        if folder not in path.parents or not path.is_file():
            raise DamagedModel(f"{where}: external data in {location[:200]!r}, which is no file "
                               "inside the folder of the model")
        return path


_PACKED = {"UINT4": 0.5, "INT4": 0.5, "FLOAT4E2M1": 0.5, "UINT2": 0.25, "INT2": 0.25}
"""Types of several elements a byte -> bytes an element."""
_COMPLEX = {"COMPLEX64": 2, "COMPLEX128": 2}
"""Types of which an element is stored as several."""


def _stored_bytes(kind: int, count: int) -> int:
    """Bytes of `count` elements as raw data."""
    import onnx

    name = onnx.TensorProto.DataType.Name(kind)
    if name in _PACKED:
        return math.ceil(count * _PACKED[name])
    dtype: DType = onnx.helper.tensor_dtype_to_np_dtype(kind)
    return count * dtype.itemsize
