"""Arguments of modules, validated and normalized: names, shapes, contexts, optimizers, stores.

The batch axis of an input is the `N` in its layout: 0 without a layout, -1 if the layout has none
and every device gets the whole array.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .. import kvstore as kvs
from ..base import (
    ArgumentError,
    CheckError,
    MXNetError,
    StopTraining,
    _as_list,
    did_you_mean,
    warn_user,
)
from ..config import CONFIG
from ..context import Context, cpu, resolve
from ..initializer import InitDesc
from ..io import DataBatch, DataDesc
from ..io.data_iter import Shapes
from ..ndarray import NDArray, zeros
from ..ndarray import array as as_array
from ..ndarray.sparse_array import share_rows
from ..ops.shape import ShapeMismatch, size_of
from ..optimizer import Optimizer, Updater, create
from ..symbol import Symbol
from ..symbol.symbol import GradReq
from .workers import distributed

if TYPE_CHECKING:
    from ..executor import Executor

__all__ = ["Batch", "Callback", "Callbacks", "ContextGroups", "Contexts", "Descs", "Executors",
           "GradReq", "Grads", "InitFunction", "KVStoreLike", "Labels", "OptimizerLike",
           "OptimizerParams",
           "Outputs", "Params", "Predictions", "RowFunction", "Shapes", "StateValues", "advice",
           "as_descs", "assign", "batch_axis", "call_all", "context_list", "converted", "described",
           "enclosing", "groups_by_context", "host_arrays", "initialize", "make_optimizer",
           "name_list", "pull_rows", "pull_sparse", "require_distinct", "samples_in",
           "share_sparse", "told_apart", "with_samples", "with_shapes", "_check_input_names",
           "_check_names_match", "_create_kvstore", "_initialize_kvstore", "_parse_data_desc"]

Batch = DataBatch | list[DataBatch]
"""A batch, or a list with one for each device."""
Callback: TypeAlias = (  # type: ignore[explicit-any]
    Callable[..., object] | Sequence[Callable[..., object]] | None)
"""A callback, several, or none; those of epochs, batches and evaluations get other arguments."""
Callbacks: TypeAlias = list[Callable[..., object]]  # type: ignore[explicit-any]
"""Callbacks as a list."""
Contexts = Context | Sequence[Context] | None
"""Where to compute; the CPU for None."""
ContextGroups = (Mapping[str, Context | list[Context] | tuple[Context, ...]]
                 | Sequence[dict[str, Context] | None] | None)
"""Contexts by `ctx_group`, each one or one for each device; or such a dict for each device."""
Descs = Sequence[DataDesc]
Grads = NDArray | Sequence[NDArray] | None
"""Gradients of a loss with respect to the outputs; None where outputs are losses."""
InitFunction = Callable[[InitDesc, NDArray], None] | None
"""An initializer."""
KVStoreLike = str | kvs.KVStoreBase | None
"""A key-value store, its name, or none."""
Executors: TypeAlias = "list[Executor]"
"""Executors of one batch, one for each device."""
Labels = Sequence[NDArray] | Sequence[Sequence[NDArray]] | None
"""Labels of a batch, or such a list for each device."""
OptimizerLike = str | Optimizer
"""An optimizer or its name."""
OptimizerParams = Mapping[str, object] | Sequence[tuple[str, object]]
"""Options of an optimizer; values are of any type."""
Outputs: TypeAlias = list[Any]  # type: ignore[explicit-any]
"""NDArrays, or unless merged lists of them, one for each device.  It is no union, for every caller
would have to say which of both it asked for."""
Predictions: TypeAlias = Any  # type: ignore[explicit-any]
"""An array, a list of arrays, or a list of such lists, by the options of `predict` and the number
of outputs.  Any for the same reason."""
Params = Mapping[str, NDArray] | None
"""Parameters by name."""
RowFunction = Callable[[Batch], Mapping[str, NDArray]] | None
"""The rows of row-sparse parameters that a batch needs."""
StateValues = Sequence[NDArray | Sequence[NDArray]]
"""For each state an array for the whole batch, or one for each device."""

STATE_SUFFIXES = ("_weight", "_bias", "_gamma", "_beta")
UPDATE_LOCALLY_ABOVE = 1024 * 1024 * 16
"""A parameter of more elements is updated on every device instead of on the `local` store."""


def _complain(message: str, throw: bool) -> None:
    if throw:
        raise ArgumentError(message)
    warn_user(message)


def call_all(callbacks: Callback, *args: object) -> None:
    """Call one callback or every callback of a list, also those after one that stops training."""
    asked: list[StopTraining] = []
    for callback in _as_list(callbacks) if callbacks is not None else ():
        try:
            callback(*args)
        except StopTraining as stop:
            asked.append(stop)
    if asked:
        raise asked[0]


def context_list(contexts: Contexts) -> list[Context]:
    """The contexts of a module: the CPU for None."""
    found = [contexts or cpu()] if isinstance(contexts, Context | None) else list(contexts)
    if not found or not all(isinstance(one, Context) for one in found):
        raise TypeError(f"context is {contexts!r}, expected mx.cpu(), mx.gpu(i) or a list "
                        "of them")
    for one in found:
        resolve(one)  # an error for a GPU that does not exist
    return found


def name_list(argument: str, names: Iterable[str] | None) -> list[str]:
    """The names listed by an argument, none for None."""
    if isinstance(names, str):
        raise ArgumentError(f"{argument} is {names!r}, expected a list of names: [{names!r}]")
    return list(names or ())


def _check_input_names(symbol: Symbol, names: Sequence[str], typename: str, throw: bool) -> None:
    """Every name in `names` must be an argument of `symbol`: ArgumentError, or a warning."""
    args = symbol.list_arguments()
    inputs = [arg for arg in args if not arg.endswith(STATE_SUFFIXES)]
    for name in names:
        if name not in args:
            near = did_you_mean(name, args if typename == "fixed_param" else inputs)
            _complain(f"You created Module with Module(..., {typename}_names={list(names)}) but "
                      f"input with name {name!r} is not found in symbol.list_arguments(){near}. "
                      f"Inputs that are no parameters: {inputs}", throw)


def require_distinct(names: Sequence[str]) -> None:
    """ArgumentError if an input of a module is named twice."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ArgumentError(f"Module: {twice} occur twice among data_names, label_names and "
                            f"state_names: {names}")


