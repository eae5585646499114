"""Reading of parameters: one reader for all the names that files give them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from .. import ndarray as nd
from ..base import ArgumentError, CheckError, MXNetError
from ..checkpoint import strip_kind
from ..core.reprs import listed
from ..ndarray import NDArray
from .base_parameter import Parameter
from .saved_values import Loading, require_fit, take_saved

__all__ = ["ParameterFile"]


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
        hint = (f"{self.hint} Names of the file got the prefix {prefix!r} of the network; "
                "SymbolBlock.imports reads files of HybridBlock.export." if prefix else self.hint)
        return ParameterFile(self.where, {prefix + strip_kind(name): array
                                          for name, array in self.arrays.items()}, hint)

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
            require_fit(parameter, self.arrays[name], loading)
        for name, parameter in present.items():
            take_saved(parameter, self.arrays[name], loading)

    def _fail_missing(self, names: list[str]) -> None:
        labels = [name for name in names if name.endswith("label")]
        hint = (f" {labels} look like labels: name them among the inputs of the SymbolBlock, or "
                "remove the loss from its outputs." if labels else "")
        raise CheckError(f"Parameter {names[0]!r} is missing in {self.where}, which contains "
                         f"parameters: {listed(self.arrays)}. {self.hint} allow_missing=True "
                         f"leaves the {len(names)} that are missing as they are.{hint}")
