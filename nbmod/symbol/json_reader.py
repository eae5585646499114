"""Graphs from JSON, in every dialect back to MXNet 0.8.

A file is a list of nodes in topological order; entries point at earlier nodes by position.  So one
sweep builds the graph, and a reference that does not point back (a cycle, say) is found where it
stands.  Everything in the file is checked before it is used; errors name the node by its position,
name and op.

Dialects.  Op parameters and attributes stand under `attrs` (since 0.11), `attr` (0.9, 0.10), or
`param` and `attr` (0.8).  What older files leave out or spell differently is brought up to date
while the node is built:

* all but current: `lr_mult`, `weight_lr_mult` and the like become `__lr_mult__` of the node or of
  the input variable they mean;
* before 0.9: inputs that are missing (auxiliary states) become new variables;
* before 0.9.4: input variables get the initializer that their op supplies;
* before 0.9.5: argmax and argmin with axis -1 mean the whole array;
* all but current: fused convolutions have `with_relu` for `with_act`.
"""

from __future__ import annotations

import warnings
from typing import Any

from ..base import MXNetError
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


def read_graph(text: str | bytes, where: str = "symbol JSON") -> list[Entry]:
    """The outputs of the graph that JSON `text` describes; `where` starts every error."""
    graph = parse_json(text, where)
    _expect_object(graph, where)
    return _read(graph, where, _version(graph, where))


def _read(graph: Any, where: str, version: int) -> list[Entry]:
    """The outputs of a graph, or of one in a node of it."""
    _expect_object(graph, where)
    reader = _Reader(where, version)
    records = _field(graph, "nodes", list, where)
    _expect_known(records, where)
    for number, record in enumerate(records):
        reader.add(number, record)
    _check_arg_nodes(graph, len(reader.nodes), where)
    heads = _field(graph, "heads", list, where)
    if not heads:
        raise MXNetError(f"{where}: heads is empty, so the graph has no outputs")
    return [reader.entry(head, f"{where}: heads[{i}]") for i, head in enumerate(heads)]


class _Reader:
    """Builds nodes one after another; `nodes[i]` is node number i of the file."""

    def __init__(self, where: str, version: int):
        self.where, self.version = where, version
        self.nodes: list[Node] = []

    def add(self, number: int, record: Any) -> None:
        """Build node `number` from its object."""
        where = f"{self.where}: node {number}"
        if not isinstance(record, dict):
            raise MXNetError(f"{where} is a {_kind(record)}, expected an object")
        op_name = _field(record, "op", str, where)
        name = _field(record, "name", str, where)
        where = f"{where} {_short(name)} ({_short(op_name)})"
        attrs = _attrs(record, where)
        inputs = [self.entry(item, f"{where}: inputs[{i}]")
                  for i, item in enumerate(_field(record, "inputs", list, where))]
        if op_name == "null":
            if inputs:
                raise MXNetError(f"{where}: a variable has {len(inputs)} inputs, expected none")
            node = Node(None, name, attrs=self._own(attrs))
        else:
            try:
                graphs = self._subgraphs(record)
                node = self._apply(OPS.find(op_name), name, inputs, attrs, graphs)
            except MXNetError as error:
                raise MXNetError(f"{where}: {error}") from error.__cause__
        node.control_deps = self._control_deps(record, where)
        self.nodes.append(node)

    def entry(self, item: Any, where: str) -> Entry:
        """The entry that `[node, output]` or `[node, output, version]` stands for."""
        if (not isinstance(item, list) or len(item) not in (2, 3)
                or not all(type(part) is int for part in item)):
            raise MXNetError(f"{where} is {_short(item)}, expected [node, output, version]")
        number, index = item[0], item[1]
        if not 0 <= number < len(self.nodes):
            raise MXNetError(f"{where} is {item}, but nodes are listed before their users, and "
                             f"{len(self.nodes)} nodes stand before this: a cycle, or an index out "
                             "of range")
        node = self.nodes[number]
        if node.op is not None and node.num_outputs <= index < MAX_TENSORS:
            node.op = node.op.as_stored(len(node.inputs), index + 1)
        if not 0 <= index < node.num_outputs:
            raise MXNetError(f"{where} is {item}, but {node.describe()} has {node.num_outputs} "
                             "output(s)")
        return Entry(node, index)

    def _apply(self, op_class: type[Op], name: str, inputs: list[Entry], attrs: dict[str, str],
               graphs: tuple[Graph, ...]) -> Node:
        late = {} if self.version >= VERSION else _modernised(op_class, attrs)
        if self.version < 905 and op_class.name in _WHOLE and attrs.get("axis") == "-1":
            del attrs["axis"]
        # Later versions may have given parameters to an op that has none here.
        read = read_stored_op if self.version <= VERSION else read_op
        op = read(op_class, attrs, name, graphs).as_stored(len(inputs), 1)
        names = op.list_inputs()
        for key, value in late.items():
            _place(key, value, names, inputs, attrs)
        if late:
            op = read(op_class, attrs, name, graphs).as_stored(len(inputs), 1)
        if self.version < 900:
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
        """Attributes of a variable, with the framework's keys in today's spelling."""
        if self.version >= VERSION:
            return attrs
        fresh = {key: value for key, value in attrs.items() if key not in HIDDEN_KEYS}
        return {**fresh, **{f"__{k}__": attrs[k] for k in HIDDEN_KEYS if k in attrs}}

    def _control_deps(self, record: dict, where: str) -> tuple[Node, ...]:
        deps = _field(record, "control_deps", list, where) if record.get("control_deps") else ()
        return tuple(self.entry([dep, 0], f"{where}: control_deps[{i}]").node
                     for i, dep in enumerate(deps))

    def _subgraphs(self, record: dict) -> tuple[Graph, ...]:
        """The graphs that a node holds."""
        found = _field(record, "subgraphs", list, "it") if record.get("subgraphs") else ()
        return tuple(Graph(_read(graph, f"subgraphs[{i}]", self.version))
                     for i, graph in enumerate(found))


