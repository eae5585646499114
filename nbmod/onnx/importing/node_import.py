"""Converters: how a node of ONNX becomes nodes of nbmod's graph.

    @imports("Flatten")
    def flatten(node: NodeImport) -> ImportedTensor:
        return node.emit("Flatten", node.data)

A converter reads the inputs and attributes of its node, emits nodes, and returns the tensor of the
first output, or a list for several.  Shapes and types are inferred as nodes are emitted, so all of
them are known to the next converter, but for dimensions that the model leaves open.  What a
converter cannot express it refuses (`node.refuse`); refusals are reported together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, NoReturn, Protocol, TypeAlias

import numpy as np

from ...base import FLAG_OF_DTYPE, Forwarded, MXNetError
from ...graph import Entry, Node
from ...ops import OPS
from ...ops.op import Op
from ...ops.param import Shape
from ...ops.shape import PartialShape, normalize_axis, size_of
from ...symbol.attribute import AttrScope
from ...symbol.compose import make_node
from ...symbol.symbol import Symbol
from ..exporting.converter import import_modules
from .errors import RULE_ERRORS, ShapeNeeded
from .imported_tensor import INT64, MAX_ELEMENTS, Array, DType, ImportedTensor
from .sample_shapes import infer_samples

if TYPE_CHECKING:
    from onnx import GraphProto

__all__ = ["IMPORTERS", "ConverterResult", "GraphOwner", "InnerFailure", "NodeConverter",
           "NodeImport", "Refused", "imports", "load_importers"]

ConverterResult: TypeAlias = "ImportedTensor | Sequence[ImportedTensor | None]"
NodeConverter: TypeAlias = "Callable[[NodeImport], ConverterResult | None]"
"""Returns None to have the node replaced by the function that defines its operator."""

IMPORTERS: dict[str, NodeConverter] = {}
"""Name of the operator of ONNX -> its converter; `load_importers` fills it."""


def imports(*names: str) -> Callable[[NodeConverter], NodeConverter]:
    """Register a converter for the operators `names` of ONNX."""

    def register(function: NodeConverter) -> NodeConverter:
        IMPORTERS.update(dict.fromkeys(names, function))
        return function

    return register


@cache
def load_importers() -> Mapping[str, NodeConverter]:
    """All converters by name of their operator."""
    from . import converters

    import_modules(converters)
    return IMPORTERS


class Refused(MXNetError):
    """A node that nbmod has no equivalent for."""


class InnerFailure(Refused):
    """A node whose graph has nodes that cannot be imported, which are reported themselves."""


class GraphOwner(Protocol):
    """The import that a node belongs to, as far as the node needs it."""

    @property
    def num_samples(self) -> int:
        """The number of samples of the shapes of inputs (`sample_shapes`)."""

    def variable(self, name: str, array: Array) -> Entry:
        """A variable of nbmod's graph with this value, an argument."""

    def state(self, name: str, array: Array) -> Entry:
        """A variable of nbmod's graph with this value, an auxiliary state."""

    def reserve(self, shape: Sequence[int], dtype: DType) -> None:
        """Count an array that a converter makes; an error if there is no room for it."""

    def origins(self, tensor: ImportedTensor) -> list[str]:
        """Names of the inputs of the model that a tensor depends on."""

    def run_subgraph(self, graph: GraphProto, inputs: Sequence[ImportedTensor | None]
                     ) -> list[ImportedTensor]:
        """The outputs of a graph inside of an attribute, on inputs."""


