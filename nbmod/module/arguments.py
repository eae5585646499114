"""Arguments of modules: their types; names and contexts, validated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from .. import kvstore as kvs
from ..base import ArgumentError, MXNetError, did_you_mean, warn_user
from ..context import Context, cpu, resolve
from ..execution.bind import GradReq
from ..initializer import InitDesc
from ..io import DataBatch, DataDesc
from ..io.data_iter import Shapes
from ..ndarray import NDArray
from ..optimizer import Optimizer
from ..symbol import Symbol

__all__ = ["Batch", "Callback", "Callbacks", "ContextGroups", "Contexts", "Descs",
           "GradReq", "Grads", "InitFunction", "KVStoreLike", "Labels", "OptimizerLike",
           "OptimizerParams", "Outputs", "Params", "Predictions", "RowFunction", "Shapes",
           "StateValues", "checked_inputs", "context_list", "groups_by_context", "name_list",
           "_check_input_names"]

Batch = DataBatch | list[DataBatch]
"""A batch, or a list with one for each device."""
Callback: TypeAlias = (  # type: ignore[explicit-any]
    Callable[..., object] | Sequence[Callable[..., object]] | None)
"""A callback, several, or none; those of epochs, batches and evaluations get other arguments."""
Callbacks: TypeAlias = list[Callable[..., object]]  # type: ignore[explicit-any]
"""Callbacks as a list."""
Contexts = Context | Sequence[Context] | None
"""Contexts to compute on; the CPU for None."""
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
def _complain(message: str, throw: bool) -> None:
    if throw:
        raise ArgumentError(message)
    warn_user(message)


def context_list(contexts: Contexts) -> list[Context]:
    """The contexts of a module: the CPU for None."""
    chosen = [contexts or cpu()] if isinstance(contexts, Context | None) else list(contexts)
    if not chosen or not all(isinstance(one, Context) for one in chosen):
        raise TypeError(f"context is {contexts!r}, expected mx.cpu(), mx.gpu(i) or a list "
                        "of them")
    for one in chosen:
        resolve(one)  # an error for a GPU that does not exist
    return chosen


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


def checked_inputs(symbol: Symbol, data: list[str], labels: list[str], states: list[str],
                   fixed_params: list[str]) -> list[str]:
    """The inputs of a module: those named as data, labels or states.

    ArgumentError if a name is no argument of the symbol (a label: a warning), or an input is named
    twice.
    """
    for names, kind in ((data, "data"), (labels, "label"), (states, "state"),
                        (fixed_params, "fixed_param")):
        _check_input_names(symbol, names, kind, throw=kind != "label")
    inputs = [*data, *labels, *states]
    twice = sorted({name for name in inputs if inputs.count(name) > 1})
    if twice:
        raise ArgumentError(f"Module: {twice} occur twice among data_names, label_names and "
                            f"state_names: {inputs}")
    return inputs


def groups_by_context(groups: ContextGroups, count: int) -> list[dict[str, Context]]:
    """Contexts by `ctx_group` for each of `count` executors.

    The argument of `Module` is None, a list of dicts, or a dict of contexts or lists of contexts.
    """
    if isinstance(groups, (list, tuple)):
        if len(groups) != count:
            raise MXNetError(f"group2ctxs: {len(groups)} dicts for {count} context(s)")
        return [one or {} for one in groups]
    if not isinstance(groups, (dict, type(None))):
        raise TypeError(f"group2ctxs is a {type(groups).__name__}, expected a dict of contexts by "
                        "ctx_group, or a list of such dicts")
    each: list[dict[str, Context]] = [{} for _ in range(count)]
    for name, chosen in (groups or {}).items():
        contexts = list(chosen) if isinstance(chosen, (list, tuple)) else [chosen]
        if len(contexts) not in (1, count):
            raise MXNetError(f"group2ctxs: {len(contexts)} contexts for group {name!r}, expected "
                             f"one, or one for each of {count} context(s)")
        for one, ctx in zip(each, contexts * count, strict=False):
            one[name] = ctx
    return each
