"""Shapes, types and dynamic axes of all tensors of a graph.

Nothing says directly which axes of intermediate tensors follow a dynamic axis of an input.  They
are found by inference: shapes are inferred again with the dynamic axis twice as long, and an axis
whose size changes is dynamic.  A size that parameters fix contradicts the longer axis, so the axis
is not dynamic at all: channels are not, the batch is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from ...base import DType, MXNetError
from ...graph import Entry, Graph
from ...ops.op import Spec
from ...ops.param import Shape
from ...ops.shape import is_known
from ...passes.infer import Variable, infer_shape, infer_type, made_shapes

__all__ = ["DynamicAxes", "Origin", "TensorInfo", "axis_groups", "doubled_shapes",
           "infer_graph_specs", "infer_tensors"]

DynamicAxes = Mapping[str, Mapping[int, str | None]]
"""Input -> its dynamic axes, each with its name in the file or None."""
Origin: TypeAlias = "tuple[str, int, str | None]"
"""An input, one of its dynamic axes, and the name of that in the file."""


class TensorInfo(NamedTuple):
    """Facts about a tensor at the time of export."""

    shape: Shape
    dtype: DType
    dynamic: frozenset[int] = frozenset()
    """Axes whose size only the run tells."""
    names: tuple[tuple[int, str], ...] = ()
    """Names of dynamic axes in the file."""
    followed: tuple[tuple[int, tuple[str, int]], ...] = ()
    """Dynamic axes that are a multiple of one axis of an input, each with that input and axis."""

    @property
    def dims(self) -> list[int | str | None]:
        """Sizes as files declare them."""
        names = dict(self.names)
        return [names.get(axis) if axis in self.dynamic else size
                for axis, size in enumerate(self.shape)]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def axis(self, axis: int) -> int:
        """An axis that may count from the last one, from the first."""
        return axis % max(self.ndim, 1)


def infer_graph_specs(graph: Graph, known: Mapping[str, Spec] | Mapping[Entry, Spec]
                      ) -> list[Spec]:
    """Shape and type of every entry, from those that are known by name or entry.

    Raises MXNetError, naming variables of which something does not follow.
    """
    shapes = _shapes(graph, {name: spec.shape for name, spec in known.items()})
    types = infer_type(graph, {name: spec.dtype for name, spec in known.items()})
    unknown = [node.name for node in graph.variables
               if not is_known(shapes[graph.eid(Entry(node))])]
    if unknown:
        raise MXNetError(f"export_model: the shapes of {', '.join(unknown[:20])} do not follow "
                         f"from those given ({', '.join(map(str, known))}); pass the shapes of all "
                         "inputs in in_shapes, and all parameters in params")
    for node in graph.nodes:
        for eid in graph.output_eids(node)[:node.num_visible]:
            if not is_known(shapes[eid]) or types[eid] is None:
                raise MXNetError(f"export_model: the shape or type of {node.describe()} does not "
                                 "follow from those of the inputs")
    return [Spec(shape or (), dtype or np.dtype(np.float32))
            for shape, dtype in zip(shapes, types, strict=True)]


def _shapes(graph: Graph, known: Mapping[Variable, Shape]) -> list[Shape | None]:
    if any(0 in shape for shape in known.values()):
        return made_shapes(graph, infer_shape(graph, known, lengths=True))
    return infer_shape(graph, known)


def infer_tensors(graph: Graph, known: Mapping[str, Spec], dynamic: DynamicAxes,
                  required: bool) -> list[TensorInfo]:
    """Information about every entry, from the specs of inputs and parameters.

    An axis that cannot be dynamic is static, or an error if it is `required`.
    """
    specs = infer_graph_specs(graph, known)
    shapes = {name: spec.shape for name, spec in known.items()}
    longer: list[tuple[list[Shape | None], Origin]] = []
    for together in axis_groups(dynamic):
        try:
            doubles = _shapes(graph, doubled_shapes(shapes, together))
            _check_ranks(graph, specs, doubles)
            longer.append((doubles, together[0]))
        except MXNetError as error:
            if required:
                shown = ", ".join(f"axis {axis} of {name}" for name, axis, _ in together)
                raise MXNetError(f"export_model: {shown} cannot be dynamic, its size is fixed by "
                                 f"the graph: {error}") from None
    return [_tensor_info(spec, [(doubles[eid] or spec.shape, origin) for doubles, origin in longer])
            for eid, spec in enumerate(specs)]


def _check_ranks(graph: Graph, specs: Sequence[Spec], shapes: Sequence[Shape | None]) -> None:
    """MXNetError if tensors have other ranks than for other sizes."""
    for node in graph.nodes:
        for eid in graph.output_eids(node):
            shape = shapes[eid]
            if shape is not None and len(shape) != len(specs[eid].shape):
                raise MXNetError(f"{node.describe()}: its output would have shape {shape} instead "
                                 f"of {specs[eid].shape}")


def _tensor_info(spec: Spec, longer: Sequence[tuple[Shape, Origin]]) -> TensorInfo:
    """Information about a tensor of known shape and type.

    `longer` has, for every group of dynamic axes, the shape of the tensor where they are twice as
    long, and the first axis of the group.
    """
    changes = [(axis, new == 2 * old, origin) for shape, origin in longer
               for axis, (old, new) in enumerate(zip(spec.shape, shape, strict=True)) if new != old]
    times = Counter(axis for axis, _, _ in changes)
    doubled = {axis: origin for axis, twice, origin in changes if twice}
    return TensorInfo(*spec, frozenset(times),
                      tuple((axis, label) for axis, (_, _, label) in doubled.items()
                            if label is not None),
                      tuple((axis, (name, source)) for axis, (name, source, _) in doubled.items()
                            if times[axis] == 1))


def axis_groups(dynamic: DynamicAxes) -> list[list[Origin]]:
    """Axes that change together: first axes, which count samples, and axes of one name."""
    groups: dict[object, list[Origin]] = {}
    for name, axes in dynamic.items():
        for axis, label in axes.items():
            key: object = label if label is not None else "first" if axis == 0 else (name, axis)
            groups.setdefault(("name", label) if label is not None else key, []).append(
                (name, axis, label))
    return list(groups.values())


def doubled_shapes(shapes: Mapping[str, Shape], together: Sequence[Origin]) -> dict[str, Shape]:
    """Shapes of inputs where the axes of a group are twice as long."""
    result = dict(shapes)
    for name, axis, _ in together:
        shape = result[name]
        result[name] = (*shape[:axis], 2 * max(shape[axis], 1), *shape[axis + 1:])
    return result


def alternative_shapes(infos: Sequence[tuple[str, TensorInfo]]) -> dict[str, Shape]:
    """Shapes of the inputs with longer dynamic axes."""
    return {name: tuple(2 * size if axis in info.dynamic else size
                        for axis, size in enumerate(info.shape)) for name, info in infos}
