"""Batches and their descriptions: the batch axis, splitting for devices, joining of outputs.

The batch axis of an array is the `N` in its layout: 0 without a layout, -1 if the layout has none
and every device gets the whole array.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .. import ndarray as nd
from ..base import ArgumentError, MXNetError
from ..context import cpu
from ..io import DataDesc, DataIter

__all__ = ["Descs", "arrays_of", "average", "batch_axis", "cut", "enclosing", "joined",
           "named_arrays", "require_fit", "samples_in", "shapes_of", "split_batch", "with_samples",
           "with_shapes"]

Descs = Sequence[DataDesc]


def split_batch(batch_size: int, work_load_list: Sequence[float]) -> list[slice]:
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


def batch_axis(desc: Any) -> int:
    """The batch axis of a description; 0 for a plain pair."""
    return DataDesc.get_batch_axis(getattr(desc, "layout", None))


def samples_in(descs: Descs) -> int:
    """Number of samples: that of the first description with a batch axis."""
    return next((desc.shape[batch_axis(desc)] for desc in descs if batch_axis(desc) >= 0), 0)


def arrays_of(batch: Any) -> list[nd.NDArray]:
    """The data arrays of a batch; TypeError for an object without any."""
    data = getattr(batch, "data", None)
    if not isinstance(data, (list, tuple)) or isinstance(batch, DataIter):
        raise TypeError(f"a batch is a {type(batch).__name__}, expected a DataBatch, or anything "
                        "whose `data` is a list of NDArrays")
    for array in data:
        if not hasattr(array, "shape"):
            raise TypeError(f"the data of a batch are a list of {type(array).__name__}, expected "
                            "a list of NDArrays")
    return list(data)


def shapes_of(items: Iterable[Any]) -> list[tuple[int, ...]]:
    """Shapes of arrays or of descriptions."""
    return [tuple(item.shape) for item in items]


def with_shapes(descs: Descs, shapes: Sequence[Any]) -> list[DataDesc]:
    """The same inputs with other shapes."""
    if len(descs) != len(shapes):
        raise MXNetError(f"the batch has {len(shapes)} arrays, the module was bound with "
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


def cut(array: nd.NDArray, axis: int, part: slice) -> nd.NDArray:
    """`array` sliced along `axis`; all of it if the axis is -1 (every device gets everything)."""
    if axis == -1 or (part.start == 0 and part.stop == array.shape[axis]):
        return array
    if axis == 0:
        return array[part]
    return nd.slice_axis(array, axis=axis, begin=part.start, end=part.stop)


def joined(parts: Sequence[nd.NDArray], axis: int) -> nd.NDArray:
    """Arrays of several devices as one, on the first device."""
    if len(parts) == 1 or axis == -1:
        return parts[0]
    if len({(*part.shape[:axis], *part.shape[axis + 1:]) for part in parts}) > 1:
        raise MXNetError(f"arrays of shapes {shapes_of(parts)} on the devices cannot be joined; "
                         "use merge_multi_context=False")
    here = parts[0].context
    return nd.concat(*[part.as_in_context(here) for part in parts], dim=axis)


def named_arrays(batch: Any, data_names: Sequence[str], label_names: Sequence[str]
                 ) -> dict[str, nd.NDArray]:
    """A batch's arrays by name; labels may be missing, and are omitted if no names are given."""
    named = _by_name(arrays_of(batch), data_names)
    labels = getattr(batch, "label", None)
    return named | _by_name(labels, label_names) if labels and label_names else named


def _by_name(arrays: Sequence[nd.NDArray], names: Sequence[str]) -> dict[str, nd.NDArray]:
    if len(arrays) != len(names):
        raise MXNetError(f"the batch has {len(arrays)} arrays, expected {len(names)}: {names}")
    for name, array in zip(names, arrays, strict=True):
        if not isinstance(array, nd.NDArray):
            raise TypeError(f"the batch brings {name} as a {type(array).__name__}, expected an "
                            "NDArray")
    return dict(zip(names, arrays, strict=True))


def require_fit(array: nd.NDArray, name: str, target: nd.NDArray) -> None:
    """MXNetError unless the batch's array for `name` has the shape of the argument."""
    if array.shape != target.shape:
        raise MXNetError(f"the batch brings {name} of shape {array.shape} to {target.context}, "
                         f"but was bound to {target.shape}")


def average(copies: Sequence[nd.NDArray], target: nd.NDArray) -> None:
    """Write the mean of a parameter's copies on the devices to an array on the CPU.

    float16 is summed in float32, so that equal copies are their own mean.
    """
    if len(copies) == 1:
        copies[0].copyto(target)
        return
    wide = np.promote_types(copies[0].dtype, np.float32)
    total: Any = sum(copy.as_in_context(cpu()).astype(wide) for copy in copies)
    (total / len(copies)).copyto(target)
