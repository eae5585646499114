"""Descriptions of batches: names, shapes and batch axes of inputs.

The batch axis of an input is the `N` in its layout: 0 without a layout, -1 if the layout has none
and every device gets the whole array.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from ..base import ArgumentError
from ..io import DataBatch, DataDesc
from ..io.data_iter import Shapes
from ..ops.shape import ShapeMismatch
from .arguments import Descs, _complain

__all__ = ["as_descs", "batch_axis", "described", "enclosing", "explaining_parts", "samples_in",
           "with_samples", "with_shapes", "_check_names_match", "_parse_data_desc"]


def _check_names_match(data_names: Sequence[str], data_shapes: Sequence[DataDesc], name: str,
                       throw: bool) -> None:
    if sorted(data_names) != sorted(desc[0] for desc in data_shapes):
        _complain(f"Data provided by {name}_shapes don't match names specified by {name}_names: "
                  f"{list(data_shapes)} given, {list(data_names)} expected", throw)


def _parse_data_desc(data_names: Sequence[str], label_names: Sequence[str], data_shapes: Shapes,
                     label_shapes: Shapes) -> tuple[list[DataDesc], list[DataDesc] | None]:
    """Shapes given as DataDesc or (name, shape) pairs, normalized and checked against names.

    Labels may be missing, as networks are bound for inference without them.
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
    """A pair is no DataDesc: MXNet raises TypeError for most, ValueError for some."""


def _described(pair: tuple[str, Sequence[int]]) -> DataDesc:
    try:
        name, shape, *more = pair  # type: ignore[var-annotated]  # dtype and layout
        return DataDesc(name, tuple(map(operator.index, shape)), *more)
    except (TypeError, ValueError):
        raise _NoDescription(f"an input is described by {pair!r}, expected DataDesc or "
                             "(name, shape), such as ('data', (32, 3, 224, 224))") from None


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


def batch_axis(desc: object) -> int:
    """The batch axis of a description; 0 for a plain pair."""
    return DataDesc.get_batch_axis(getattr(desc, "layout", None))


def samples_in(descs: Descs) -> int:
    """Number of samples: that of the first description with a batch axis."""
    return next((desc.shape[batch_axis(desc)] for desc in descs if batch_axis(desc) >= 0), 0)


def with_shapes(descs: Descs, shapes: Sequence[Sequence[int]]) -> list[DataDesc]:
    """Descriptions of inputs, with other shapes."""
    if len(descs) != len(shapes):
        raise ArgumentError(f"the batch has {len(shapes)} arrays, the module was bound with "
                            f"{len(descs)}: {[desc.name for desc in descs]}")
    return [DataDesc(desc.name, shape, desc.dtype, desc.layout)
            for desc, shape in zip(descs, shapes, strict=True)]


def with_samples(descs: Descs, count: int) -> list[DataDesc]:
    """Descriptions of inputs, with `count` samples."""
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
