"""Helpers that scripts written for MXNet's oldest training loop import."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .base import ArgumentError

__all__ = ["_split_input_slice", "_check_arguments", "_load_data", "_load_label"]


def _split_input_slice(batch_size: int, work_load_list: Sequence[float]) -> list[slice]:
    """Slices of a batch, one per device, in proportion to `work_load_list`.

    Raises ArgumentError when a device would get nothing.
    """
    total = sum(work_load_list)
    counts = [round(load * batch_size / total) for load in work_load_list]
    counts[-1] += batch_size - sum(counts)
    slices, start = [], 0
    for count in counts:
        stop = min(start + count, batch_size)
        if start >= stop:
            raise ArgumentError(f"Too many slices: a batch of {batch_size} cannot be split over "
                                f"{len(counts)} devices with work loads {list(work_load_list)}")
        slices.append(slice(start, stop))
        start = stop
    return slices


def _check_arguments(symbol: Any) -> None:
    """ArgumentError if two arguments or two auxiliary states of `symbol` share a name."""
    for names, what in ((symbol.list_arguments(), "argument"),
                        (symbol.list_auxiliary_states(), "auxiliary state")):
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ArgumentError(f"Find duplicated {what} name {twice}; give each variable a name "
                                f"of its own (all: {names})")


def _load_general(data: Sequence[Any], targets: Sequence[Any]) -> None:
    """Copy each array into its target: an NDArray, or a list of (slice, NDArray)."""
    for source, target in zip(data, targets, strict=True):
        if isinstance(target, (list, tuple)):
            for part, array in target:
                source[part].copyto(array)
        else:
            source.copyto(target)


def _load_data(batch: Any, targets: Sequence[Any]) -> None:
    _load_general(batch.data, targets)


def _load_label(batch: Any, targets: Sequence[Any]) -> None:
    _load_general(batch.label, targets)
