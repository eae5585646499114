"""`ParameterDict`: parameters of a block by name, which it may share with another."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any

import numpy as np

from .. import initializer
from .. import ndarray as nd
from ..base import ArgumentError, CheckError, NoSuchKey, did_you_mean, element_type, warn_user
from ..context import Context
from ..core.reprs import listed
from ..ndarray import NDArray
from .base_parameter import AnyInit, Parameter
from .constant import Constant
from .parameter_files import ParameterFile
from .saved_values import DtypeSource, Loading
from .utils import Contexts, _indent, dimensions

__all__ = ["ParameterDict"]

_ATTRIBUTES = ("dtype", "grad_req", "grad_stype", "init", "lr_mult", "shape", "wd_mult")
"""Attributes of parameters that programs set."""


class ParameterDict:
    """Parameters by name.

    Parameters
    ----------
    prefix : str, default ''
        Beginning of the names that `get` makes.
    shared : ParameterDict, optional
        Where `get` looks before it makes a parameter.

    Examples
    --------
    >>> params = mx.gluon.ParameterDict("net_")
    >>> params.get("weight", shape=(2, 3)).name, list(params)
    ('net_weight', ['net_weight'])
    """

    def __init__(self, prefix: str = "", shared: ParameterDict | None = None):
        self._prefix, self._shared = prefix, shared
        self._params: dict[str, Parameter] = {}

    def __repr__(self) -> str:
        name = f"{self._prefix} " if self._prefix else ""
        lines = "\n".join(_indent(f"  {parameter}", 2) for parameter in self.values())
        return f"{name}(\n{lines}\n)"

    def __getitem__(self, key: str) -> Parameter:
        if key not in self._params:
            raise NoSuchKey(f"{key!r} is no Parameter of these: {listed(self._params)}"
                            f"{did_you_mean(str(key), self._params)}")
        return self._params[key]

    def __contains__(self, key: object) -> bool:
        return key in self._params

    def __iter__(self) -> Iterator[str]:
        return iter(self._params)

    def keys(self) -> KeysView[str]:
        """Return the names."""
        return self._params.keys()

    def values(self) -> ValuesView[Parameter]:
        """Return the parameters."""
        return self._params.values()

    def items(self) -> ItemsView[str, Parameter]:
        """Return names and parameters."""
        return self._params.items()

    @property
    def prefix(self) -> str:
        """Beginning of the names that `get` makes."""
        return self._prefix

    # -- lookup -----------------------------------------------------------------------------------

    def get(self, name: str, **kwargs: Any) -> Parameter:
        """Return a parameter, which is made if there is none.

        Parameters
        ----------
        name : str
            Name without the prefix.
        **kwargs
            Further arguments of `Parameter`.

        Raises
        ------
        AssertionError
            If there is one with another attribute; shapes may fill zeros of each other.
        """
        whole = self._prefix + name
        parameter = self._get_impl(whole)
        if parameter is None:
            parameter = self._params[whole] = Parameter(whole, **kwargs)
            return parameter
        for key, value in kwargs.items():
            _require_attribute(parameter, key, value)
        return parameter

    def _get_impl(self, name: str) -> Parameter | None:
        """The parameter of a whole name, also of the shared ones."""
        if name not in self._params and self._shared is not None and name in self._shared._params:
            self._params[name] = self._shared._params[name]
        return self._params.get(name)

    def get_constant(self, name: str, value: Any = None) -> Constant:
        """Return a constant, which is made if there is none.

        Parameters
        ----------
        name : str
            Name without the prefix.
        value : array_like, optional
            Its values.

        Raises
        ------
        KeyError
            If there is none, and no value.
        AssertionError
            If there is one with other values, or one that is no constant.
        """
        whole = self._prefix + name
        parameter = self._get_impl(whole)
        if parameter is None:
            if value is None:
                raise NoSuchKey(f"No constant named {whole!r}. Please specify value if you want to "
                                f"create a new constant.")
            constant = self._params[whole] = Constant(whole, value)
            return constant
        if not isinstance(parameter, Constant):
            raise CheckError(f"Parameter {whole!r} already exists but it is not a constant.")
        if value is not None and not np.array_equal(parameter.value.asnumpy(), np.asarray(value)):
            raise CheckError(f"Constant {whole!r} already exists but it's value doesn't match new "
                             f"value: it has {parameter.value.asnumpy()!r:.80}, given "
                             f"{np.asarray(value)!r:.80}")
        return parameter

    def update(self, other: ParameterDict | Mapping[str, Parameter]) -> None:
        """Add the parameters of another dictionary.

        Parameters
        ----------
        other : ParameterDict
            Parameters by whole name.

        Raises
        ------
        AssertionError
            If both have one name for two parameters.
        """
        for name, parameter in other.items():
            if self._params.get(name, parameter) is not parameter:
                raise CheckError("Cannot update self with other because they have different "
                                 f"Parameters with the same name {name!r}; give blocks names or "
                                 "prefixes of their own")
        self._params.update(other.items())

    # -- all parameters ---------------------------------------------------------------------------

    def initialize(self, init: AnyInit = None, ctx: Contexts = None, verbose: bool = False,
                   force_reinit: bool = False) -> None:
        """Initialize all parameters.

        Parameters
        ----------
        init : Initializer or str, optional
            For parameters without one of their own; uniform values by default.
        ctx, force_reinit
            As for `Parameter.initialize`.
        verbose : bool, default False
            Whether to log what each parameter is filled with.
        """
        default_init = initializer.Uniform() if init is None else init
        if verbose and isinstance(default_init, str):
            default_init = initializer.create(default_init)
        if verbose and isinstance(default_init, initializer.Initializer):
            default_init.set_verbosity(verbose=True)
        for parameter in self.values():
            parameter.initialize(None, ctx, default_init, force_reinit)

    def zero_grad(self) -> None:
        """Set all gradients to 0."""
        for parameter in self.values():
            parameter.zero_grad()

    def reset_ctx(self, ctx: Contexts) -> None:
        """Move all parameters to other devices.

        Parameters
        ----------
        ctx : Context or list of Context
            Devices.
        """
        for parameter in self.values():
            parameter.reset_ctx(ctx)

    def list_ctx(self) -> list[Context]:
        """Return the devices of all parameters."""
        return [*dict.fromkeys(ctx for each in self.values() for ctx in each.list_ctx())]

    def setattr(self, name: str, value: Any) -> None:
        """Set an attribute of all parameters.

        Parameters
        ----------
        name : str
            Attribute, such as `grad_req`.
        value : object
            New value.
        """
        for parameter in self.values():
            if not hasattr(parameter, name) and (hint := did_you_mean(name, _ATTRIBUTES)):
                warn_user(f"setattr: parameters have no {name!r}{hint}")
            setattr(parameter, name, value)

    # -- files ------------------------------------------------------------------------------------

    def save(self, filename: str, strip_prefix: str = "") -> None:
        """Write the parameters to a file, under their names.

        Parameters
        ----------
        filename : str
            File.
        strip_prefix : str, default ''
            Prefix that names lose in the file.

        Raises
        ------
        ValueError
            If a name does not begin with it.
        """
        for name in self:
            if not name.startswith(strip_prefix):
                raise ArgumentError(f"Prefix {strip_prefix!r} is to be striped before saving, but "
                                    f"Parameter's name {name!r} does not start with it. The "
                                    "dictionary may hold parameters of another block, whose names "
                                    "begin differently; save_parameters of the block needs no "
                                    "prefix.")
        nd.save(filename, {name.removeprefix(strip_prefix): parameter._reduce()
                           for name, parameter in self.items()})

    def load(self, filename: str, ctx: Contexts = None, allow_missing: bool = False,
             ignore_extra: bool = False, restore_prefix: str = "", cast_dtype: bool = False,
             dtype_source: DtypeSource = "current") -> None:
        """Read the parameters from a file.

        Parameters
        ----------
        filename : str
            File of `save`, or with MXNet's `arg:` and `aux:`.
        ctx : Context or list of Context, optional
            Devices; those of the parameters, or `cpu(0)`, by default.
        allow_missing : bool, default False
            Whether parameters may be missing in the file.
        ignore_extra : bool, default False
            Whether the file may hold other arrays.
        restore_prefix : str, default ''
            Prefix that is added to names in the file.
        cast_dtype : bool, default False
            Whether element types may differ.
        dtype_source : {'current', 'saved'}, default 'current'
            Which element type the parameters then have.

        Raises
        ------
        AssertionError
            For missing and other arrays, shapes and types, by name; nothing is changed then.
        """
        self._load(ParameterFile.read(filename), restore_prefix,
                   Loading(ctx, allow_missing, ignore_extra, cast_dtype, dtype_source))

    def load_dict(self, param_dict: Mapping[str, NDArray], ctx: Contexts = None,
                  allow_missing: bool = False, ignore_extra: bool = False, restore_prefix: str = "",
                  filename: str | None = None, cast_dtype: bool = False,
                  dtype_source: DtypeSource = "current") -> None:
        """Take the parameters from a dict of arrays, as `load` does from a file.

        Parameters
        ----------
        param_dict : dict of str to NDArray
            Arrays by name.
        ctx, allow_missing, ignore_extra, restore_prefix, cast_dtype, dtype_source
            As for `load`.
        filename : str, optional
            File that the arrays are from, for errors.
        """
        where = f"file: {filename}" if filename else "param_dict"
        self._load(ParameterFile(where, param_dict), restore_prefix,
                   Loading(ctx, allow_missing, ignore_extra, cast_dtype, dtype_source))

    def _load(self, file: ParameterFile, restore_prefix: str, loading: Loading) -> None:
        for name in self:
            if not name.startswith(restore_prefix):
                raise CheckError(f"restore_prefix is {restore_prefix!r} but Parameters name "
                                 f"{name!r} does not start with it")
        file.by_whole_name(restore_prefix).load_into(self._params, loading)


def _require_attribute(parameter: Parameter, key: str, value: Any) -> None:
    """Check an attribute of a parameter that is asked for again; fill what is not known of it."""
    current = getattr(parameter, key, None)
    if current is None:
        setattr(parameter, key, value)
    elif key == "shape" and value is not None and (
            joined := _joined(dimensions(value), current)) is not None:
        parameter._shape = joined
    elif not (value is None or value == current
              or key == "dtype" and element_type(value) == element_type(current)):
        raise CheckError(f"Cannot retrieve Parameter {parameter.name!r} because desired attribute "
                         f"does not match with stored for attribute {key!r}: desired {value!r} vs "
                         f"stored {current!r}.")


def _joined(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape that two tell together; None if they contradict each other."""
    if len(one) != len(other) or any(a != b and a > 0 and b > 0
                                     for a, b in zip(one, other, strict=True)):
        return None
    return tuple(a if a > 0 else b for a, b in zip(one, other, strict=True))
