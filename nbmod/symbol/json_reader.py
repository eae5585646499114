"""Reader of graphs in JSON, in all formats since MXNet 0.8.

A file is a list of nodes in topological order, whose inputs refer to earlier nodes by index.  So
one pass builds the graph, and a forward reference (such as a cycle) is detected where it occurs.
Everything is validated before it is used; errors name the node by its index, name and op.

Op parameters and attributes are in `attrs` (since 0.11), `attr` (0.9, 0.10), or `param` and `attr`
(0.8).  Older files are upgraded while their nodes are built:

* before 1.9.1: `lr_mult`, `weight_lr_mult` and similar keys become `__lr_mult__` of the node or of
  the input variable;
* before 0.9: missing inputs (auxiliary states) become new variables;
* before 0.9.4: input variables get the default initializer of their op;
* before 0.9.5: argmax and argmin with axis -1 reduce the whole array;
* before 1.9.1: fused convolutions have `with_relu` for `with_act`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import TypeVar

from ..base import MXNetError
from ..core.shape_semantics import is_np_shape
from ..graph import Entry, Graph, Node
from ..ops import OPS, Op
from ..ops.param import HIDDEN_KEYS, MAX_TENSORS
from .compose import read_op, read_stored_op, supply_initializers
from .json_text import parse_json
from .json_writer import VERSION

__all__ = ["read_graph"]

_NO_VERSION = 800
_WHOLE = ("argmax", "argmin")
_FUSED_RENAMED = {"with_relu": "with_act", "with_postsum_relu": "with_postsum_act"}
_SHOWN = 60

BYTES_OF_REFERENCE = 8
"""The file may have as many outputs as it has room to name, and `MAX_TENSORS` that it does not use.
"""

JsonObject = dict[str, object]
T = TypeVar("T")


def read_graph(text: str | bytes, where: str = "symbol JSON") -> list[Entry]:
    """Read a graph from JSON; an MXNetError begins with `where`, the name of the source."""
    graph = _object(parse_json(text, where), where)
    budget = _Budget(MAX_TENSORS + len(text) // BYTES_OF_REFERENCE)
    entries = _read(graph, where, _version(graph, where), budget)
    if is_np_shape() and "is_np_shape" not in _object(graph.get("attrs", {}), where):
        _mark_unknown_sizes(Graph(entries))
    return entries


def _mark_unknown_sizes(graph: Graph) -> None:
    """Declare sizes and shapes that are 0 and () in the file as unknown in NumPy's meaning."""
    for node in graph.variables:
        shape = re.sub(r"(?<!\d)0+(?!\d)", "-1", node.attrs.pop("__shape__", ""))
        if re.search(r"\d", shape):
            node.attrs["__shape__"] = shape


