"""Reading of parameters: one reader for all the names that files give them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from .. import ndarray as nd
from ..base import ArgumentError, CheckError, MXNetError
from ..checkpoint import strip_kind
from ..context import cpu
from ..core.reprs import listed
from ..ndarray import NDArray
from .base_parameter import Contexts, Parameter, as_contexts

__all__ = ["DtypeSource", "Loading", "ParameterFile"]

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


@dataclass(frozen=True)
class ParameterFile:
    """Arrays by the names of a file.

    `where` names the file in errors, and `on_extra` is the error for arrays that nobody takes.
    """

    where: str
    arrays: Mapping[str, NDArray]
    hint: str = "Please make sure source and target networks have the same prefix."
    on_extra: Callable[[str], MXNetError] = field(default=CheckError)

    @staticmethod
    def read(filename: str) -> ParameterFile:
        """Return the arrays of a file; MXNetError if they have no names."""
        arrays = nd.load(filename)
        if not isinstance(arrays, dict):
            if arrays:
                raise MXNetError(f"{filename} holds a list of {len(arrays)} arrays, expected named "
                                 "ones")
            arrays = {}
        return ParameterFile(f"file: {filename}", arrays)

    def by_whole_name(self, prefix: str) -> ParameterFile:
        """Return this file with the names of parameters: without kinds, with a prefix."""
        return ParameterFile(self.where, {prefix + strip_kind(name): array
                                          for name, array in self.arrays.items()})

    def has_names_of(self, parameters: Iterable[str]) -> bool:
        """Return whether the names are those of parameters, with their prefix."""
        names = {strip_kind(name) for name in self.arrays}
        return bool(names) and any(name in names for name in parameters)

    def by_path(self) -> ParameterFile:
        """Return this file of `Block.save_parameters`, whose names are paths of attributes."""
        where = re.sub(r"file: (.*)", r"file '\1'", self.where)
        return ParameterFile(where, self.arrays, "Please make sure that the network is built as "
                             "the one that was saved.", ArgumentError)

    def load_into(self, parameters: Mapping[str, Parameter], loading: Loading) -> None:
        """Let parameters take their arrays; nothing is changed if some do not fit.

        Parameters
        ----------
        parameters : dict of str to Parameter
            Parameters by their names in this file.
        loading : Loading
            What is allowed.

        Raises
        ------
        AssertionError
            For missing arrays, and other shapes or types.
        MXNetError
            The class `on_extra`, for arrays that no parameter has.
        """
        present = {name: each for name, each in parameters.items() if name in self.arrays}
        read = {id(each) for each in present.values()}  # shared ones may have several names
        missing = [name for name, each in parameters.items() if id(each) not in read]
        if missing and not loading.allow_missing:
            self._fail_missing(missing)
        extra = [name for name in self.arrays if name not in parameters]
        if extra and not loading.ignore_extra:
            raise self.on_extra(f"Parameter {extra[0]!r} loaded from {self.where} is not present "
                                f"in ParameterDict, which has {listed(parameters)}. "
                                "ignore_extra=True ignores such arrays.")
        for name, parameter in present.items():
            _require_fit(parameter, self.arrays[name], loading)
        for name, parameter in present.items():
            take_saved(parameter, self.arrays[name], loading)

    def _fail_missing(self, names: list[str]) -> None:
        labels = [name for name in names if name.endswith("label")]
        hint = (f" {labels} look like labels: name them among the inputs of the SymbolBlock, or "
                "remove the loss from its outputs." if labels else "")
        raise CheckError(f"Parameter {names[0]!r} is missing in {self.where}, which contains "
                         f"parameters: {listed(self.arrays)}. {self.hint} allow_missing=True "
                         f"leaves the {len(names)} that are missing as they are.{hint}")


def _require_fit(parameter: Parameter, data: NDArray, loading: Loading) -> None:
    """Check that a parameter can take an array."""
    start = f"Failed loading Parameter {parameter.name!r} from saved params: "
    shape = parameter._shape
    if shape is not None and not (len(shape) == len(data.shape) and all(
            known in (size, 0, -1) for size, known in zip(data.shape, shape, strict=True))):
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
    _require_fit(parameter, data, loading)
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
