"""How a parameter takes an array of a file: what must fit, and what is converted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from ..base import CheckError
from ..context import cpu
from ..ndarray import NDArray
from .utils import Contexts, as_contexts

__all__ = ["DtypeSource", "Loading", "fits", "require_fit", "take_saved"]

Parameter: TypeAlias = Any  # `base_parameter`, which imports this module
DtypeSource = Literal["current", "saved"]


@dataclass(frozen=True)
class Loading:
    """How parameters take what a file holds: the arguments of `ParameterDict.load`."""

    ctx: Contexts = None
    allow_missing: bool = False
    ignore_extra: bool = False
    cast_dtype: bool = False
    dtype_source: DtypeSource = "current"

    def __post_init__(self) -> None:
        if self.dtype_source not in ("current", "saved"):
            raise CheckError("dtype_source must be one of 'current', 'saved', but is "
                             f"{self.dtype_source!r}")


def fits(shape: Sequence[int], expected: Sequence[int]) -> bool:
    """Return whether a shape is the expected one, in which dimensions of 0 and -1 are not known.

    Parameters
    ----------
    shape, expected : tuple of int
        Shapes.
    """
    return len(shape) == len(expected) and all(
        known in (size, 0, -1) for size, known in zip(shape, expected, strict=True))


def require_fit(parameter: Parameter, data: NDArray, loading: Loading) -> None:
    """Check that a parameter can take an array.

    Parameters
    ----------
    parameter : Parameter
        Parameter.
    data : NDArray
        Values.
    loading : Loading
        What may differ, and the devices.

    Raises
    ------
    AssertionError
        If the shape, the element type or the devices are others.
    """
    start = f"Failed loading Parameter {parameter.name!r} from saved params: "
    shape = parameter._shape
    if shape is not None and not fits(data.shape, shape):
        raise CheckError(f"{start}shape incompatible expected {shape} vs saved {data.shape}")
    if not loading.cast_dtype and parameter.dtype and (
            np.dtype(parameter.dtype) != np.dtype(data.dtype)):
        raise CheckError(f"{start}dtype incompatible expected {np.dtype(parameter.dtype)} vs saved "
                         f"{np.dtype(data.dtype)}. Set cast_dtype=True to cast the dtype of saved "
                         "params.")
    if loading.ctx is not None and (parameter._data is not None or parameter._deferred_init):
        contexts = as_contexts(loading.ctx)
        if {*contexts} != {*parameter.list_ctx()}:
            raise CheckError(f"Failed to load Parameter {parameter.name!r} on {contexts} because "
                             f"it was previous initialized on {parameter.list_ctx()}.")


def take_saved(parameter: Parameter, data: NDArray, loading: Loading) -> None:
    """Let a parameter take an array of a file.

    Parameters
    ----------
    parameter : Parameter
        Parameter.
    data : NDArray
        Values.
    loading : Loading
        What may differ, and the devices.
    """
    require_fit(parameter, data, loading)
    if parameter.dtype is None or loading.cast_dtype and loading.dtype_source == "saved":
        parameter.cast(data.dtype)
    data = data.astype(parameter.dtype, copy=False)
    if parameter._stype != data.stype:
        data = data.tostype(parameter._stype)
    if parameter._data is not None:
        parameter.set_data(data)
    else:
        contexts = (parameter._deferred_init[1] if parameter._deferred_init
                    else as_contexts(loading.ctx or cpu()))
        parameter.shape = data.shape
        parameter._init_impl(data, contexts)
    parameter._deferred_init = ()