def _check_names_match(data_names: Sequence[str], data_shapes: Sequence[DataDesc], name: str,
                       throw: bool) -> None:
    if sorted(data_names) != sorted(desc[0] for desc in data_shapes):
        _complain(f"Data provided by {name}_shapes don't match names specified by {name}_names: "
                  f"{list(data_shapes)} given, {list(data_names)} expected", throw)


def _parse_data_desc(data_names: Sequence[str], label_names: Sequence[str], data_shapes: Shapes,
                     label_shapes: Shapes) -> tuple[list[DataDesc], list[DataDesc] | None]:
    """Shapes given as DataDesc or (name, shape) pairs, normalized and checked against names.

    Without labels nothing is said: that is how networks are bound for inference.
    """
    data, labels = as_descs(data_shapes), as_descs(label_shapes)
    _check_names_match(data_names, data, "data", True)
    if labels:
        _check_names_match(label_names, labels, "label", False)
    return data, labels or None


def as_descs(shapes: Shapes) -> list[DataDesc]:
    """Descriptions from `DataDesc`s or (name, shape) pairs; none from None."""
    if isinstance(shapes, (str, Mapping)):
        raise ArgumentError(f"shapes are given as {shapes!r}, expected a list of DataDesc or "
                            "(name, shape)")
    return [desc if isinstance(desc, DataDesc) else _described(desc) for desc in shapes or ()]


class _NoDescription(ArgumentError, TypeError):
    """What is no DataDesc: MXNet raises TypeError for most, ValueError for some."""


