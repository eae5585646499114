"""The graph: plain data, no behaviour that computes.

A `Node` applies an op to entries; an `Entry` is one output of a node; a `Graph` fixes a list of
output entries and numbers everything below them.  A variable is a node whose `op` is None.

    symbol output -> Entry(node, index) -> node.inputs -> Entry ...

Two views of the same thing.  Building and rewriting follow the links (`Node`, `Entry`).  Analysis
uses `Graph`: nodes in topological order (inputs before users, in argument order), and every output
of every node numbered by one integer, its *entry id*.  Every fact a pass finds (shape, dtype,
storage, device) is a plain list indexed by entry id.  That single convention is what makes all
passes look alike.

Nothing here recurses, so a chain of any length is walked with constant Python stack.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .ops.op import Op

__all__ = ["Node", "Entry", "Graph", "topological_order"]


class Node:
    """One application of `op` (None: a variable) to `inputs`.

    `attrs` keeps the attributes as the user or file wrote them, strings to strings: op parameters
    and hidden `__key__` attributes together; `op` holds the parsed parameters.  `source` is set on
    backward nodes only: the forward node whose gradient they compute.  `extra` holds what a file
    says of the node that only matters when it is written again: `control_deps` (nodes) and
    `subgraphs` (JSON objects); None for almost every node.
    """

    __slots__ = ("op", "name", "inputs", "attrs", "source", "extra")

    def __init__(self, op: Op | None, name: str, inputs: Iterable[Entry] = (),
                 attrs: dict[str, str] | None = None, source: Node | None = None):
        self.op = op
        self.name = name
        self.inputs = list(inputs)
        self.attrs = attrs if attrs is not None else {}
        self.source = source
        self.extra: dict[str, Any] | None = None

    @property
    def is_variable(self) -> bool:
        return self.op is None

    @property
    def num_outputs(self) -> int:
        """All outputs, hidden ones included."""
        return 1 if self.op is None else len(self.op.list_outputs())

    @property
    def num_visible(self) -> int:
        return 1 if self.op is None else self.op.num_visible

    @property
    def op_name(self) -> str:
        return "null" if self.op is None else self.op.name

    def describe(self) -> str:
        """`name (op)`, the way errors speak of a node."""
        return f"{self.name} ({'variable' if self.op is None else self.op.name})"

    def __repr__(self) -> str:
        return f"<Node {self.describe()}>"


class Entry(NamedTuple):
    """Output number `index` of `node`."""

    node: Node
    index: int = 0  # type: ignore[assignment]  # hides tuple.index, which nothing here uses


def topological_order(entries: Iterable[Entry]) -> list[Node]:
    """Every node below `entries`, inputs before users, depth first in argument order."""
    order: list[Node] = []
    seen: set[int] = set()
    for root in entries:
        if id(root.node) in seen:
            continue
        seen.add(id(root.node))
        stack: list[tuple[Node, Iterator[Entry]]] = [(root.node, iter(root.node.inputs))]
        while stack:
            node, inputs = stack[-1]
            for entry in inputs:
                if id(entry.node) not in seen:
                    seen.add(id(entry.node))
                    stack.append((entry.node, iter(entry.node.inputs)))
                    break
            else:
                stack.pop()
                order.append(node)
    return order


class Graph:
    """`outputs` and everything below them, numbered.

    `nodes[nid]` in topological order; entry ids of node `nid` are
    `range(first_eid[nid], first_eid[nid + 1])`, so `first_eid` is also MXNet's `node_row_ptr`.
    """

    def __init__(self, outputs: Iterable[Entry]):
        self.outputs = list(outputs)
        self.nodes = topological_order(self.outputs)
        self.nid = {id(node): nid for nid, node in enumerate(self.nodes)}
        self.first_eid = [0]
        for node in self.nodes:
            self.first_eid.append(self.first_eid[-1] + node.num_outputs)

    @property
    def num_entries(self) -> int:
        return self.first_eid[-1]

    def eid(self, entry: Entry) -> int:
        return self.first_eid[self.nid[id(entry.node)]] + entry.index

    def input_eids(self, node: Node) -> list[int]:
        return [self.eid(entry) for entry in node.inputs]

    def output_eids(self, node: Node) -> list[int]:
        nid = self.nid[id(node)]
        return list(range(self.first_eid[nid], self.first_eid[nid + 1]))

    @property
    def output_ids(self) -> list[int]:
        """Entry ids of the graph's outputs."""
        return [self.eid(entry) for entry in self.outputs]

    @property
    def variables(self) -> list[Node]:
        """Variable nodes in topological order: arguments and auxiliary states together."""
        return [node for node in self.nodes if node.is_variable]

    def auxiliary(self) -> set[int]:
        """`id`s of the variables that some op keeps as state (moving averages and the like)."""
        return {id(node.inputs[i].node) for node in self.nodes if node.op is not None
                for i in node.op.aux_indices() if i < len(node.inputs)
                and node.inputs[i].node.is_variable}

    def __str__(self) -> str:
        """One line per node: id, name, op, inputs as `name[index]`."""
        lines = []
        for nid, node in enumerate(self.nodes):
            inputs = ", ".join(f"{e.node.name}[{e.index}]" for e in node.inputs)
            lines.append(f"{nid:4} {node.name} = {node.op_name}({inputs})")
        return "\n".join(lines)
