"""Sizes for the dimensions that a file leaves open, to learn what depends on them.

Tensors of the graph have, besides the shape that the file declares, one for certain sizes of the
open dimensions, and one for each group of axes that change together, with those twice as long.  An
axis is dynamic if its size differs between these, as it is at export.

Shapes that are computed from those of tensors have values for each of these sizes, and tell which
axes they are of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from ...base import MXNetError
from ...ops.op import Op
from ...ops.param import Shape
from ...ops.shape import is_known, size_of
from ..exporting.tensor_info import axis_groups, doubled_shapes
from .imported_tensor import MAX_ELEMENTS

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto

__all__ = ["MAX_GROUPS", "infer_samples", "read_samples"]

MAX_GROUPS = 16
"""Groups of dynamic axes: shapes are inferred for each."""
BATCHES = [7 + 2 * group for group in range(MAX_GROUPS)]
LENGTHS = [97 + 2 * group for group in range(MAX_GROUPS)]
"""Sizes where the file has none, which are no multiples of those of other groups."""
Declared: TypeAlias = "list[tuple[int | None, str | None]]"
"""Size, None where it is open, and name of every axis."""


def read_samples(model: ModelProto) -> list[dict[str, Shape]]:
    """Shapes of the inputs of a model, by name, for certain sizes of its open dimensions.

    The first shapes have these sizes, others twice those of a group of dynamic axes; there are none
    if no dimension is open.
    """
    weights = {tensor.name for tensor in model.graph.initializer}
    declared = {value.name: shape for value in model.graph.input
                if value.name not in weights and (shape := _declared(value)) is not None}
    groups = axis_groups({name: {axis: label for axis, (size, label) in enumerate(shape)
                                 if size is None} for name, shape in declared.items()})
    if not 0 < len(groups) <= MAX_GROUPS:
        return []
    sizes = {(name, axis): (BATCHES if together[0][1] == 0 else LENGTHS)[index]
             for index, together in enumerate(groups) for name, axis, _ in together}
    shapes = {name: tuple(sizes[name, axis] if size is None else size
                          for axis, (size, _) in enumerate(shape))
              for name, shape in declared.items()}
    known = {name: shape or (1,) for name, shape in shapes.items()
             if 0 < size_of(shape) <= MAX_ELEMENTS}
    groups = [group for together in groups if (group := [each for each in together
                                                         if each[0] in known])]
    return [known, *(doubled_shapes(known, together) for together in groups)] if groups else []


def _declared(value: ValueInfoProto) -> Declared | None:
    """The shape of an input; None if it has none."""
    if value.type.WhichOneof("value") != "tensor_type" or not value.type.tensor_type.HasField(
            "shape"):
        return None
    return [(dim.dim_value if dim.HasField("dim_value") else None, dim.dim_param or None)
            for dim in value.type.tensor_type.shape.dim]


def infer_samples(op: Op, inputs: Sequence[tuple[Shape, ...] | None], count: int
                  ) -> tuple[list[tuple[Shape, ...]], list[tuple[Shape, ...]]]:
    """Shapes of the inputs and outputs of an operator, for `count` samples.

    Inputs whose shapes are not known are None; MXNetError if these do not follow.
    """
    samples: list[list[Shape]] = []
    for index in range(count):
        shapes = [None if each is None else each[index] for each in inputs]
        ins, outs = op.infer_shape([*shapes], [None] * len(op.list_outputs()))
        if any(known not in (None, shape) for known, shape in zip(shapes, ins, strict=True)):
            raise MXNetError(f"{op.name}: inputs have shapes {shapes}, expected {ins}")
        samples.append([shape for shape in (*ins, *outs) if shape is not None and is_known(shape)])
        if len(samples[-1]) < len(ins) + len(outs):
            raise MXNetError(f"{op.name}: its shapes {ins} -> {outs} are not known")
    columns = list(zip(*samples, strict=True))
    return columns[:len(inputs)], columns[len(inputs):]