@dataclass(eq=False)
class NodeImport:
    """One node of the file while it is imported.

    Attributes
    ----------
    owner : GraphOwner
        The import it belongs to.
    operator : str
        Name of the operator.
    opset : int
        Version of the operator set.
    name : str
        Name of the node.
    inputs : list of ImportedTensor or None
        Inputs; None for those that are left out.
    attributes : dict
        Attributes by name: numbers, text, arrays, graphs, or lists of these.
    outputs : list of str
        Names of the outputs; '' for those that are left out.
    nodes : list of Node
        Nodes emitted so far.
    """

    owner: GraphOwner
    operator: str
    opset: int
    name: str
    inputs: list[ImportedTensor | None]
    attributes: dict[str, Forwarded]
    outputs: list[str]
    nodes: list[Node]

    # -- what the node has ------------------------------------------------------------------

    @property
    def data(self) -> ImportedTensor:
        """The first input."""
        return self.input(0)

    def input(self, index: int) -> ImportedTensor:
        """An input that must be there."""
        tensor = self.optional(index)
        if tensor is None:
            self.refuse(f"input {index} is missing")
        return tensor

    def optional(self, index: int) -> ImportedTensor | None:
        """An input, or None if it is left out."""
        return self.inputs[index] if index < len(self.inputs) else None

    def wants(self, index: int) -> bool:
        """Whether an output is used."""
        return index < len(self.outputs) and bool(self.outputs[index])

    def attribute(self, key: str, default: Forwarded = None
                  ) -> Forwarded:
        """An attribute, or `default` where the node has none."""
        return self.attributes.get(key, default)

    def integers(self, key: str) -> tuple[int, ...] | None:
        """An attribute of integers."""
        values = self.attributes.get(key)
        return None if values is None else tuple(int(each) for each in values)

    def static(self, tensor: ImportedTensor | None = None) -> Shape:
        """The whole shape of a tensor (the first input); ShapeNeeded if a dimension is open."""
        tensor = self.data if tensor is None else tensor
        if tensor.shape is None or not tensor.is_static:
            raise ShapeNeeded(f"needs the whole shape of its input, but only {tensor.shape} is "
                              "known (0 is open); pass shapes={\"input\": (1, 3, 224, 224)}")
        return tensor.shape

    def rank(self, tensor: ImportedTensor | None = None) -> int:
        """The rank of a tensor (the first input)."""
        tensor = self.data if tensor is None else tensor
        if tensor.shape is None:
            raise ShapeNeeded("needs the rank of its input; pass shapes={\"input\": (...)}")
        return len(tensor.shape)

    def axis(self, default: int | None = None, tensor: ImportedTensor | None = None) -> int:
        """The attribute `axis`, counted from the front."""
        return self.normal_axis(int(self.attribute("axis", default)), tensor)

    def normal_axis(self, axis: int, tensor: ImportedTensor | None = None) -> int:
        """An axis counted from the front."""
        return normalize_axis(axis, self.rank(tensor))

    def constant(self, index: int, key: str = "") -> Array | None:
        """The values of an input that must be constant, or those of attribute `key`, or None.

        Old opsets have as attributes what newer ones have as inputs.
        """
        if key in self.attributes:
            return np.asarray(self.attributes[key])
        tensor = self.optional(index)
        if tensor is not None and tensor.values:
            raise ShapeNeeded(f"needs the values of input {index}, which follow from dimensions "
                              "that are open; pass shapes={\"input\": (1, 3, 224, 224)}")
        if tensor is not None and tensor.array is None:
            origins = self.owner.origins(tensor)
            raise ShapeNeeded(
                f"needs the values of input {index}, which depends on "
                f"{', '.join(origins) or 'constants that are not folded'}, since "
                "shapes are fixed when a model is imported; pass constants={name: values} for "
                "such an input", origins)
        return None if tensor is None else tensor.array

    def open_sizes(self, index: int) -> list[int | None] | None:
        """Sizes that input `index` has for a new shape of the first one, if open ones are in them.

        None are sizes that the first input has along the same axis, and -1 others that are open.
        """
        tensor = self.optional(index)
        if tensor is None or not tensor.values:
            return None
        columns = list(zip(*(each.tolist() for each in tensor.values), strict=True))
        own = list(zip(*self.data.samples, strict=True))
        return [None if sizes in own[axis:axis + 1] else sizes[0] if len({*sizes}) == 1 else -1
                for axis, sizes in enumerate(columns)]

    def integer_list(self, index: int, key: str = "") -> tuple[int, ...] | None:
        """`constant` as integers."""
        values = self.constant(index, key)
        return None if values is None else tuple(int(each) for each in values.ravel())

    def refuse(self, reason: str) -> NoReturn:
        """Report that this node has no equivalent."""
        raise Refused(reason)

    # -- what it becomes -------------------------------------------------------------------------

    def emit(self, op: str, *inputs: ImportedTensor, **params: object) -> ImportedTensor:
        """The first output of a new node."""
        return self.emit_all(op, *inputs, **params)[0]

    def emit_all(self, op: str, *inputs: ImportedTensor, **params: object) -> list[ImportedTensor]:
        """All visible outputs of a new node."""
        symbols = [Symbol([self.entry(each)]) for each in inputs]
        node = make_node(OPS.find(op), f"{self.name}_{op.strip('_').lower()}{len(self.nodes)}",
                         {**params, **AttrScope.current.get(None)}, symbols)
        self.nodes.append(node)
        required = node.required_op
        shapes = [each.inner_shape for each in inputs]
        types = [each.inner_dtype for each in inputs]
        _, out_shapes = required.infer_shape(shapes, [None] * node.num_outputs)
        _, out_types = required.infer_type(list(types), [None] * node.num_outputs)
        samples = self._samples(required, inputs)
        return [replace(self._made(Entry(node, i), out_shapes[i], out_types[i] or types[0]),
                        samples=samples[i] if samples else ()) for i in range(node.num_visible)]

    def _samples(self, op: Op, inputs: Sequence[ImportedTensor]) -> list[tuple[Shape, ...]]:
        """Shapes of each output for samples of the inputs; empty if they are not known."""
        count = self.owner.num_samples
        try:
            return infer_samples(op, [each.samples_of(count) for each in inputs], count)[1]
        except RULE_ERRORS:  # sizes that a file gives without reason
            return []

    def _made(self, entry: Entry, shape: PartialShape, dtype: DType) -> ImportedTensor:
        if shape is not None and size_of(filter(None, shape)) > MAX_ELEMENTS:
            self.refuse(f"its output would have shape {shape}")
        return ImportedTensor(shape, np.dtype(dtype), entry=entry, carrier=np.dtype(dtype))

    def entry(self, tensor: ImportedTensor) -> Entry:
        """Where nbmod's graph has a tensor; a constant becomes a parameter."""
        if tensor.entry is not None:
            return tensor.entry
        array = tensor.array
        if array is None:
            raise ShapeNeeded(f"needs the values of {tensor.name!r}, which follow from dimensions "
                              "that are open; pass shapes={\"input\": (1, 3, 224, 224)}")
        if array.dtype not in FLAG_OF_DTYPE:
            self.refuse(f"element type {array.dtype} has no counterpart")
        if not array.size:
            self.refuse("tensors without elements have no counterpart")
        return self.owner.variable(tensor.name or f"{self.name}_constant", array)

    def new_constant(self, values: Forwarded, dtype: DType
                     ) -> ImportedTensor:
        """A constant that the file does not have."""
        return ImportedTensor.constant(np.asarray(values, dtype))

    def filled(self, shape: Shape, value: float, dtype: DType) -> ImportedTensor:
        """A constant of one value; an error if it would be too large for the file."""
        self.owner.reserve(shape, dtype)
        return ImportedTensor.constant(np.full(shape, value, dtype))

    def empty(self, shape: Shape, dtype: DType) -> ImportedTensor:
        """A constant without elements, which only joins and folding can use."""
        return ImportedTensor.constant(np.zeros(shape, dtype))

    # -- small parts of many converters ----------------------------------------------------------

    def cast(self, tensor: ImportedTensor, dtype: DType) -> ImportedTensor:
        """A tensor whose elements have this type in nbmod's graph, too."""
        if tensor.array is not None:
            return replace(ImportedTensor.constant(tensor.array.astype(dtype)),
                           name=tensor.name if tensor.dtype == dtype else "")
        if dtype not in FLAG_OF_DTYPE:
            self.refuse(f"element type {dtype} has no counterpart")
        if tensor.inner_dtype == dtype:
            return tensor.typed(dtype)
        return self.emit("Cast", tensor, dtype=dtype.name).shaped(tensor.shape)

    def plain(self, tensor: ImportedTensor) -> ImportedTensor:
        """A tensor that its own type carries."""
        return self.cast(tensor, tensor.dtype)

    def reshape(self, tensor: ImportedTensor, shape: Shape) -> ImportedTensor:
        """A tensor of another shape; () for a scalar."""
        if tensor.inner_shape == (shape or (1,)):
            return tensor.shaped(shape)
        if tensor.array is not None:
            return ImportedTensor.constant(tensor.array.reshape(shape))
        result = self.emit("Reshape", tensor, shape=shape or (1,))
        return replace(result, shape=shape, dtype=tensor.dtype)

    def transpose(self, tensor: ImportedTensor, axes: Sequence[int]) -> ImportedTensor:
        """A tensor with its axes in another order."""
        if list(axes) == sorted(axes):
            return tensor
        if tensor.array is not None:
            return ImportedTensor.constant(tensor.array.transpose(axes))
        return self.emit("transpose", tensor, axes=tuple(axes)).typed(tensor.dtype)

    def indices(self, tensor: ImportedTensor, size: int) -> ImportedTensor:
        """Indices of an axis of length `size`, of which negative ones count from the end."""
        if tensor.array is not None:
            array = np.where(tensor.array < 0, tensor.array + size, tensor.array)
            same = (tensor.array >= 0).all()
            return replace(ImportedTensor.constant(array.astype(INT64)),
                           name=tensor.name if same else "")
        tensor = self.plain(tensor)
        negative = self.emit("_lesser_scalar", tensor, scalar=0)
        shift = self.emit("_mul_scalar", negative, scalar=size)
        return self.emit("broadcast_add", tensor, shift).shaped(tensor.shape)