class _Budget:
    """The number of outputs that the nodes of a file may still have, those of subgraphs included.

    A node of a few bytes may declare thousands.
    """

    def __init__(self, limit: int):
        self.limit = self.left = limit

    def take(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise MXNetError(f"with this node the graph has more than {self.limit} outputs, the "
                             "limit for a file of this size")


def _read(graph: JsonObject, where: str, version: int, budget: _Budget) -> list[Entry]:
    """The outputs of a graph or subgraph."""
    reader = _NodeReader(where, version, budget)
    records = _field(graph, "nodes", list, where)
    _expect_known(records, where)
    for number, record in enumerate(records):
        reader.add(number, record)
    for item in _field(graph, "arg_nodes", list, where):
        if type(item) is not int or not 0 <= item < len(reader.nodes):
            raise MXNetError(f"{where}: arg_nodes names node {_short(item)}, but there are "
                             f"{len(reader.nodes)} nodes")
    heads = _field(graph, "heads", list, where)
    if not heads:
        raise MXNetError(f"{where}: heads is empty, so the graph has no outputs")
    return [reader.entry(head, f"{where}: heads[{i}]") for i, head in enumerate(heads)]


class _NodeReader:
    """Builds nodes in order; `nodes[i]` is node i of the file."""

    def __init__(self, where: str, version: int, budget: _Budget):
        self.where, self.version, self.budget = where, version, budget
        self.nodes: list[Node] = []

    def add(self, number: int, item: object) -> None:
        """Build node `number` from its JSON object."""
        where = f"{self.where}: node {number}"
        record = _object(item, where)
        op_name = _field(record, "op", str, where)
        name = _field(record, "name", str, where)
        where = f"{where} {_short(name)} ({_short(op_name)})"
        attrs = _attrs(record, where)
        inputs = [self.entry(entry, f"{where}: inputs[{i}]")
                  for i, entry in enumerate(_field(record, "inputs", list, where))]
        if op_name == "null":
            if inputs:
                raise MXNetError(f"{where}: a variable has {len(inputs)} inputs, expected none")
            node = Node(None, name, attrs=self._own(attrs))
        else:
            try:
                graphs = tuple(self._subgraphs(_optional_list(record, "subgraphs", "it")))
                node = self._apply(OPS.find(op_name), name, inputs, attrs, graphs)
                self.budget.take(node.num_outputs)
            except MXNetError as error:
                raise MXNetError(f"{where}: {error}") from error.__cause__
        node.control_deps = tuple(
            self.entry([dep, 0], f"{where}: control_deps[{i}]").node
            for i, dep in enumerate(_optional_list(record, "control_deps", where)))
        self.nodes.append(node)

    def _subgraphs(self, records: list[object]) -> Iterator[Graph]:
        for index, record in enumerate(records):
            where = f"subgraphs[{index}]"
            yield Graph(_read(_object(record, where), where, self.version, self.budget))

    def entry(self, item: object, where: str) -> Entry:
        """The entry that `[node, output]` or `[node, output, version]` refers to."""
        if (not isinstance(item, list) or len(item) not in (2, 3)
                or not all(type(part) is int for part in item)):
            raise MXNetError(f"{where} is {_short(item)}, expected [node, output, version]")
        number, index = item[0], item[1]
        if not 0 <= number < len(self.nodes):
            raise MXNetError(f"{where} is {item}, but nodes are listed before their users, and "
                             f"{len(self.nodes)} nodes precede this one: a cycle, or an index out "
                             "of range")
        node = self.nodes[number]
        if node.op is not None and node.num_outputs <= index < MAX_TENSORS:
            self._raise_outputs(node, index + 1, where)
        if not 0 <= index < node.num_outputs:
            raise MXNetError(f"{where} is {item}, but {node.describe()} has {node.num_outputs} "
                             "output(s)")
        return Entry(node, index)

    def _raise_outputs(self, node: Node, count: int, where: str) -> None:
        """Give a node more outputs, if its op lets references decide how many it has."""
        before = node.num_outputs
        node.op = node.required_op.with_arity(len(node.inputs), count)
        try:
            self.budget.take(node.num_outputs - before)
        except MXNetError as error:
            raise MXNetError(f"{where}: {error}") from None

    def _apply(self, op_class: type[Op], name: str, inputs: list[Entry], attrs: dict[str, str],
               graphs: tuple[Graph, ...]) -> Node:
        legacy = {} if self.version >= VERSION else _upgrade(op_class, attrs)
        if self.version < 905 and op_class.name in _WHOLE and attrs.get("axis") == "-1":
            del attrs["axis"]
        # A later version may have added parameters to an op that has none here.
        read = read_stored_op if self.version <= VERSION else read_op
        op = read(op_class, attrs, name, graphs).with_arity(len(inputs), 1)
        names = op.list_inputs()
        for key, value in legacy.items():
            _set_legacy(key, value, names, inputs, attrs)
        if legacy:
            op = read(op_class, attrs, name, graphs).with_arity(len(inputs), 1)
        if self.version < 900:
            self.budget.take(len(names) - len(inputs))
            inputs += [Entry(Node(None, f"{name}_{missing}", attrs=dict(attrs)))
                       for missing in names[len(inputs):]]
        if len(inputs) != len(names):
            raise MXNetError(f"{len(inputs)} inputs are given, expected {len(names)}: "
                             f"{list(names)[:50]}")
        for index in op.aux_indices():
            if not inputs[index].node.is_variable:
                raise MXNetError(f"input {names[index]!r} is state that the op writes, but "
                                 f"{inputs[index].node.describe()} is no variable")
        node = Node(op, name, inputs, attrs)
        if self.version < 904:
            supply_initializers(node)
        return node

    def _own(self, attrs: dict[str, str]) -> dict[str, str]:
        """Attributes of a variable, with reserved keys in their current spelling."""
        if self.version >= VERSION:
            return attrs
        fresh = {key: value for key, value in attrs.items() if key not in HIDDEN_KEYS}
        return {**fresh, **{f"__{k}__": attrs[k] for k in HIDDEN_KEYS if k in attrs}}


def _expect_known(records: list[object], where: str) -> None:
    """Raise an error that lists all unknown operators if there are several."""
    names: dict[str, int] = {}
    for number, record in enumerate(records):
        op = record.get("op") if isinstance(record, dict) else None
        if isinstance(op, str) and op != "null" and op not in OPS:
            names.setdefault(op, number)
    if len(names) > 1:
        listed = ", ".join(f"{_short(op)} (node {number})" for op, number in [*names.items()][:20])
        raise MXNetError(f"{where}: {len(names)} unknown operators: {listed}; register_op "
                         "adds operators of one's own")


def _upgrade(op_class: type[Op], attrs: dict[str, str]) -> dict[str, str]:
    """Rename renamed parameters, and remove and return attributes in legacy spelling."""
    if op_class.name == "_sg_mkldnn_conv":
        for old in [key for key in attrs if key in _FUSED_RENAMED]:
            attrs[_FUSED_RENAMED[old]] = attrs.pop(old)
    return {key: attrs.pop(key) for key in list(attrs)
            if any(key == hidden or key.endswith(f"_{hidden}") for hidden in HIDDEN_KEYS)}


def _set_legacy(key: str, value: str, names: tuple[str, ...], inputs: list[Entry],
                attrs: dict[str, str]) -> None:
    """Store `lr_mult` in the node, `weight_lr_mult` in its input variable `weight`."""
    if key in HIDDEN_KEYS:
        attrs[f"__{key}__"] = value
        return
    hidden = next(hidden for hidden in HIDDEN_KEYS if key.endswith(f"_{hidden}"))
    argument = key.removesuffix(f"_{hidden}")
    position = names.index(argument) if argument in names else len(inputs)
    if position < len(inputs) and inputs[position].node.is_variable:
        inputs[position].node.attrs[f"__{hidden}__"] = value
    else:
        attrs[key] = value


def _version(graph: JsonObject, where: str) -> int:
    """The version of MXNet that wrote the file: 10901 is 1.9.1."""
    attrs = _object(graph.get("attrs", {}), f"{where}: attrs")
    if "mxnet_version" not in attrs:
        return _NO_VERSION
    value = attrs["mxnet_version"]
    if not isinstance(value, list) or len(value) != 2 or type(value[1]) is not int:
        raise MXNetError(f"{where}: mxnet_version is {_short(value)}, expected [\"int\", number]")
    if value[1] > VERSION:
        warnings.warn(f"{where} was written by a later MXNet ({value[1]}) than {VERSION}",
                      stacklevel=4)
    return value[1]


def _attrs(record: JsonObject, where: str) -> dict[str, str]:
    """Parameters and attributes of a node, in any format."""
    attrs: dict[str, str] = {}
    for key in ("param", "attr", "attrs"):
        for name, value in _object(record.get(key, {}), f"{where}: {key}").items():
            if not isinstance(value, str):
                raise MXNetError(f"{where}: attribute {_short(name)} is {_short(value)}, "
                                 "expected text")
            attrs[name] = value
    return attrs


def _object(value: object, where: str) -> JsonObject:
    if not isinstance(value, dict):
        raise MXNetError(f"{where} is a {_kind(value)}, expected an object")
    return value


def _field(record: JsonObject, key: str, kind: type[T], where: str) -> T:
    if key not in record:
        raise MXNetError(f"{where}: {key!r} is missing")
    value = record[key]
    if not isinstance(value, kind):
        expected = "a list" if kind is list else "text"
        raise MXNetError(f"{where}: {key} is {_short(value)}, expected {expected}")
    return value


def _optional_list(record: JsonObject, key: str, where: str) -> list[object]:
    return _field(record, key, list, where) if record.get(key) else []


def _short(value: object) -> str:
    """A value for error messages, truncated."""
    if isinstance(value, (list, dict)) and len(value) > _SHOWN:
        return f"a {_kind(value)} of {len(value)} parts"
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _kind(value: object) -> str:
    kinds = {dict: "object", list: "list", str: "text", int: "number", bool: "truth value"}
    return kinds.get(type(value), "null")
