"""A graph of ONNX becomes a symbol.

Nodes are walked once, and each is folded, converted by the converter of its operator, or replaced
by the nodes of its function.  A node that cannot be converted is noted, and its readers are passed
over; at the end all of them are reported.  What can be computed without the inputs is computed
here (`constant_folding`), as exporters write the arithmetic of shapes as nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...base import FLAG_OF_DTYPE, Forwarded, MXNetError
from ...graph import Entry, Graph, Node, topological_order
from ...ops.param import Shape
from ...ops.shape import PartialShape, size_of
from ...symbol.attribute import AttrScope
from .constant_folding import Folder, TooLarge, fold_samples
from .errors import (
    RULE_ERRORS,
    SHOWN,
    DamagedModel,
    ShapeNeeded,
    UnsupportedModel,
    UnsupportedNode,
    attribute_text,
)
from .function_body import FunctionGraph, FunctionLibrary, check_node, is_function
from .imported_tensor import FLOAT, MAX_ELEMENTS, Array, DType, ImportedTensor
from .node_import import ConverterResult, InnerFailure, NodeImport, Refused, load_importers
from .onnx_file import MAX_DEPTH, count_readers, sorted_nodes
from .own_export import own_model
from .sample_shapes import read_samples
from .tensor_data import TensorReader, element_type

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, ValueInfoProto

__all__ = ["GraphImport"]

MAX_INLINED = 50_000
"""Nodes that functions and graphs of attributes may add to those of the model."""
COMPARED = 8
"""Arrays under one name that a new one is compared with: nodes may all have the same name."""
NATIVE = ("", "ai.onnx")


class _Scope:
    """Names of a graph; those that it does not define are of the graphs around it.

    The value of a name is None where its node could not be converted.
    """

    def __init__(self, outer: _Scope | None = None):
        self.values: dict[str, ImportedTensor | None] = {}
        self.readers: Counter[str] = Counter()
        self.outer = outer
        self.depth: int = outer.depth + 1 if outer else 0

    def find(self, name: str) -> ImportedTensor | None:
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.outer
        raise DamagedModel(f"{name!r} is read, but no node, input or initializer defines it")


class GraphImport:
    """The import of one model.

    `shapes` of inputs replace those of the file; inputs with values in `constants` become
    constants. Parameters are collected in `arguments`, auxiliary states in `states`.
    """

    def __init__(self, model: ModelProto, reader: TensorReader, shapes: Mapping[str, Shape],
                 constants: Mapping[str, Array]):
        self.model, self.reader = model, reader
        self.shapes, self.constants = dict(shapes), dict(constants)
        self.opsets = {entry.domain: entry.version for entry in model.opset_import}
        self.functions = FunctionLibrary(model)
        self.converters = load_importers()
        self.folder = Folder(4 * model.ByteSize())
        self.samples = read_samples(model)
        self.arguments: dict[str, Array] = {}
        self.states: dict[str, Array] = {}
        self.unsupported: list[UnsupportedNode] = []
        self._variables: dict[str, list[Entry]] = {}
        self._names: Counter[str] = Counter()
        self._scope = _Scope()
        self._visited = 0

    # -- the whole graph -----------------------------------------------------------------------

    def run(self) -> list[Entry]:
        """The entries of the outputs; UnsupportedModel if a node cannot be converted."""
        graph = self.model.graph
        self._check_arguments(graph)
        self._scope.readers = count_readers(graph)
        self._initializers(graph)
        for value in graph.input:
            if value.name not in self._scope.values:
                self._scope.values[value.name] = self._input(value)
                self._names[value.name] += 1
        if (own := self._own_export()) is not None:
            return own
        self._nodes(graph)
        entries = [self._output(value) for value in graph.output]
        if self.unsupported:
            raise self._report()
        return [entry for entry in entries if entry is not None]

    def _own_export(self) -> list[Entry] | None:
        """The entries of the outputs if nbmod exported the model."""
        tensors = {name: each for name, each in self._scope.values.items() if each is not None}
        inputs = {value.name: tensors[value.name] for value in self.model.graph.input
                  if value.name in tensors}
        own = None if self.unsupported else own_model(self.model, {
            name: each.array for name, each in tensors.items()
            if each.array is not None and name not in inputs})
        if own is None:
            return None
        arrays = {name: each.array for name, each in inputs.items() if each.array is not None}
        states = {*own.symbol.list_auxiliary_states()}
        for name, array in (own.parameters | arrays).items():
            (self.states if name in states else self.arguments)[name] = array
        scope = AttrScope.current.get(None)
        for node in Graph(own.symbol.entries).nodes:
            if not node.is_variable:
                node.attrs.update(scope)
            else:
                entry = inputs[node.name].entry if node.name in inputs else None
                node.attrs = {} if entry is None else entry.node.attrs
        return own.symbol.entries

    def _report(self) -> MXNetError:
        needed = {name for node in self.unsupported for name in node.inputs}
        report = UnsupportedModel(self.unsupported)
        if all(node.reason.startswith("needs ") for node in self.unsupported):
            return ShapeNeeded(str(report), sorted(needed))
        return report

    def _check_arguments(self, graph: GraphProto) -> None:
        names = [value.name for value in graph.input]
        for what, values in (("shapes", self.shapes), ("constants", self.constants)):
            if unknown := sorted(values.keys() - set(names)):
                raise MXNetError(f"import_model: {what} has {unknown}, but the inputs are {names}")

    def _initializers(self, graph: GraphProto) -> None:
        if graph.sparse_initializer:
            raise MXNetError(f"import_model: {graph.sparse_initializer[0].values.name!r} is a "
                             "sparse initializer; nbmod's arrays are dense")
        for tensor in graph.initializer:
            array = self.reader.read(tensor, f"initializer {tensor.name!r}")
            self._scope.values[tensor.name] = ImportedTensor.constant(array, tensor.name)

    def _input(self, value: ValueInfoProto) -> ImportedTensor | None:
        name = value.name
        if name in self.constants:
            return ImportedTensor.constant(np.asarray(self.constants[name]), name)
        if value.type.WhichOneof("value") != "tensor_type":
            kind = value.type.WhichOneof("value")
            self._note(name, "input", "", f"its type is {kind}; only tensors are supported")
            return None
        where = f"input {name!r}"
        dtype = element_type(value.type.tensor_type.elem_type, where)
        shape = self._declared(value, where)
        if shape is not None and self._is_empty(value):  # there is only one such value
            return ImportedTensor.constant(np.zeros(shape, dtype), name)
        if dtype not in FLAG_OF_DTYPE:
            self._note(name, "input", "", f"element type {dtype} has no counterpart")
            return None
        entry = Entry(Node(None, name, attrs=_declaration(shape, dtype)))
        return ImportedTensor(shape, dtype, entry=entry, carrier=dtype, name=name,
                              samples=tuple(
                                  shapes[name] for shapes in self.samples if name in shapes))

    def _is_empty(self, value: ValueInfoProto) -> bool:
        return value.name not in self.shapes and any(
            dim.HasField("dim_value") and not dim.dim_value
            for dim in value.type.tensor_type.shape.dim)

    def _declared(self, value: ValueInfoProto, where: str) -> PartialShape:
        tensor = value.type.tensor_type
        declared = tuple(dim.dim_value for dim in tensor.shape.dim)
        override = self.shapes.get(value.name)
        shape = declared if override is None else tuple(int(size) for size in override)
        if tensor.HasField("shape") and override is not None and (
                len(shape) != len(declared)
                or any(old and old != new for old, new in zip(declared, shape, strict=True))):
            raise MXNetError(f"import_model: {where}: shapes gives {shape}, but the model declares "
                             f"{declared} (0 is open)")
        if any(size < 0 for size in shape) or size_of(filter(None, shape)) > MAX_ELEMENTS:
            raise DamagedModel(f"{where}: shape {shape[:20]} is not that of an array")
        return shape if override is not None or tensor.HasField("shape") else None

    def _output(self, value: ValueInfoProto) -> Entry | None:
        tensor = self._scope.find(value.name)
        if tensor is None:
            return None
        node = NodeImport(self, "output", 0, value.name, [tensor], {}, [], [])
        try:
            result = node.plain(tensor)
            if result.array is not None and result.name == value.name:  # the name of the output
                result = replace(result, name=f"{value.name}_1")
            if result.array is not None or node.entry(result).node.is_variable:
                result = node.emit("_copy", result)
        except (MXNetError, ValueError) as error:
            self._note(value.name, "output", "", str(error))
            return None
        self._rename(node, [result])
        return result.entry

    # -- nodes -----------------------------------------------------------------------------------

    def _nodes(self, graph: GraphProto) -> None:
        for node in sorted_nodes(graph, self._scope.depth):
            self._define(node)

    def _define(self, node: NodeProto) -> None:
        """Define the outputs of a node."""
        self._visited += 1
        if self._visited > MAX_INLINED + len(self.model.graph.node):
            raise DamagedModel(f"functions and inner graphs have more than {MAX_INLINED} nodes")
        inputs = [self._scope.find(name) if name else None for name in node.input]
        failed = any(name and each is None for name, each in zip(node.input, inputs, strict=True))
        results = self._node(node, inputs, failed)
        for index, name in enumerate(node.output):
            if name:
                self._scope.values[name] = results[index] if index < len(results) else None

    def _node(self, proto: NodeProto, inputs: list[ImportedTensor | None], failed: bool
              ) -> Sequence[ImportedTensor | None]:
        """The outputs of a node; none if it cannot be converted."""
        domain, operator = proto.domain if proto.domain not in NATIVE else "", proto.op_type
        known = not domain and self._is_known(operator)
        if failed and known:
            return []
        label = proto.name or next(filter(None, proto.output), operator)
        shown = f"{domain}.{operator}" if domain else operator
        try:
            node = NodeImport(self, operator, self._opset(domain), label, inputs,
                              self._attributes(proto), list(proto.output), [])
            if (body := self.functions.local(proto)) is not None:
                return self._inline(body, node)
            if domain:
                node.refuse("operators of this domain are not known")
            if not known:
                node.refuse("there is no converter for this operator")
            return self._convert(node, proto)
        except DamagedModel as error:
            raise DamagedModel(f"node {label!r} ({shown}): {error}") from None
        except InnerFailure:
            return []
        except ShapeNeeded as error:
            self._note(label, shown, attribute_text(proto), str(error), error.inputs)
        except RULE_ERRORS as error:
            self._note(label, shown, attribute_text(proto), str(error) or type(error).__name__)
        return []

    def _convert(self, node: NodeImport, proto: NodeProto) -> Sequence[ImportedTensor | None]:
        check_node(proto, node)
        folded = self._fold(node)
        if folded is not None:
            return folded
        converter = self.converters.get(node.operator)
        outputs = None if converter is None else converter(node)
        if outputs is not None:
            result = _as_list(outputs)
            self._rename(node, result)
            self._rename_alias(node, proto, result[0])
            return result
        body = self.functions.standard(proto, node)
        if body is None:
            node.refuse("it has no counterpart with these attributes")
        return self._inline(body, node)

    def _is_known(self, operator: str) -> bool:
        return (operator in self.converters or operator in self.folder
                or is_function(operator, self._opset("")))

    def _fold(self, node: NodeImport) -> list[ImportedTensor] | None:
        try:
            arrays = self.folder.fold(node)
            if arrays is None:
                tensor = fold_samples(self.folder, node, self.num_samples)
                return None if tensor is None else [tensor]
        except TooLarge as error:
            raise DamagedModel(str(error)) from None
        return [ImportedTensor.constant(array, name)
                for array, name in zip(arrays, node.outputs, strict=False)]

    def _opset(self, domain: str) -> int:
        return self.opsets.get(domain, self.opsets.get("ai.onnx", 1) if not domain else 1)

    def _attributes(self, proto: NodeProto) -> dict[str, Forwarded]:
        return {each.name: self._attribute(each, proto) for each in proto.attribute}

    def _attribute(self, attribute: AttributeProto, proto: NodeProto
                   ) -> Forwarded:
        import onnx

        if attribute.type == onnx.AttributeProto.TENSOR or attribute.HasField("t"):
            return self.reader.read(attribute.t, f"attribute {attribute.name!r}")
        try:
            value = onnx.helper.get_attribute_value(attribute)
        except ValueError as error:
            raise DamagedModel(f"attribute {attribute.name!r}: {error}") from None
        if isinstance(value, bytes):
            return value.decode(errors="replace")
        if isinstance(value, (list, tuple)) and value and isinstance(value[0], bytes):
            return [each.decode(errors="replace") for each in value]
        return value

    def _note(self, name: str, operator: str, attributes: str, reason: str,
              inputs: Sequence[str] = ()) -> None:
        self.unsupported.append(
            UnsupportedNode(name, operator, attributes, reason.replace("\n", " "), tuple(inputs)))

    def _rename(self, node: NodeImport, results: Sequence[ImportedTensor | None]) -> None:
        """Give the last node that was emitted the name of the node of the file."""
        last = next((each.entry.node for each in results
                     if each is not None and each.entry is not None), None)
        for each in node.nodes:
            each.name = self._unused(_name_of(node, each) if each is last else each.name)

    def _rename_alias(self, node: NodeImport, proto: NodeProto, result: ImportedTensor | None
                      ) -> None:
        """Give the name of a node that became nothing to the one whose output it returns."""
        if node.nodes or result is None or result.entry is None or result.entry.node.is_variable:
            return
        source = next((name for name, each in zip(proto.input, node.inputs, strict=True)
                       if each is not None and each.entry == result.entry), "")
        producer = result.entry.node
        if self._scope.readers[source] == 1 and producer.num_visible == 1:
            producer.name = self._unused(node.name)

    def _unused(self, name: str) -> str:
        self._names[name] += 1
        count = self._names[name]
        return name if count == 1 else self._unused(f"{name}_{count - 1}")

    # -- graphs inside -----------------------------------------------------------------------------

    def run_subgraph(self, graph: GraphProto, inputs: Sequence[ImportedTensor | None]
                     ) -> list[ImportedTensor]:
        """The outputs of a graph inside of an attribute of a node, on inputs."""
        if len(inputs) != len(graph.input):
            raise Refused(f"graph {graph.name!r} has {len(graph.input)} inputs, but {len(inputs)} "
                          "are given")
        outer = self._scope
        if outer.depth >= MAX_DEPTH:
            raise DamagedModel(f"{MAX_DEPTH} graphs or functions are inside of each other")
        self._scope = _Scope(outer)
        try:
            self._scope.values.update(
                {value.name: each for value, each in zip(graph.input, inputs, strict=True)})
            self._initializers(graph)
            self._nodes(graph)
            outputs = [self._scope.find(value.name) for value in graph.output]
        finally:
            self._scope = outer
        complete = [each for each in outputs if each is not None]
        if len(complete) < len(outputs):
            raise InnerFailure("a node of its graph cannot be imported")
        return complete

    def _inline(self, body: FunctionGraph, node: NodeImport) -> Sequence[ImportedTensor | None]:
        """The outputs of the graph of a function; it sees no names but its inputs."""
        outer, opsets = self._scope, self.opsets
        inputs: list[ImportedTensor | None] = [*node.inputs]
        inputs += [None] * (len(body.graph.input) - len(inputs))
        self._scope = _Scope()
        self._scope.depth = outer.depth
        self.opsets = {**opsets, **body.opsets}
        try:
            outputs = iter(self.run_subgraph(body.graph, inputs))
            return [next(outputs) if name else None for name in node.outputs]
        finally:
            self._scope, self.opsets = outer, opsets

    def reserve(self, shape: Sequence[int], dtype: DType) -> None:
        """Count an array that a converter makes; TooLarge if there is no room for it."""
        self.folder.reserve(shape, dtype)

    def origins(self, tensor: ImportedTensor) -> list[str]:
        """Names of the inputs of the model that a tensor depends on."""
        if tensor.entry is None or len(self.unsupported) >= SHOWN:
            return []  # each search takes time in proportion to the model
        inputs = {value.name for value in self.model.graph.input}
        variables = [node.name for node in topological_order([tensor.entry]) if node.is_variable]
        return [name for name in variables if name in inputs and name not in self.arguments]

    @property
    def num_samples(self) -> int:
        """The number of samples of the shapes of inputs."""
        return len(self.samples)

    # -- variables -------------------------------------------------------------------------------

    def variable(self, name: str, array: Array) -> Entry:
        """A variable with this value, an argument."""
        return self._variable(name, array, self.arguments)

    def state(self, name: str, array: Array) -> Entry:
        """A variable with this value, an auxiliary state."""
        return self._variable(name, array, self.states)

    def _variable(self, name: str, array: Array, where: dict[str, Array]) -> Entry:
        """One variable for all nodes that read the same values under a name."""
        array = array if array.shape else array.reshape(1)
        known = self._variables.setdefault(name, [])
        for entry in known[-COMPARED:]:
            other = where.get(entry.node.name)
            if other is not None and other.dtype == array.dtype and np.array_equal(other, array):
                return entry
        entry = Entry(Node(None, self._unused(name)))
        where[entry.node.name] = array
        known.append(entry)
        return entry


def _declaration(shape: PartialShape, dtype: DType) -> dict[str, str]:
    """Attributes of an input whose shape is known, which binding to other shapes overrides."""
    attrs = {} if dtype == FLOAT else {"__dtype__": str(FLAG_OF_DTYPE[dtype])}
    if shape is not None and 0 not in shape:
        attrs["__shape__"] = str(shape or (1,))
    return attrs


def _name_of(node: NodeImport, op_node: Node) -> str:
    """The name of a node of the file, or what the names of its outputs begin with in nbmod."""
    parts = op_node.required_op.list_outputs()[:op_node.num_visible]
    base = node.name.removesuffix(f"_{parts[0]}")
    named = [f"{base}_{part}" for part in parts][:len(node.outputs)]
    return base if op_node.num_visible > 1 and named == node.outputs else node.name


def _as_list(result: ConverterResult) -> list[ImportedTensor | None]:
    return [result] if isinstance(result, ImportedTensor) else [*result]
