"""Sizes for the dimensions that a file leaves open, to learn what depends on them.

Tensors of the graph have, besides the shape that the file declares, one for certain sizes of the
open dimensions, and one for each group of axes that change together, with those twice as long.  An
axis is dynamic if its size differs between these, as it is at export.

That decides which nodes an operator of MXNet became, sometimes with the sizes at export, which the
metadata has.  In other files, shapes that are computed from those of tensors have values for each
of these sizes, and tell which axes they are of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

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
from .imported_tensor import FLOAT, MAX_ELEMENTS, DType

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto

__all__ = ["SampleShapes", "infer_samples", "read_samples"]

MAX_GROUPS = 16
"""Of dynamic axes: shapes are inferred for each of them."""
BATCHES = [7 + 2 * group for group in range(MAX_GROUPS)]
LENGTHS = [97 + 2 * group for group in range(MAX_GROUPS)]
"""Sizes where the file has none, which are no multiples of those of other groups."""
Declared: TypeAlias = "list[tuple[int | None, str | None]]"
"""Size, None where it is open, and name of every axis."""


@dataclass(frozen=True)
class SampleShapes:
    """Shapes of the inputs of a file.

    Attributes
    ----------
    inputs : list of dict of str to tuple of int
        Shapes by name: for the sizes, then with each group of dynamic axes twice as long.
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

    def info(self, shapes: Sequence[Shape], dtype: DType | None) -> TensorInfo:
        """What the exporter knew of a tensor with these shapes; TypeError without a type."""
        if dtype is None:
            raise TypeError("the type does not follow")
        return tensor_info(Spec(shapes[0], dtype), list(zip(shapes[1:], self.origins, strict=True)))

    def for_inputs(self, shapes: Sequence[Shape], given: Mapping[str, Shape]) -> Shape | None:
        """The shape of a tensor with these shapes, for inputs of the shapes `given`.

        None if one of its axes is no multiple of an axis of these.
        """
        info, found = self.info(shapes, FLOAT), list(shapes[0])
        followed = dict(info.followed)
        for axis in info.dynamic:
            name, source = followed.get(axis, ("", 0))
            if name not in given:
                return None
            found[axis] = found[axis] // self.inputs[0][name][source] * given[name][source]
        return tuple(found)


def read_samples(model: ModelProto) -> SampleShapes:
    """Shapes of the inputs of a model, whose open dimensions have the sizes of the export.

    Parameters
    ----------
    model : onnx.ModelProto
        The model.  Its metadata is not trusted; sizes that it does not have, or that contradict
        what the inputs declare, are others.

    Returns
    -------
    SampleShapes
    """
    weights = {tensor.name for tensor in model.graph.initializer}
    declared = {value.name: shape for value in model.graph.input
                if value.name not in weights and (shape := _declared(value)) is not None}
    groups = axis_groups({name: {axis: label for axis, (size, label) in enumerate(shape)
                                 if size is None} for name, shape in declared.items()})
    if len(groups) > MAX_GROUPS:
        return SampleShapes()
    sizes = {(name, axis): (BATCHES if together[0][1] == 0 else LENGTHS)[index]
             for index, together in enumerate(groups) for name, axis, _ in together}
    shapes = {name: tuple(sizes[name, axis] if size is None else size
                          for axis, (size, _) in enumerate(shape))
              for name, shape in declared.items()}
    shapes |= {name: shape for name, shape in read_shapes(model).items()
               if _fits(shape, declared.get(name))}
    known = {name: shape or (1,) for name, shape in shapes.items()
             if 0 < size_of(shape) <= MAX_ELEMENTS}
    groups = [kept for together in groups if (kept := [each for each in together
                                                       if each[0] in known])]
    return SampleShapes([known, *(doubled_shapes(known, together) for together in groups)],
                        [together[0] for together in groups])


def _fits(shape: Shape, declared: Declared | None) -> bool:
    """Whether a shape is one that an input declares."""
    return declared is not None and len(shape) == len(declared) and all(
        size in (None, own) for own, (size, _) in zip(shape, declared, strict=True))


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
        given = [None if each is None else each[index] for each in inputs]
        ins, outs = op.infer_shape([*given], [None] * len(op.list_outputs()))
        if any(known not in (None, shape) for known, shape in zip(given, ins, strict=True)):
            raise MXNetError(f"{op.name}: inputs have shapes {given}, expected {ins}")
        found.append([shape for shape in (*ins, *outs) if shape is not None and is_known(shape)])
        if len(found[-1]) < len(ins) + len(outs):
            raise MXNetError(f"{op.name}: its shapes {ins} -> {outs} are not known")
    columns = list(zip(*found, strict=True))
    return columns[:len(inputs)], columns[len(inputs):]