def _described(pair: tuple[str, Sequence[int]]) -> DataDesc:
    try:
        name, shape, *more = pair  # type: ignore[var-annotated]  # dtype and layout
        return DataDesc(name, tuple(map(operator.index, shape)), *more)
    except (TypeError, ValueError):
        raise _NoDescription(f"an input is described by {pair!r}, expected DataDesc or "
                             "(name, shape), such as ('data', (32, 3, 224, 224))") from None


def groups_by_context(groups: ContextGroups, count: int) -> list[dict[str, Context]]:
    """The contexts by `ctx_group` of each of `count` executors, from the argument of `Module`.

    That is None, a list of dicts, or one dict whose values are contexts or lists of contexts.
    """
    if isinstance(groups, (list, tuple)):
        if len(groups) != count:
            raise MXNetError(f"group2ctxs: {len(groups)} dicts for {count} context(s)")
        return [one or {} for one in groups]
    if not isinstance(groups, (dict, type(None))):
        raise TypeError(f"group2ctxs is a {type(groups).__name__}, expected a dict of contexts by "
                        "ctx_group, or a list of such dicts")
    each: list[dict[str, Context]] = [{} for _ in range(count)]
    for name, given in (groups or {}).items():
        contexts = list(given) if isinstance(given, (list, tuple)) else [given]
        if len(contexts) not in (1, count):
            raise MXNetError(f"group2ctxs: {len(contexts)} contexts for group {name!r}, expected "
                             f"one, or one for each of {count} context(s)")
        for one, ctx in zip(each, contexts * count, strict=False):
            one[name] = ctx
    return each


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
    if not callable(initializer):
        raise TypeError(f"init_params: initializer is {initializer!r}, expected one such as "
                        "mx.init.Xavier()")
    try:
        initializer(desc, target)
    except MXNetError as error:
        label = f"; {_LABEL}" if desc.endswith("label") else ""
        raise ArgumentError(f"init_params: {desc}: {error}{label}") from None


_LABEL = "if it is a label, name it in Module's label_names, and the iterator's label_name"


def advice(name: str, given: Collection[str], own: Collection[str]) -> str:
    """Say what to do about a parameter without a value; the end of an error message."""
    near = did_you_mean(name, set(given) - set(own))
    cure = _LABEL if name.endswith("label") else "pass allow_missing=True to initialise it"
    return f": the parameters that are given have no {name!r}{near}; {cure}"


@contextmanager
def explaining_parts(devices: int, batch_size: int | None, data: Descs) -> Iterator[None]:
    """Add to errors about shapes that each of several devices computes a part of the batch."""
    try:
        yield
    except ShapeMismatch as error:
        if devices == 1 or not batch_size:
            raise
        shapes = {desc.name: desc.shape for desc in data}
        raise ShapeMismatch(
            f"{error}; the batch of {batch_size} samples is divided over {devices} devices, and "
            f"this one computes {shapes}: a symbol for several devices must not name the batch "
            "size (Reshape takes 0 or -1 for it)") from error


def warn_of_absent(names: Iterable[str], given: Collection[str], where: str) -> None:
    """Warn of parameters that a file lacks: they are 0 once the module is bound, as in MXNet."""
    absent = [name for name in names if name not in given and not name.endswith("label")]
    if absent:
        warn_user(f"{where} has no {', '.join(absent)}: such parameters are 0 until set_params or "
                  "init_params(force_init=True) gives them values")


def told_apart(names: Sequence[str], num_labels: int) -> list[str]:
    """Names for a metric of outputs that have one name: the last of a name keeps it.

    MXNet shows metrics the last alone.  Here the others are there, too, under their positions,
    where every output has a label, or none has.
    """
    warn_user(f"outputs of one name: {list(names)}; a metric that chooses outputs by name reads "
              "the last of them: give every layer a name of its own")
    if num_labels not in (0, len(names)):
        return list(names)
    return [f"{name}[{i}]" if name in names[i + 1:] else name for i, name in enumerate(names)]


