"""`nd.save` and `nd.load`: lists and dicts of NDArrays in MXNet's `.params` format.

The format itself is `nbmod.serialization`, on plain NumPy arrays; here they are wrapped.
Everything is loaded onto `cpu(0)`, whatever device it was saved from.  The format's module is
imported on first use, so that programs that save nothing do not wait for it.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ..base import MXNetError
from ..context import Context, cpu
from ..ops.device import device_of
from .ndarray import NDArray

__all__ = ["save", "load", "load_frombuffer"]


def save(fname: str, data: NDArray | list[NDArray] | dict[str, NDArray]) -> None:
    """Write one array, a list, or a dict of names to arrays; the file appears whole or not at all.

    Raises TypeError or ValueError for other data, MXNetError where the file cannot be written.
    """
    if isinstance(data, NDArray):
        data = [data]
    if not isinstance(data, (list, dict)):
        raise ValueError("data needs to either be a NDArray, dict of str, NDArray pairs or a list "
                         f"of NDarrays, given a {type(data).__name__}.")
    from ..serialization import write_arrays

    names: list[Any] = list(data) if isinstance(data, dict) else []
    arrays = list(data.values()) if isinstance(data, dict) else data
    for value, kind in [*((a, NDArray) for a in arrays), *((n, str) for n in names)]:
        if not isinstance(value, kind):
            raise TypeError("save only accept dict str->NDArray or list of NDArray, given a "
                            f"{type(value).__name__} among them")
    write_arrays(fname, [array.asnumpy() for array in arrays], names)


def load(fname: str) -> list[NDArray] | dict[str, NDArray]:
    """The arrays of a file: a dict in file order if they have names, else a list.

    Raises MXNetError naming the file and the place of the damage, if there is any.
    """
    if not isinstance(fname, (str, os.PathLike)):
        raise TypeError(f"fname required to be a string, given a {type(fname).__name__}")
    return _read(fname, str(fname))


def load_frombuffer(buf: bytes) -> list[NDArray] | dict[str, NDArray]:
    """`load` of a file's content."""
    if not isinstance(buf, (bytes, bytearray, memoryview)):
        raise TypeError(f"buf required to be bytes, given a {type(buf).__name__}")
    return _read(buf, "<buffer>")


def from_record(record: bytes | None, ctx: Context) -> Any:
    """The device array in one bare record of a pickle; None for None."""
    from ..serialization import array_from_record

    if record is None:
        return None
    return device_of(ctx).from_numpy(_dense(array_from_record(record), "<array record>"))


def _read(source: Any, where: str) -> list[NDArray] | dict[str, NDArray]:
    from ..serialization import read_arrays

    stored, names = read_arrays(source)
    ctx = cpu(0)
    arrays = [NDArray(_dense(array, where), ctx) for array in stored]
    return dict(zip(names, arrays, strict=True)) if names else arrays


def _dense(array: Any, where: str) -> np.ndarray:
    if isinstance(array, np.ndarray):
        return np.atleast_1d(array)  # a scalar of MXNet's numpy interface; no NDArray is 0-d
    what = "an array without contents" if array is None else f"a {array.stype} array"
    raise MXNetError(f"{where}: holds {what}, which is not supported")
