"""Parameters: their first values, their copies on devices, messages about them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice

from .. import kvstore as kvs
from ..base import ArgumentError, MXNetError, did_you_mean, warn_user
from ..initializer import InitDesc
from ..initializer.base_initializer import fills
from ..ndarray import NDArray, zeros
from ..ndarray.sparse_array import share_rows
from ..optimizer import Updater
from .arguments import InitFunction, Params

__all__ = ["advice", "assign", "host_arrays", "initialize", "share_sparse", "tell_of_assigned",
           "warn_of_absent"]


def assign(name: str, value: NDArray, target: NDArray) -> None:
    """Copy a given value to the host array of a parameter."""
    if not isinstance(value, NDArray):
        raise TypeError(f"init_params: {name} is a {type(value).__name__}, expected an NDArray; "
                        "make one with mx.nd.array")
    if value.shape != target.shape:
        raise MXNetError(f"init_params: {name} has shape {value.shape}, the symbol expects "
                         f"{target.shape}")
    value.copyto(target)


def initialize(desc: InitDesc, target: NDArray, initializer: InitFunction) -> None:
    """Fill the host array of a parameter by the initializer."""
    if not fills(initializer):
        raise TypeError(f"init_params: initializer is {initializer!r}, expected one such as "
                        "mx.init.Xavier()")
    try:
        initializer(desc, target)
    except MXNetError as error:
        label = f"; {_LABEL}" if desc.endswith("label") else ""
        raise ArgumentError(f"init_params: {desc}: {error}{label}") from None
_LABEL = "if it is a label, name it in Module's label_names, and the iterator's label_name"


def advice(name: str, values: Collection[str], own: Collection[str]) -> str:
    """Say what to do about a parameter without a value; the end of an error message."""
    near = did_you_mean(name, set(values) - set(own))
    cure = _LABEL if name.endswith("label") else "pass allow_missing=True to initialise it"
    return f": the parameters that are given have no {name!r}{near}; {cure}"


def warn_of_absent(names: Iterable[str], values: Collection[str], where: str) -> None:
    """Warn of parameters that a file lacks: they are 0 once the module is bound, as in MXNet."""
    absent = [name for name in names if name not in values and not name.endswith("label")]
    if absent:
        warn_user(f"{where} has no {', '.join(absent)}: such parameters are 0 until set_params or "
                  "init_params(force_init=True) gives them values")


def share_sparse(values: Params, arrays: Mapping[str, Sequence[NDArray]],
                 update_on_kvstore: bool) -> None:
    """Let row-sparse parameters of devices share the values of host arrays.

    Unless a store updates them, each of several devices updates its own copy.
    """
    for name, value in (values or {}).items():
        copies = arrays.get(name, ())
        if update_on_kvstore or len(copies) == 1:
            share_rows(value, *copies)


def tell_of_assigned(assigned: Mapping[str, Sequence[NDArray]], updater: Updater | None,
                     store: kvs.KVStoreBase | None) -> None:
    """Tell the updater or the store about parameters that the user has assigned on the devices.

    A borrowed updater identifies them by their indices in the module that owns it.
    """
    if updater is not None:
        remaining = {name: iter(copies) for name, copies in assigned.items()}
        for key, name in updater.optimizer.idx2name.items():
            for copy in islice(remaining.get(name, ()), 1):
                updater.weight_was_set(key, copy)
    elif isinstance(store, kvs.KVStore):
        for name, (first, *_) in assigned.items():
            store.assign(name, first)


def host_arrays(names: Sequence[str], arrays: Sequence[Sequence[NDArray]]
                ) -> dict[str, NDArray]:
    """Zeros on the CPU with shapes and types of the first device's arrays, by name."""
    return {name: zeros(copies[0].shape, dtype=copies[0].dtype, stype=copies[0].stype)
            for name, copies in zip(names, arrays, strict=True)}