def make_optimizer(optimizer: str | Optimizer, params: OptimizerParams, symbol: Symbol,
                   idx2name: dict[int, str], rescale: float) -> Optimizer:
    """The optimizer, created by name with the parameters for it, or as given."""
    if isinstance(optimizer, str):
        return create(optimizer, sym=symbol, param_idx2name=idx2name,
                      **{"rescale_grad": rescale, **dict(params)})
    if not isinstance(optimizer, Optimizer):
        raise CheckError(f"init_optimizer: optimizer is a {type(optimizer).__name__}, expected "
                         "a name or an mx.optimizer.Optimizer")
    if optimizer.rescale_grad != rescale:
        warn_user("Optimizer created manually outside Module but rescale_grad is not "
                  f"normalized to 1.0/batch_size/num_workers ({optimizer.rescale_grad} vs. "
                  f"{rescale}). Is this intended?")
    if not optimizer.idx2name:
        optimizer.idx2name = idx2name.copy()
    return optimizer


def _create_kvstore(kvstore: KVStoreLike, num_device: int, arg_params: Mapping[str, NDArray]
                    ) -> tuple[kvs.KVStoreBase | None, bool]:
    """(store or None, whether it updates the parameters) for a kvstore argument of `fit`.

    A single device needs no store, unless one is given as an object.  Stores update parameters if
    they can, MXNET_UPDATE_ON_KVSTORE allows it, and no parameter is too large for 'local'.
    """
    store: kvs.KVStoreBase = kvstore  # type: ignore[assignment]  # unless it is a name or None
    if kvstore is None or isinstance(kvstore, str) and num_device == 1 and "dist" not in kvstore:
        return None, False
    if isinstance(kvstore, str):
        store = kvs.create(kvstore)
    elif not isinstance(kvstore, kvs.KVStoreBase):
        raise TypeError("kvstore must be KVStore, str or None")
    too_large = kvstore == "local" and any(
        size_of(value.shape) > UPDATE_LOCALLY_ABOVE for value in arg_params.values())
    capable = store.is_capable(kvs.KVStoreBase.OPTIMIZER)
    return store, capable and CONFIG.update_on_kvstore and not too_large


def workers_in_step(store: kvs.KVStoreBase | None) -> int:
    """How many workers a store sums the gradients of before it updates."""
    in_step = store is not None and "dist" in store.type and "_sync" in store.type
    return store.num_workers if store is not None and in_step else 1


def _initialize_kvstore(kvstore: kvs.KVStoreBase, param_arrays: Sequence[Sequence[NDArray]],
                        arg_params: Mapping[str, NDArray], param_names: Sequence[str],
                        update_on_kvstore: bool) -> bool:
    """Put every parameter into the store, under its name.

    Returns whether others than the given values may be there: those of rank 0.
    """
    differ = distributed(kvstore) is not None     # values of the ranks
    for name, on_devices in zip(param_names, param_arrays, strict=True):
        broadcasts = ((update_on_kvstore or differ)
                      and not on_devices[0].is_sparse)  # which have their values
        if broadcasts or not hasattr(kvstore, "init"):  # which custom stores need not have
            kvstore.broadcast(name, arg_params[name], out=on_devices)
        else:
            kvstore.init(name, arg_params[name])
            if update_on_kvstore and isinstance(kvstore, kvs.KVStore):
                kvstore.share(name, arg_params[name], *on_devices)
    return differ


def pull_rows(store: kvs.KVStoreBase | None, arrays: Mapping[str, Sequence[NDArray]],
              find_rows: Callable[[], Mapping[str, NDArray]]) -> set[str]:
    """Fetch rows of row-sparse parameters from a store; `find_rows` gives their indices by name.

    Returns these names.  Without a store that has the parameters there is a warning.
    """
    if store is None:
        warn_user("Parameters are not updated in the KVStore. No need to call sparse_row_id_fn.")
        return set()
    rows = find_rows()
    if not isinstance(rows, dict):
        raise MXNetError("prepare: expected a dict from sparse_row_id_fn, parameter name -> row "
                         f"numbers, but it gave a {type(rows).__name__}")
    for name, ids in rows.items():
        if name not in arrays:
            raise ArgumentError(f"prepare: sparse_row_id_fn names {name!r}, which is no parameter"
                                f"{did_you_mean(name, arrays)}")
        if arrays[name][0].stype == "row_sparse":
            store.row_sparse_pull(name, arrays[name], row_ids=ids)
        else:
            warn_user(f"{name}.stype is not 'row_sparse'. No need to perform row_sparse_pull.")
    return {*rows}


