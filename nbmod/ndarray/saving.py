"""`nd.save` and `nd.load`: lists and dicts of NDArrays in MXNet's `.params` format.

The format is implemented in `nbmod.core.serialization`, on NumPy arrays, and imported on first use.
Arrays are loaded to `cpu(0)`, whatever device they were saved from.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..base import warn_user
from ..context import cpu
from ..core.foreign import refuse_suffix
from .ndarray import NDArray
from .records import value_of
from .sparse_array import of_value, parts_of

__all__ = ["save", "load", "load_frombuffer"]


def save(fname: str, data: NDArray | list[NDArray] | dict[str, NDArray]) -> None:
    """Write arrays to a file in MXNet's `.params` format.

    Parameters
    ----------
    fname : str
        Path.  The file is replaced as a whole: a failure leaves the old one.
    data : NDArray, list of NDArray, or dict of str to NDArray
        Arrays to write.

    Raises
    ------
    ValueError
        If `data` is neither an array, a list nor a dict.
    TypeError
        If one of the elements is not an NDArray, or one of the keys is not text.
    MXNetError
        If the file cannot be written, or its name has the suffix of another format.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "net.params")
    ...     mx.nd.save(path, {"weight": mx.nd.array([1, 2])})
    ...     loaded = mx.nd.load(path)
    >>> loaded["weight"].asnumpy().tolist()
    [1.0, 2.0]
    """
    if isinstance(data, NDArray):
        data = [data]
    if not isinstance(data, (list, dict)):
        raise ValueError("data needs to either be a NDArray, dict of str, NDArray pairs or a list "
                         f"of NDarrays, given a {type(data).__name__}.")
    from ..core.serialization import write_arrays

    names: list[Any] = list(data) if isinstance(data, dict) else []
    arrays = list(data.values()) if isinstance(data, dict) else data
    for value, kind in [*((a, NDArray) for a in arrays), *((n, str) for n in names)]:
        if not isinstance(value, kind):
            raise TypeError("save only accept dict str->NDArray or list of NDArray, given a "
                            f"{type(value).__name__} among them")
    refuse_suffix(os.fspath(fname), ".params")
    write_arrays(fname, [array._data if array.is_sparse else array.asnumpy() for array in arrays],
                 names)


def load(fname: str) -> list[NDArray] | dict[str, NDArray]:
    """Read the arrays of a file in MXNet's `.params` format.

    Parameters
    ----------
    fname : str
        Path.

    Returns
    -------
    list of NDArray, or dict of str to NDArray
        Arrays on `cpu(0)`: a dict in the order of the file if they have names, or else a list.

    Raises
    ------
    TypeError
        If `fname` is not a path.
    MXNetError
        If the file cannot be read, or is damaged (with the position).
    """
    if not isinstance(fname, (str, os.PathLike)):
        raise TypeError(f"fname required to be a string, given a {type(fname).__name__}")
    return _read(fname, str(fname))


def load_frombuffer(buf: bytes | bytearray | memoryview) -> list[NDArray] | dict[str, NDArray]:
    """Return the arrays in the contents of a `.params` file, as `load` does.

    Parameters
    ----------
    buf : bytes
        Contents of the file.

    Raises
    ------
    TypeError
        If `buf` is not bytes.
    MXNetError
        If the contents are damaged.
    """
    if not isinstance(buf, (bytes, bytearray, memoryview)):
        raise TypeError(f"buf required to be bytes, given a {type(buf).__name__}")
    return _read(buf, "<buffer>")


def _read(source: Any, where: str) -> list[NDArray] | dict[str, NDArray]:
    from ..core.serialization import read_arrays

    stored, names = read_arrays(source)
    ctx = cpu(0)
    arrays = [of_value(value_of(array, where, ctx), ctx) for array in stored]
    if not names:
        return arrays
    named = dict(zip(names, arrays, strict=True))
    warn_of_nan(named, where)
    return named


def warn_of_nan(arrays: Mapping[str, NDArray], where: str) -> None:
    """Warn once of weights that are NaN, by name: two public models have such a file.

    Parameters
    ----------
    arrays : dict of str to NDArray
        Named arrays on the CPU, as they were read.
    where : str
        Name of the file.
    """
    counts = {name: _count_nan(parts_of(array._data)[0]) for name, array in arrays.items()}
    bad = [f"{name!r} ({count:,} of {arrays[name].size:,} elements)"
           for name, count in counts.items() if count]
    if bad:
        more = f" and {len(bad) - 5} more" if len(bad) > 5 else ""
        warn_user(f"{where}: {len(bad)} of {len(arrays)} arrays have NaN: {', '.join(bad[:5])}"
                  f"{more}; what is computed from them is NaN, unless an operator drops it, as "
                  "MXNet's relu does")


def _count_nan(values: np.ndarray) -> int:
    # The minimum is NaN if any element is, and needs no array of Booleans.
    if values.dtype.kind != "f" or not values.size or not np.isnan(values.min()):
        return 0
    return int(np.isnan(values).sum())
