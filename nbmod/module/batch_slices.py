"""Arrays of batches, sliced for several devices, and joined again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from .. import ndarray as nd
from ..base import ArgumentError, MXNetError, warn_user
from ..ndarray import NDArray
from ..ndarray import array as as_array
from .arguments import Outputs

__all__ = ["Part", "converted", "told_apart", "_merged", "_split_input_slice"]

Part: TypeAlias = "slice[int, int, int | None]"
"""The samples of a batch that a device gets."""


def _split_input_slice(batch_size: int, work_load_list: Sequence[float]) -> list[Part]:
    """Slices of a batch, one per device, in proportion to `work_load_list`.

    Raises ArgumentError when a device would get nothing.
    """
    total = sum(work_load_list)
    if min(work_load_list) < 0 or total <= 0:
        raise ArgumentError(f"work loads {list(work_load_list)}: expected positive numbers")
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


def _merged(arrays: list[list[NDArray]], axes: Sequence[int], merge: bool) -> Outputs:
    """Arrays of all devices, each joined along its batch axis on request."""
    if not merge:
        return arrays
    return [_joined(parts, axis) for parts, axis in zip(arrays, axes, strict=True)]


def _joined(parts: Sequence[NDArray], axis: int) -> NDArray:
    """Arrays of several devices as one, on the first device."""
    if len(parts) == 1 or axis == -1:
        return parts[0]
    if len({(*part.shape[:axis], *part.shape[axis + 1:]) for part in parts}) > 1:
        shapes = [part.shape for part in parts]
        raise MXNetError(f"arrays of shapes {shapes} on the devices cannot be joined; use "
                         "merge_multi_context=False")
    here = parts[0].context
    return nd.concat(*[part.as_in_context(here) for part in parts], dim=axis)


def converted(name: str, array: object) -> NDArray:
    """An array of NumPy as one of nbmod's."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"the batch brings {name} as a {type(array).__name__}, expected an "
                        "NDArray or a numpy.ndarray")
    return as_array(array, dtype=array.dtype)


def told_apart(names: Sequence[str], num_labels: int) -> list[str]:
    """Distinct names of outputs for a metric: of several outputs of one name the last keeps it.

    MXNet passes only the last to metrics.  nbmod also passes the others, named by their positions,
    if all outputs have labels or none has.
    """
    warn_user(f"outputs of one name: {list(names)}; a metric that chooses outputs by name reads "
              "the last of them: give every layer a name of its own")
    if num_labels not in (0, len(names)):
        return list(names)
    return [f"{name}[{i}]" if name in names[i + 1:] else name for i, name in enumerate(names)]