def pull_sparse(store: kvs.KVStoreBase | None, arrays: Mapping[str, NDArray | Sequence[NDArray]],
                fetched: Collection[str] = ()) -> None:
    """Fetch sparse parameters as a whole, except for those whose rows `pull_rows` has fetched.

    Without a store they are where they are used; one that has all rows in this process shares them.
    """
    for name, copies in arrays.items():
        copies = [copies] if isinstance(copies, NDArray) else copies
        if store is None or not copies[0].is_sparse or name in fetched:
            continue
        if not (isinstance(store, kvs.KVStore) and store.share(name, *copies)):
            rows = as_array(np.arange(len(copies[0])), dtype="int64")
            store.row_sparse_pull(name, copies, row_ids=rows)


def share_sparse(values: Params, arrays: Mapping[str, Sequence[NDArray]],
                 update_on_kvstore: bool) -> None:
    """Let row-sparse parameters of devices have the values of host arrays, not copies of them.

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
            store._assign(name, first)


# -- descriptions of batches --------------------------------------------------------------

def batch_axis(desc: object) -> int:
    """The batch axis of a description; 0 for a plain pair."""
    return DataDesc.get_batch_axis(getattr(desc, "layout", None))


def samples_in(descs: Descs) -> int:
    """Number of samples: that of the first description with a batch axis."""
    return next((desc.shape[batch_axis(desc)] for desc in descs if batch_axis(desc) >= 0), 0)


def with_shapes(descs: Descs, shapes: Sequence[Sequence[int]]) -> list[DataDesc]:
    """The same inputs with other shapes."""
    if len(descs) != len(shapes):
        raise ArgumentError(f"the batch has {len(shapes)} arrays, the module was bound with "
                            f"{len(descs)}: {[desc.name for desc in descs]}")
    return [DataDesc(desc.name, shape, desc.dtype, desc.layout)
            for desc, shape in zip(descs, shapes, strict=True)]


def with_samples(descs: Descs, count: int) -> list[DataDesc]:
    """The same inputs with `count` samples."""
    return with_shapes(descs, [
        tuple(count if axis == batch_axis(desc) else size for axis, size in enumerate(desc.shape))
        for desc in descs])


def enclosing(descs: Descs) -> DataDesc:
    """All samples of one input, whose shape may differ between devices, in one description."""
    first, axis = descs[0], batch_axis(descs[0])
    shape = [max(sizes) for sizes in zip(*(desc.shape for desc in descs), strict=True)]
    if axis >= 0:
        shape[axis] = sum(desc.shape[axis] for desc in descs)
    return DataDesc(first.name, shape, first.dtype, first.layout)


def host_arrays(names: Sequence[str], arrays: Sequence[Sequence[NDArray]]
                ) -> dict[str, NDArray]:
    """Zeros on the CPU like the first device's array of every name."""
    return {name: zeros(copies[0].shape, dtype=copies[0].dtype, stype=copies[0].stype)
            for name, copies in zip(names, arrays, strict=True)}


def described(batch: DataBatch, data_shapes: Sequence[DataDesc],
              label_shapes: Sequence[DataDesc] | None
              ) -> tuple[list[DataDesc], list[DataDesc] | None]:
    """The (data, label) descriptions that are given, with the shapes of a batch."""
    shapes, labels = [array.shape for array in batch.data], getattr(batch, "label", None)
    data = with_shapes(data_shapes, shapes)
    if not label_shapes:
        return data, None
    if labels:
        return data, with_shapes(label_shapes, [array.shape for array in labels])
    return data, with_samples(label_shapes, samples_in(data))


def converted(name: str, array: object) -> NDArray:
    """An array of NumPy as one of nbmod's."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"the batch brings {name} as a {type(array).__name__}, expected an "
                        "NDArray or a numpy.ndarray")
    return as_array(array, dtype=array.dtype)
