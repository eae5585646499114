"""Memory of arrays from records of files and pickles."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base import MXNetError
from ..context import Context
from ..ops.device import device_of

__all__ = ["from_record", "value_of"]


def from_record(record: bytes | bytearray | memoryview | None, ctx: Context, stype: str) -> Any:
    """Return what one bare record of a pickle holds, on a device; None for None.

    Parameters
    ----------
    record : bytes or None
        Record as `serialization.record_bytes` makes it.
    ctx : Context
        Device of the array.
    stype : str
        Its storage type.

    Raises
    ------
    MXNetError
        If the record is damaged, or of another storage type.
    """
    from ..core.serialization import array_from_record

    if record is None:
        return None
    value = value_of(array_from_record(record), "<array record>", ctx)
    stype_in_file = getattr(value, "stype", "default")
    if stype_in_file != stype:
        raise MXNetError(f"<array record>: holds a {stype_in_file} array, expected a {stype} one")
    return value


def value_of(array: Any, where: str, ctx: Context) -> Any:
    """Memory of an NDArray on this device."""
    if array is None:
        raise MXNetError(f"{where}: holds an array without contents, which is not supported")
    if not isinstance(array, np.ndarray):
        return array
    # a scalar of MXNet's numpy interface; no NDArray is 0-d
    return device_of(ctx).adopt(np.atleast_1d(array))
