"""Shapes that the inputs of a file had at export, where it leaves dimensions open.

Which nodes an operator became depends on which axes were dynamic, and sometimes on their sizes.
So tensors of the graph have, besides the shape that the file declares, one for the sizes at export,
and one for each group of axes that change together, with those twice as long.  As at export, an
axis is dynamic if its size differs between these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...base import MXNetError
from ...ops.op import Op, Spec
from ...ops.param import Shape
from ...ops.shape import is_known, size_of
from ..exporting.tensor_info import (
    Origin,
    TensorInfo,
    axis_groups,
    doubled_shapes,
    tensor_info,
)
from ..operator_records import read_shapes
from .imported_tensor import MAX_ELEMENTS, DType

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto

__all__ = ["SampleShapes", "infer_samples", "read_samples"]

MAX_GROUPS = 32
"""Of dynamic axes: shapes are inferred for each of them."""


@dataclass(frozen=True)
class SampleShapes:
    """Shapes of the inputs of a file.

    Attributes
    ----------
    inputs : list of dict of str to tuple of int
        Shapes by name: at export, then with each group of dynamic axes twice as long; empty for
        files without records of operators.
    origins : list of Origin
        The first axis of each group.
    """

    inputs: list[dict[str, Shape]] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.inputs)

    def of_input(self, name: str) -> tuple[Shape, ...]:
        """Shapes of an input, none if they are not known."""
        return tuple(shapes[name] for shapes in self.inputs if name in shapes)

    def info(self, shapes: Sequence[Shape], dtype: DType) -> TensorInfo:
        """What the exporter knew of a tensor with these shapes."""
        return tensor_info(Spec(shapes[0], dtype), list(zip(shapes[1:], self.origins, strict=True)))


def read_samples(model: ModelProto) -> SampleShapes:
    """The shapes of the inputs of a model, as far as it declares them or its metadata has them.

    Parameters
    ----------
    model : onnx.ModelProto
        The model; its metadata is not trusted.

    Returns
    -------
    SampleShapes
    """
    recorded = read_shapes(model)
    weights = {tensor.name for tensor in model.graph.initializer}
    shapes: dict[str, Shape] = {}
    dynamic: dict[str, dict[int, str | None]] = {}
    for value in model.graph.input:
        declared = _declared(value)
        if declared is None or value.name in weights:
            continue
        shape = recorded.get(value.name, tuple(size or 0 for size, _ in declared))
        if len(shape) == len(declared) and 0 < size_of(shape) <= MAX_ELEMENTS and all(
                size in (None, own) for own, (size, _) in zip(shape, declared, strict=True)):
            shapes[value.name] = shape or (1,)
            dynamic[value.name] = {axis: label for axis, (size, label) in enumerate(declared)
                                   if size is None}
    groups = axis_groups(dynamic)
    if len(groups) > MAX_GROUPS:
        return SampleShapes()
    return SampleShapes([shapes, *(doubled_shapes(shapes, together) for together in groups)],
                        [together[0] for together in groups])


def _declared(value: ValueInfoProto) -> list[tuple[int | None, str | None]] | None:
    """Size, None where it is open, and name of every axis; None without a shape."""
    if value.type.WhichOneof("value") != "tensor_type" or not value.type.tensor_type.HasField(
            "shape"):
        return None
    return [(dim.dim_value if dim.HasField("dim_value") else None, dim.dim_param or None)
            for dim in value.type.tensor_type.shape.dim]


def infer_samples(op: Op, inputs: Sequence[tuple[Shape, ...] | None], count: int
                  ) -> tuple[list[tuple[Shape, ...]], list[tuple[Shape, ...]]]:
    """Shapes of the inputs and outputs of an operator, for `count` samples.

    Parameters
    ----------
    op : Op
        The operator.
    inputs : list of (tuple of tuple of int, or None)
        Of each input its shapes for the samples, or None where they are not known.
    count : int
        The number of samples.

    Raises
    ------
    MXNetError
        If the other shapes do not follow.
    """
    found: list[list[Shape]] = []
    for index in range(count):
        ins, outs = op.infer_shape([each and each[index] for each in inputs],
                                   [None] * len(op.list_outputs()))
        found.append([shape for shape in (*ins, *outs) if shape is not None and is_known(shape)])
        if len(found[-1]) < len(ins) + len(outs):
            raise MXNetError(f"{op.name}: its shapes {ins} -> {outs} are not known")
    columns = list(zip(*found, strict=True))
    return columns[:len(inputs)], columns[len(inputs):]