def _expect_known(records: list[Any], where: str) -> None:
    """Name all unknown operators at once, where there are several; one is named with its node."""
    found: dict[str, int] = {}
    for number, record in enumerate(records):
        op = record.get("op") if isinstance(record, dict) else None
        if isinstance(op, str) and op != "null" and op not in OPS:
            found.setdefault(op, number)
    if len(found) > 1:
        listed = ", ".join(f"{_short(op)} (node {number})" for op, number in [*found.items()][:20])
        raise MXNetError(f"{where}: {len(found)} unknown operators: {listed}; register_op "
                         "adds operators of one's own")


def _modernised(op_class: type[Op], attrs: dict[str, str]) -> dict[str, str]:
    """Rename what has a new name, and take out attributes that are spelled otherwise today."""
    if op_class.name == "_sg_mkldnn_conv":
        for old in [key for key in attrs if key in _FUSED_RENAMED]:
            attrs[_FUSED_RENAMED[old]] = attrs.pop(old)
    return {key: attrs.pop(key) for key in list(attrs) if _is_legacy(key)}


def _is_legacy(key: str) -> bool:
    return any(key == hidden or key.endswith(f"_{hidden}") for hidden in HIDDEN_KEYS)


def _place(key: str, value: str, names: tuple[str, ...], inputs: list[Entry],
           attrs: dict[str, str]) -> None:
    """Store `lr_mult` with the node, `weight_lr_mult` with its input variable `weight`."""
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


def _version(graph: dict, where: str) -> int:
    """The MXNet version that wrote the file, as 10901 for 1.9.1."""
    attrs = graph.get("attrs", {})
    if not isinstance(attrs, dict):
        raise MXNetError(f"{where}: attrs is a {_kind(attrs)}, expected an object")
    if "mxnet_version" not in attrs:
        return _NO_VERSION
    value = attrs["mxnet_version"]
    if not isinstance(value, list) or len(value) != 2 or type(value[1]) is not int:
        raise MXNetError(f"{where}: mxnet_version is {_short(value)}, expected [\"int\", number]")
    if value[1] > VERSION:
        warnings.warn(f"{where} was written by a later MXNet ({value[1]}) than {VERSION}",
                      stacklevel=4)
    return value[1]


def _attrs(record: dict, where: str) -> dict[str, str]:
    """Parameters and attributes of a node, wherever its dialect keeps them."""
    attrs: dict[str, str] = {}
    for key in ("param", "attr", "attrs"):
        found = record.get(key, {})
        if not isinstance(found, dict):
            raise MXNetError(f"{where}: {key} is a {_kind(found)}, expected an object")
        for name, value in found.items():
            if not isinstance(value, str):
                raise MXNetError(f"{where}: attribute {_short(name)} is {_short(value)}, "
                                 "expected text")
        attrs.update(found)
    return attrs


def _expect_object(graph: Any, where: str) -> None:
    if not isinstance(graph, dict):
        raise MXNetError(f"{where}: a {_kind(graph)}, expected an object with nodes and heads")


def _check_arg_nodes(graph: dict, count: int, where: str) -> None:
    for item in _field(graph, "arg_nodes", list, where):
        if type(item) is not int or not 0 <= item < count:
            raise MXNetError(f"{where}: arg_nodes names node {_short(item)}, but there are {count} "
                             "nodes")


def _field(record: dict, key: str, kind: Any, where: str) -> Any:
    if key not in record:
        raise MXNetError(f"{where}: {key!r} is missing")
    if not isinstance(record[key], kind):
        expected = {list: "a list", str: "text"}[kind]
        raise MXNetError(f"{where}: {key} is {_short(record[key])}, expected {expected}")
    return record[key]


def _short(value: Any) -> str:
    """A value as errors show it: never long."""
    if isinstance(value, (list, dict)) and len(value) > _SHOWN:
        return f"a {_kind(value)} of {len(value)} parts"
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _kind(value: Any) -> str:
    kinds = {dict: "object", list: "list", str: "text", int: "number", bool: "truth value"}
    return kinds.get(type(value), "null")
