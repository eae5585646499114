"""The ONNX graph under construction: values, nodes, and how they become a protobuf.

A `Value` is one tensor.  It has no name until the graph is whole, only a hint; names are then given
in the order inputs, outputs, parameters, results of nodes, each unique in the model.  So a tensor
keeps the name that MXNet's users know, and temporary ones make way.  Constants without a hint are
named after the first node that reads them.  Nodes and constants that no output depends on are left
out; the others are written in the order in which the outputs need them, so that the same graph
gives the same bytes, even after it has been imported.

`onnx` is imported by the functions that write protobufs only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from ...base import DType
from ...ops.op import Op, Spec

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto

    from .tensor_info import TensorInfo

__all__ = ["Attribute", "ExportLimits", "GraphBuilder", "OnnxNode", "Tensor", "Value",
           "unique_name"]

Tensor: TypeAlias = np.ndarray  # of any element type
Attribute: TypeAlias = ("int | float | str | Sequence[int] | Sequence[float] | Sequence[str] "
                        "| Tensor | GraphBuilder")
IR_VERSIONS = {17: 8, 18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11, 24: 12, 25: 13, 26: 13, 27: 13}
"""Opset -> version of the format; the first release of ONNX with the opset had it."""
EXTERNAL_DATA_FROM = 2 ** 31 - 2 ** 20
"""Bytes of parameters from which they are stored beside the model: a protobuf holds 2 GiB."""


@dataclass(eq=False)
class Value:
    """A tensor; `array` is the value of a constant."""

    hint: str
    array: Tensor | None = None


@dataclass(eq=False)
class OnnxNode:
    """A node; an input that is None is left out."""

    op_type: str
    inputs: list[Value | None]
    outputs: list[Value]
    attributes: dict[str, Attribute]
    domain: str = ""

    def bodies(self) -> Iterator[GraphBuilder]:
        for attribute in self.attributes.values():
            if isinstance(attribute, GraphBuilder):
                yield attribute

    def read(self) -> list[Value]:
        """Values that the node reads, also inside its bodies."""
        values = [value for value in self.inputs if value is not None]
        for body in self.bodies():
            for inner in body.needed():
                values += inner.read()
            values += [value for value, _ in body.outputs]
        return values


class ExportLimits(Protocol):
    """Limits to the export of a graph that is not trusted; both methods raise an error."""

    def check(self, op: Op, inputs: Sequence[Value], ins: Sequence[TensorInfo],
              outs: Sequence[TensorInfo]) -> None:
        """Check an operator with its inputs and outputs before it is converted."""

    def reserve(self, shape: Sequence[int], dtype: DType) -> None:
        """Count an array that a converter makes."""


@dataclass(eq=False)
class GraphBuilder:
    """A graph, or the body of a loop or branch, whose constants are those of the `root`.

    `opset` is the version of the operators.  `limits` are for a graph that is not trusted; bodies
    have those of the root.
    """

    opset: int
    root: GraphBuilder | None = None
    limits: ExportLimits | None = None
    inputs: list[tuple[Value, TensorInfo]] = field(default_factory=list)
    outputs: list[tuple[Value, TensorInfo]] = field(default_factory=list)
    nodes: list[OnnxNode] = field(default_factory=list)
    constants: dict[tuple[str, tuple[int, ...], bytes], Value] = field(default_factory=dict)
    parameters: list[Value] = field(default_factory=list)

    def body(self) -> GraphBuilder:
        """An empty body inside this graph."""
        return GraphBuilder(self.opset, self.root or self)

    def constant(self, array: Tensor, hint: str = "") -> Value:
        """A constant; equal ones are one value."""
        root = self.root or self
        array = np.ascontiguousarray(array).reshape(array.shape)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in root.constants:
            root.constants[key] = root._stored_value(hint, array)
        return root.constants[key]

    def parameter(self, array: Tensor, name: str) -> Value:
        """A constant with a name of its own."""
        root = self.root or self
        root.parameters.append(root._stored_value(name, array))
        return root.parameters[-1]

    def _stored_value(self, hint: str, array: Tensor) -> Value:
        if self.limits is not None:
            self.limits.reserve(array.shape, array.dtype)
        return Value(hint, array)

    def add(self, op_type: str, inputs: Sequence[Value | None], hints: Sequence[str],
            attributes: dict[str, Attribute], domain: str = "") -> list[Value]:
        """A node; its outputs, one for every hint."""
        operands = list(inputs)
        while operands and operands[-1] is None:
            operands.pop()
        outputs = [Value(hint) for hint in hints]
        self.nodes.append(OnnxNode(op_type, operands, outputs, attributes, domain))
        return outputs

    def needed(self, extra: Sequence[Value] = ()) -> list[OnnxNode]:
        """The nodes that the outputs and other values need, in the order in which they do."""
        makers = {id(value): node for node in self.nodes for value in node.outputs}
        order: list[OnnxNode] = []
        seen: set[int] = set()
        waiting = [iter([*[value for value, _ in self.outputs], *extra])]
        makes: list[OnnxNode] = []
        while waiting:
            value = next(waiting[-1], None)
            if value is None:
                waiting.pop()
                order += [makes.pop()] if makes else []
                continue
            maker = makers.get(id(value))
            if maker is not None and id(maker) not in seen:
                seen.add(id(maker))
                makes.append(maker)
                waiting.append(iter(maker.read()))
        return order

    # -- protobufs --------------------------------------------------------------------------

    def model(self, name: str) -> ModelProto:
        """The protobuf of the model."""
        return self._model(name, ())[0]

    def model_with(self, extra: Sequence[tuple[Value, Spec]]) -> tuple[bytes, dict[int, str]]:
        """The model with more outputs, serialized, and the names of all values by `id`."""
        model, names = self._model("verification", extra)
        return model.SerializeToString(), names

    def _model(self, name: str, extra: Sequence[tuple[Value, Spec]]
               ) -> tuple[ModelProto, dict[int, str]]:
        from onnx import helper, numpy_helper

        from ... import __version__

        graph, initializers, names = self.graph(name, extra)
        graph.initializer.extend(numpy_helper.from_array(array, key)
                                 for key, array in initializers.items())
        domains = {node.domain for node in graph.node} - {""}
        opsets = [helper.make_opsetid("", self.opset),
                  *(helper.make_opsetid(domain, 1) for domain in sorted(domains))]
        model = helper.make_model(graph, opset_imports=opsets, producer_name="nbmod",
                                  producer_version=__version__)
        model.ir_version = IR_VERSIONS[self.opset]
        return model, names

    def graph(self, name: str, extra: Sequence[tuple[Value, Spec]] = ()
              ) -> tuple[GraphProto, dict[str, Tensor], dict[int, str]]:
        """The protobuf without initializers, these by name, and the names of values by `id`."""
        order = self.needed([value for value, _ in extra])
        readers = _first_readers(order)
        names = self._names(order, readers)
        graph = self._proto(name, names, order)
        graph.output.extend(_value_info(names[id(value)], None, spec.dtype)
                            for value, spec in extra)
        arrays = {id(value): value.array for value in self._stored()}
        initializers = {names[key]: array for key in readers
                        if (array := arrays.get(key)) is not None}
        return graph, initializers, names

    def _stored(self) -> list[Value]:
        return [*self.parameters, *self.constants.values()]

    def _names(self, order: Sequence[OnnxNode], readers: Mapping[int, OnnxNode]) -> dict[int, str]:
        """Unique names of all values, by `id`."""
        constants = [value for value in self._stored() if id(value) in readers]
        values = [value for value, _ in (*self.inputs, *self.outputs)]
        values += [value for value in constants if value.hint]
        for node in _all_nodes(order):
            values += [value for body in node.bodies() for value, _ in body.inputs]
            values += node.outputs
        names: dict[int, str] = {}
        taken: dict[str, int] = {}
        for value in values:
            if id(value) not in names:
                names[id(value)] = unique_name(value.hint, taken)
        for value in constants:
            if not value.hint:
                reader = names[id(readers[id(value)].outputs[0])]
                names[id(value)] = unique_name(f"{reader}/constant", taken)
        return names

    def _proto(self, name: str, names: dict[int, str], order: Sequence[OnnxNode]) -> GraphProto:
        from onnx import helper

        nodes = [_node_proto(node, names) for node in order]
        inputs = [_value_info(names[id(value)], info.dims, info.dtype)
                  for value, info in self.inputs]
        outputs = [_value_info(names[id(value)], info.dims, info.dtype)
                   for value, info in self.outputs]
        return helper.make_graph(nodes, name, inputs, outputs)


def _all_nodes(nodes: Sequence[OnnxNode]) -> Iterator[OnnxNode]:
    """Nodes, and before each those of the bodies inside it that are needed."""
    for node in nodes:
        for body in node.bodies():
            yield from _all_nodes(body.needed())
        yield node


def _first_readers(nodes: Sequence[OnnxNode]) -> dict[int, OnnxNode]:
    """The first reader of every value, by `id`, in the order in which they are read."""
    readers: dict[int, OnnxNode] = {}
    for node in _all_nodes(nodes):
        for value in node.read():
            readers.setdefault(id(value), node)
    return readers


def unique_name(hint: str, taken: dict[str, int]) -> str:
    """A name that is not taken yet; now it is.

    With each name `taken` has the number that it was last given: all nodes may have one name.
    """
    base = hint.encode("utf-8", "replace").decode() or "tensor"
    name, count = base, taken.get(base, 0)
    while name in taken:
        count += 1
        name = f"{base}_{count}"
    taken[name] = 0
    taken[base] = count
    return name


def _value_info(name: str, dims: Sequence[int | str | None] | None, dtype: np.dtype[np.generic]
                ) -> ValueInfoProto:
    from onnx import helper

    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), dims)


def _node_proto(node: OnnxNode, names: dict[int, str]) -> NodeProto:
    """A node in a file where values have these names, by `id`."""
    from onnx import helper, numpy_helper

    attributes: dict[str, object] = {}
    for key, attribute in node.attributes.items():
        if isinstance(attribute, GraphBuilder):
            attributes[key] = attribute._proto(f"{node.outputs[0].hint}_{key}", names,
                                              attribute.needed())
        elif isinstance(attribute, np.ndarray):
            attributes[key] = numpy_helper.from_array(attribute)
        else:
            attributes[key] = attribute
    proto = helper.make_node(
        node.op_type, ["" if value is None else names[id(value)] for value in node.inputs],
        [names[id(value)] for value in node.outputs], names[id(node.outputs[0])],
        domain=node.domain or None)
    proto.attribute.extend(helper.make_attribute(key, attributes[key])
                           for key in sorted(attributes))
    return proto
