"""What modules are told, checked and brought into one form: names, shapes, contexts of groups."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from ..base import ArgumentError, MXNetError, did_you_mean, warn_user
from ..context import Context
from ..io import DataDesc

__all__ = ["as_descs", "groups_by_context", "name_list", "_check_input_names", "_check_names_match",
           "_parse_data_desc"]

STATE_SUFFIXES = ("_weight", "_bias", "_gamma", "_beta")


def _complain(message: str, throw: bool) -> None:
    if throw:
        raise ArgumentError(message)
    warn_user(message)


def name_list(argument: str, names: Any) -> list[str]:
    """The names that an argument lists, none for None."""
    if isinstance(names, str):
        raise ArgumentError(f"{argument} is {names!r}, expected a list of names: [{names!r}]")
    return list(names or ())


def _check_input_names(symbol: Any, names: Sequence[str], typename: str, throw: bool) -> None:
    """Every name in `names` must be an argument of `symbol`: ArgumentError, or a warning."""
    args = symbol.list_arguments()
    inputs = [arg for arg in args if not arg.endswith(STATE_SUFFIXES)]
    for name in names:
        if name not in args:
            near = did_you_mean(name, args if typename == "fixed_param" else inputs)
            _complain(f"You created Module with Module(..., {typename}_names={list(names)}) but "
                      f"input with name {name!r} is not found in symbol.list_arguments(){near}. "
                      f"Inputs that are no parameters: {inputs}", throw)


def _check_names_match(data_names: Sequence[str], data_shapes: Sequence[DataDesc], name: str,
                       throw: bool) -> None:
    if sorted(data_names) != sorted(desc[0] for desc in data_shapes):
        _complain(f"Data provided by {name}_shapes don't match names specified by {name}_names: "
                  f"{list(data_shapes)} given, {list(data_names)} expected", throw)


def _parse_data_desc(data_names: Sequence[str], label_names: Sequence[str], data_shapes: Any,
                     label_shapes: Any) -> tuple[list[DataDesc], list[DataDesc] | None]:
    """Shapes given as DataDesc or (name, shape) pairs, normalised and checked against names."""
    data, labels = as_descs(data_shapes), as_descs(label_shapes)
    _check_names_match(data_names, data, "data", True)
    _check_names_match(label_names, labels, "label", False)
    return data, labels or None


def as_descs(shapes: Any) -> list[DataDesc]:
    """Descriptions from `DataDesc`s or (name, shape) pairs; none from None."""
    if isinstance(shapes, (str, Mapping)):
        raise ArgumentError(f"shapes are given as {shapes!r}, expected a list of DataDesc or "
                            "(name, shape)")
    return [desc if isinstance(desc, DataDesc) else _described(desc) for desc in shapes or ()]


def _described(pair: Any) -> DataDesc:
    try:
        name, shape, *more = pair
        return DataDesc(name, tuple(map(operator.index, shape)), *more)
    except (TypeError, ValueError):
        raise ArgumentError(f"an input is described by {pair!r}, expected DataDesc or "
                            "(name, shape), such as ('data', (32, 3, 224, 224))") from None


def groups_by_context(groups: Any, count: int) -> list[dict[str, Context]]:
    """The contexts by `ctx_group` of each of `count` executors, from what `Module` is given.

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
