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
* before 0.9.5: argmax and argmin with axis -1 mean the whole array.
"""

from __future__ import annotations

import warnings
from typing import Any

from ..base import MXNetError
from ..graph import Entry, Node
from ..ops import OPS, Op
from ..ops.param import HIDDEN_KEYS
from .compose import read_op, supply_initializers
from .json_text import parse_json
from .json_writer import VERSION

__all__ = ["read_graph"]

_NO_VERSION = 800
_WHOLE = ("argmax", "argmin")
_SHOWN = 60


def read_graph(text: str | bytes, where: str = "symbol JSON") -> list[Entry]:
    """The outputs of the graph that JSON `text` describes; `where` starts every error."""
    graph = parse_json(text, where)
    if not isinstance(graph, dict):
        raise MXNetError(f"{where}: a {_kind(graph)}, expected an object with nodes and heads")
    reader = _Reader(where, _version(graph, where))
    for number, record in enumerate(_field(graph, "nodes", list, where)):
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
                node = self._apply(OPS.find(op_name), name, inputs, attrs)
            except MXNetError as error:
                raise MXNetError(f"{where}: {error}") from None
        node.extra = self._extra(record, where)
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
        if not 0 <= index < node.num_outputs:
            raise MXNetError(f"{where} is {item}, but {node.describe()} has {node.num_outputs} "
                             "output(s)")
        return Entry(node, index)

    def _apply(self, op_class: type[Op], name: str, inputs: list[Entry], attrs: dict[str, str]
               ) -> Node:
        current = self.version >= VERSION
        late = {} if current else {key: attrs.pop(key) for key in list(attrs) if _is_legacy(key)}
        if self.version < 905 and op_class.name in _WHOLE and attrs.get("axis") == "-1":
            del attrs["axis"]
        op = read_op(op_class, attrs, name)
        names = op.list_inputs()
        for key, value in late.items():
            _place(key, value, names, inputs, attrs)
        if late:
            op = read_op(op_class, attrs, name)
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

    def _extra(self, record: dict, where: str) -> dict[str, Any] | None:
        """What is only kept to be written again."""
        extra: dict[str, Any] = {}
        if record.get("control_deps"):
            deps = _field(record, "control_deps", list, where)
            extra["control_deps"] = [self.entry([dep, 0], f"{where}: control_deps[{i}]").node
                                     for i, dep in enumerate(deps)]
        if record.get("subgraphs"):
            extra["subgraphs"] = _field(record, "subgraphs", list, where)
        return extra or None


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
