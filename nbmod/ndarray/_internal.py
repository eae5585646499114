"""`mx.nd._internal`: ops whose names start with an underscore, such as `_plus_scalar`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..base import MXNetError
from ..core.interrupts import from_handler
from ..imgproc.codecs import decode
from .array_creation import array
from .functions import is_public, namespace
from .ndarray import NDArray

if TYPE_CHECKING:
    from ._op_stubs import _internal as _op_stub
    from ._op_stubs._internal import *  # noqa: F403

__all__ = ["_copyto", "_cvimdecode", "_cvimread", "_set_value"]
if TYPE_CHECKING:  # of an installed package, checkers know the names of `__all__` only
    __all__ += _op_stub.__all__

_get, __dir__ = namespace(__name__, "", lambda name: not is_public(name))

if not TYPE_CHECKING:  # checkers shall not take every name for one that exists
    __getattr__ = _get


def _copyto(data: NDArray, out: NDArray) -> NDArray:
    """Copy `data` to `out`, converted to its type."""
    data.copyto(out)
    return out


def _set_value(src: float, out: NDArray) -> NDArray:
    """Fill `out` with a number."""
    out[:] = float(src)
    return out


def _cvimdecode(buf: NDArray, flag: int = 1, to_rgb: bool = True, out: NDArray | None = None,
                name: str | None = None) -> NDArray:
    """The image whose file is the bytes `buf` (uint8, any shape): uint8 (H, W, 3).

    `flag` 0 makes it grey, (H, W, 1); without `to_rgb` channels are blue, green, red.
    Raises MXNetError if the bytes are no image, or there is no library that reads it.
    """
    if buf.dtype != np.uint8:
        raise MXNetError(f"_cvimdecode: buf has type {np.dtype(buf.dtype)}, expected uint8")
    return _decoded("_cvimdecode", buf.asnumpy().tobytes(), flag, to_rgb, out)


def _cvimread(filename: str, flag: int = 1, to_rgb: bool = True, out: NDArray | None = None,
              name: str | None = None) -> NDArray:
    """The image in a file; all else as for `_cvimdecode`."""
    try:
        with open(filename, "rb") as stream:
            data = stream.read()
    except OSError as error:
        if from_handler(error):
            raise
        raise MXNetError(f"_cvimread: {filename}: cannot be read: {error.strerror or error}"
                         ) from error
    return _decoded(f"_cvimread: {filename}", data, flag, to_rgb, out)


def _decoded(where: str, data: bytes, flag: int, to_rgb: bool, out: NDArray | None) -> NDArray:
    if flag not in (0, 1):
        raise MXNetError(f"{where}: flag is {flag}, expected 0 (grey) or 1 (colour)")
    try:
        image = decode(data, 3 if flag else 1)
    except MXNetError as error:
        raise MXNetError(f"{where}: {error}") from error
    result = array(image if to_rgb else image[..., ::-1], dtype=np.uint8)
    if out is None:
        return result
    out[:] = result
    return out
