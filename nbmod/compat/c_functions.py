"""Functions of MXNet's C library that programs call on handles of arrays.

They copy the elements of an array from and to memory at a pointer, and wait for arrays.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from ..base import MXNetError
from ..ndarray import mutation
from ..ops.device import CPU, Device, synchronize

__all__ = ["FUNCTIONS"]


def _device_of(handle: Any) -> Device:
    return CPU if isinstance(handle, np.ndarray) else cast(Device, handle.device)


def _elements(name: str, handle: Any, size: Any) -> int:
    """Return the bytes of an array, whose number of elements must be `size`."""
    if not (isinstance(handle, np.ndarray) or hasattr(handle, "device")):
        raise MXNetError(f"_LIB.{name}: the handle is a {type(handle).__name__}, expected that of "
                         "a dense array: x.handle")
    count = int(getattr(size, "value", size))
    if count != handle.size:
        raise MXNetError(f"_LIB.{name}: the array has {handle.size} elements, {count} were to be "
                         "copied; the size counts elements, not bytes")
    return int(handle.size * handle.dtype.itemsize)


def _copy_to_cpu(handle: Any, data: Any, size: Any) -> int:
    nbytes = _elements("MXNDArraySyncCopyToCPU", handle, size)
    host = np.ascontiguousarray(_device_of(handle).to_numpy(handle))
    ctypes.memmove(data, host.ctypes.data, nbytes)
    return 0


def _copy_from_cpu(handle: Any, data: Any, size: Any) -> int:
    nbytes = _elements("MXNDArraySyncCopyFromCPU", handle, size)
    host = np.empty(handle.shape, handle.dtype)
    ctypes.memmove(host.ctypes.data, data, nbytes)
    _device_of(handle).copy(host, handle)
    mutation.written(handle)
    return 0


def _wait(*handles: Any) -> int:
    synchronize()
    return 0


FUNCTIONS: dict[str, Callable[..., int]] = {
    "MXNDArraySyncCopyToCPU": _copy_to_cpu, "MXNDArraySyncCopyFromCPU": _copy_from_cpu,
    **dict.fromkeys(("MXNDArrayWaitToRead", "MXNDArrayWaitToWrite", "MXNDArrayWaitAll"), _wait)}
"""By name in `_LIB`; each returns 0."""
