"""Nodes that were one operator of MXNet become that operator again.

The metadata of a file says which nodes (`operator_records`), but a file is not trusted: the
operator is exported again for the inputs that it has here, and only if that gives exactly the nodes
of the file, it replaces them.  The inputs are those of the export again (`sample_shapes`), since
the nodes depend on which axes are dynamic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from ...base import MXNetError
from ...graph import Entry, Node
from ...ops import OPS
from ...ops.op import Op
from ...ops.param import Shape
from ...ops.shape import size_of
from ..exporting.converter import (
    CONVERTERS,
    RECORDED_IF_DYNAMIC,
    UNRECORDED,
    NodeExport,
    as_list,
    load_converters,
)
from ..exporting.onnx_graph import GraphBuilder, OnnxNode, Value, node_proto
from ..exporting.tensor_info import TensorInfo
from ..operator_records import OperatorRecord
from .errors import RULE_ERRORS
from .imported_tensor import FLOAT, INT64, Array, DType, ImportedTensor
from .sample_shapes import SampleShapes, infer_samples

if TYPE_CHECKING:
    from onnx import NodeProto

__all__ = ["FileContext", "Part", "Restored", "ordered_parts", "restored"]

LARGEST, LONGEST = 2 ** 27, 2 ** 22
"""Elements of an operator's inputs and outputs together, and of an axis: converters make constants
for axes, such as positions."""
Find: TypeAlias = Callable[[str], "ImportedTensor | None"]
Reserve: TypeAlias = Callable[[Sequence[int], DType], None]


@dataclass(eq=False)
class Part:
    """A node of a file, or the nodes that are recorded as one operator, producers first."""

    nodes: list[NodeProto]
    record: OperatorRecord | None = None

    @property
    def read(self) -> set[str]:
        """Names that it needs."""
        recorded = self.record.inputs if self.record is not None else []
        return {name for node in self.nodes for name in node.input} | set(recorded)


# ---------------------------------------------------------------------------- from nodes to parts

def ordered_parts(nodes: Sequence[NodeProto], records: Sequence[OperatorRecord],
                  readers: Counter[str]) -> list[Part]:
    """The nodes of a graph as parts, producers before consumers.

    Parameters
    ----------
    nodes : list of onnx.NodeProto
        Sorted.
    records : list of OperatorRecord
        What the file says of them.
    readers : Counter of str
        How often each name is read.

    Returns
    -------
    list of Part
    """
    single = [Part([node]) for node in nodes]
    if not records:
        return single
    owner = list(single)
    producers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
    tried: set[int] = set()
    for record in records:
        members = _members(record, nodes, producers, tried)
        part = Part([nodes[index] for index in sorted(members)], record)
        if _is_closed(part, record, readers):
            for index in members:
                owner[index] = part
    maker = {name: owner[index] for name, index in producers.items()}
    parts = {id(part): part for part in owner}
    needs = {key: {id(maker[name]) for name in part.read if name in maker} - {key}
             for key, part in parts.items()}
    try:
        return [parts[key] for key in TopologicalSorter(needs).static_order()]
    except CycleError:  # a record is wrong
        return single


def _members(record: OperatorRecord, nodes: Sequence[NodeProto], producers: Mapping[str, int],
             tried: set[int]) -> set[int]:
    """The nodes from the outputs back to the inputs; each is tried once, none if one was before."""
    found: set[int] = set()
    inputs = set(record.inputs)
    waiting = [name for name in record.outputs if name]
    while waiting:
        name = waiting.pop()
        index = None if name in inputs else producers.get(name)
        if index is None or index in found:
            continue
        if index in tried:
            return set()
        tried.add(index)
        found.add(index)
        waiting += nodes[index].input
    return found


def _is_closed(part: Part, record: OperatorRecord, readers: Counter[str]) -> bool:
    """Whether nodes outside read nothing but the outputs."""
    inside = Counter(name for node in part.nodes for name in node.input)
    outputs = set(record.outputs)
    return all(readers[name] == inside[name] for node in part.nodes for name in node.output
               if name not in outputs)


# ------------------------------------------------------------------------------- is it so indeed?

class FileContext(NamedTuple):
    """What an operator needs of the file that it is in.

    Parameters
    ----------
    find : callable
        The tensor of a name.
    opset : int
        Version of the operators of the file.
    samples : SampleShapes
        Shapes of its inputs.
    reserve : callable
        Counts an array that is made; an error if there is no room for it.
    """

    find: Find
    opset: int
    samples: SampleShapes
    reserve: Reserve

    def inputs_of(self, part: Part) -> list[tuple[Value, TensorInfo]]:
        """The inputs of the file that nodes read."""
        known = self.samples.inputs[0] if self.samples else {}
        found = [(name, tensor) for name in sorted(part.read & known.keys())
                 if (tensor := self.find(name)) is not None and tensor.samples]
        return [(Value(name), self.samples.info(tensor.samples, tensor.dtype))
                for name, tensor in found]


@dataclass(eq=False)
class _Operator:
    """An operator for certain inputs, as it is exported."""

    record: OperatorRecord
    op: Op
    ins: list[TensorInfo]
    outs: list[TensorInfo]
    samples: list[tuple[Shape, ...]]
    """Shapes of the outputs for samples of the inputs."""
    file_inputs: list[tuple[Value, TensorInfo]]
    """Those that the nodes read."""
    opset: int

    def export(self, arrays: Sequence[Array | None]) -> _Export:
        """Its nodes, where inputs have these values, None for those that are computed."""
        named = {name: Value(name, array)
                 for name, array in zip(self.record.inputs, arrays, strict=True)}
        given = [named[name] if name else Value("", array)
                 for name, array in zip(self.record.inputs, arrays, strict=True)]
        builder = GraphBuilder(self.opset, inputs=self.file_inputs)
        call = NodeExport(self.op, self.record.name, given, self.ins, self.outs, builder)
        return _Export(builder, given, as_list(CONVERTERS[self.op.name](call)))


@dataclass(eq=False)
class _Export:
    """Nodes of an operator, which are compared with those of a file."""

    builder: GraphBuilder
    inputs: list[Value]
    outputs: list[Value]
    names: dict[int, str] = field(default_factory=dict)
    """The names that values must have in the file, by `id`."""
    pairs: list[tuple[OnnxNode, NodeProto]] = field(default_factory=list)

    def matches(self, part: Part, record: OperatorRecord) -> bool:
        """Whether the nodes of the file are connected as these; goes from outputs to inputs."""
        makers = {id(value): node for node in self.builder.nodes for value in node.outputs}
        producers = {name: node for node in part.nodes for name in node.output if name}
        self.names = {id(value): name
                      for value, name in zip(self.inputs, record.inputs, strict=True) if name}
        self.names |= {id(value): value.hint for value, _ in self.builder.inputs}
        known = frozenset(self.names)
        absent = {id(value) for value in self.inputs} - known
        seen: set[int] = set()
        waiting = [(value, name) for value, name in zip(self.outputs, record.outputs, strict=True)
                   if name]
        while waiting:
            value, name = waiting.pop()
            if not name or id(value) in absent or (
                    self.names.setdefault(id(value), name) != name):
                return False
            maker, node = makers.get(id(value)), producers.get(name)
            if maker is None and value.array is None and id(value) not in known:
                return False
            if maker is None or id(maker) in seen:
                continue
            if node is None or (len(node.input), len(node.output)) != (
                    len(maker.inputs), len(maker.outputs)):
                return False
            seen.add(id(maker))
            self.pairs.append((maker, node))
            waiting += zip(maker.outputs, node.output, strict=True)
            waiting += [(each, name) for each, name in zip(maker.inputs, node.input, strict=True)
                        if each is not None]
        return len(self.pairs) == len(part.nodes)

    def constants(self, find: Find) -> list[tuple[Array, Array]]:
        """Those that the nodes read, each with the one of the file."""
        made = [*self.builder.constants.values(), *self.builder.parameters]
        return [(value.array, _values(find(self.names[id(value)])))
                for value in made if value.array is not None and id(value) in self.names]

    def is_exact(self, find: Find) -> bool:
        """Whether nodes and constants of the file are equal to these."""
        for maker, node in self.pairs:
            proto = node_proto(maker, self.names)
            proto.name = node.name
            if proto != node:
                return False
        return all((given.dtype, given.shape, given.tobytes()) == (
            array.dtype, array.shape, array.tobytes()) for array, given in self.constants(find))


class Restored(NamedTuple):
    """The inputs of an operator, and shapes of its outputs for samples of those of the file."""

    inputs: list[ImportedTensor]
    samples: list[tuple[Shape, ...]]


def restored(part: Part, context: FileContext) -> Restored | None:
    """The inputs of the operator that nodes are recorded as, or None if they are not that.

    Parameters
    ----------
    part : Part
        The nodes, with their record.
    context : FileContext
        The file.

    Returns
    -------
    Restored or None
        A parameter that the file has in another form is as it was again.
    """
    record = part.record
    assert record is not None
    known = load_converters().keys() - UNRECORDED
    if record.operator not in known:
        return None
    find = context.find
    try:
        given = [find(name) if name else None for name in record.inputs]
        operator = _operator(part, record, given, context)
        if operator is None:
            return None
        if record.packed:
            index = _packed_index(record)
            context.reserve(operator.ins[index].shape, np.dtype(np.float64))
            given[index] = _unpacked(operator, part, given, find)
        if any((tensor := given[index]) is None or tensor.array is None
               for index in operator.op.aux_indices()):
            return None
        inputs = [each or _zeros(record, operator.ins[index]) for index, each in enumerate(given)]
        again = operator.export([tensor.array for tensor in inputs])
        for value in again.builder.constants.values():
            assert value.array is not None
            context.reserve(value.array.shape, value.array.dtype)
        return Restored(inputs, operator.samples) if again.matches(part, record) and (
            again.is_exact(find)) else None
    except RULE_ERRORS:
        return None  # nodes of something else, or attributes that the operator does not have


def _operator(part: Part, record: OperatorRecord, given: Sequence[ImportedTensor | None],
              context: FileContext) -> _Operator | None:
    """The operator, if its inputs are known and of a size that it may be exported for."""
    for name, tensor in zip(record.inputs, given, strict=True):
        if name and (tensor is None or tensor.dtype != tensor.inner_dtype):
            return None
    op = OPS[record.operator].from_attrs(record.attributes, record.name)
    if (len(op.list_inputs()) != len(given) or op.runs_subgraphs
            or getattr(op, "num_layers", 1) > len(part.nodes)):  # a node each, at least
        return None
    samples, count = context.samples, len(context.samples)
    try:
        ins, outs = infer_samples(op, _samples(record, given, count), count)
    except MXNetError:
        if given:
            raise
        ins, outs = [], [tuple(_created_shape(part, context.find, i) for i in range(count))]
    common = next((each.dtype for each in given if each is not None), FLOAT)
    in_types, out_types = op.infer_type([common if each is None else each.dtype for each in given],
                                        [None] * len(outs))
    operator = _Operator(record, op, list(map(samples.info, ins, in_types)),
                         list(map(samples.info, outs, out_types)), outs,
                         context.inputs_of(part), context.opset)
    return operator if _is_small(operator) else None


def _is_small(operator: _Operator) -> bool:
    """Whether converters may make constants of these sizes."""
    record, op = operator.record, operator.op
    infos = [*operator.ins, *operator.outs]
    if op.name in RECORDED_IF_DYNAMIC and not any(info.dynamic for info in infos):
        return False
    packed = _packed_index(record) if record.packed else -1
    shown = [info.shape for index, info in enumerate(operator.ins) if index != packed]
    shown += [info.shape for info in operator.outs[:op.num_visible]]
    return sum(map(size_of, shown)) <= LARGEST and all(
        size <= LONGEST for shape in shown for size in shape)


def _samples(record: OperatorRecord, given: Sequence[ImportedTensor | None], count: int
             ) -> list[tuple[Shape, ...] | None]:
    """Shapes of the inputs; None for the parameter that the file has in another form."""
    absent = (None if shape is None else (tuple(shape),) * count for shape in record.shapes)
    return [next(absent) if each is None else each.samples_of(count) for each in given]


def _created_shape(part: Part, find: Find, index: int) -> Shape:
    """The shape of what ConstantOfShape makes, for a sample of the inputs."""
    from onnx import helper

    values: dict[str, Array] = {}
    for node in part.nodes:
        attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
        if node.op_type == "ConstantOfShape":
            return tuple(values[node.input[0]].tolist())
        if node.op_type == "Shape":
            source = find(node.input[0])
            shape = source.samples[index] if source is not None else ()
            values[node.output[0]] = np.array(
                shape[attributes.get("start", 0):attributes.get("end")], INT64)
            continue
        arrays = [values[name] if name in values else _values(find(name)) for name in node.input]
        values[node.output[0]] = _SHAPE_ARITHMETIC[node.op_type](arrays)
    raise ValueError("nothing is made")


_SHAPE_ARITHMETIC: Mapping[str, Callable[[list[Array]], Array]] = {
    "Mul": lambda arrays: arrays[0] * arrays[1], "Concat": np.concatenate}


def _packed_index(record: OperatorRecord) -> int:
    """Which input is the parameter that the file has in another form."""
    absent = [index for index, name in enumerate(record.inputs) if not name]
    return absent[record.shapes.index(None)]


def _zeros(record: OperatorRecord, info: TensorInfo) -> ImportedTensor:
    """Something of a shape."""
    op = OPS["_zeros"].from_attrs({"shape": info.shape, "dtype": info.dtype.name})
    return ImportedTensor(info.shape, info.dtype, entry=Entry(Node(op, f"{record.name}_shape")))


def _unpacked(operator: _Operator, part: Part, given: Sequence[ImportedTensor | None], find: Find
              ) -> ImportedTensor:
    """The parameter that the file has in another form.

    Exported with positions for its elements, it tells where each of them is; those that are
    nowhere, such as a gamma that is fixed, are one.
    """
    index = _packed_index(operator.record)
    info = operator.ins[index]
    places = np.arange(size_of(info.shape), dtype=np.float64).reshape(info.shape)
    arrays = [None if each is None else each.array for each in given]
    probe = operator.export([*arrays[:index], places, *arrays[index + 1:]])
    if not probe.matches(part, operator.record):
        raise ValueError("other nodes")
    whole = np.ones(places.size, info.dtype)
    for positions, piece in probe.constants(find):
        if positions.dtype == places.dtype and positions.shape == piece.shape:
            whole[positions.astype(np.int64)] = piece
    return ImportedTensor.constant(whole.reshape(info.shape), operator.record.packed)


def _values(tensor: ImportedTensor | None) -> Array:
    if tensor is None or tensor.array is None:
        raise ValueError("not constant")
    return tensor.array
