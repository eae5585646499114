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

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .ops.op import Op

__all__ = ["Node", "Entry", "Graph", "topological_order"]


class Node:
    """One application of `op` (None: a variable) to `inputs`.

    `attrs` keeps the attributes as the user or file wrote them, strings to strings: op parameters
    and hidden `__key__` attributes together; `op` holds the parsed parameters.  `source` is set on
    nodes that passes add on behalf of a forward node, and names it: those that compute its gradient
    or its inputs' gradients, and its clone that is computed again.  `control_deps` are nodes that a
    file wants to run before; they only matter when it is written again.
    """

    __slots__ = ("op", "name", "inputs", "attrs", "source", "control_deps")

    def __init__(self, op: Op | None, name: str, inputs: Iterable[Entry] = (),
                 attrs: dict[str, str] | None = None, source: Node | None = None):
        self.op = op
        self.name = name
        self.inputs = list(inputs)
        self.attrs = attrs if attrs is not None else {}
        self.source = source
        self.control_deps: tuple[Node, ...] = ()

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

    @property
    def recomputes(self) -> bool:
        """Whether this is the clone of its source that backward computes again."""
        return self.op is not None and self.source is not None and self.op is self.source.op

    def clone(self, inputs: Iterable[Entry], source: Node | None) -> Node:
        """The same op, name and attributes on other inputs."""
        copy = Node(self.op, self.name, inputs, self.attrs, source)
        copy.control_deps = self.control_deps
        return copy

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

    `nodes` stand in topological order; the entry ids of each are a range, and the ranges follow one
    another.
    """

    def __init__(self, outputs: Iterable[Entry], nodes: list[Node] | None = None):
        """`nodes` is their topological order, if that is known already."""
        self.outputs = list(outputs)
        self.nodes = topological_order(self.outputs) if nodes is None else nodes

    @cached_property
    def _eids(self) -> dict[int, range]:
        """Entry ids of every node, by its `id`."""
        eids, first = {}, 0
        for node in self.nodes:
            eids[id(node)] = range(first, first + node.num_outputs)
            first = eids[id(node)].stop
        return eids

    @property
    def num_entries(self) -> int:
        return self.output_eids(self.nodes[-1]).stop if self.nodes else 0

    def eid(self, entry: Entry) -> int:
        return self._eids[id(entry.node)][entry.index]

    @cached_property
    def _input_eids(self) -> dict[int, tuple[int, ...]]:
        return {id(node): tuple([self._eids[id(source)][index] for source, index in node.inputs])
                for node in self.nodes}

    def input_eids(self, node: Node) -> tuple[int, ...]:
        return self._input_eids[id(node)]

    def output_eids(self, node: Node) -> range:
        return self._eids[id(node)]

    def find(self, node: Node) -> range | None:
        """`output_eids` of a node that may be of another graph: then None."""
        return self._eids.get(id(node))

    @property
    def output_ids(self) -> list[int]:
        """Entry ids of the graph's outputs."""
        return [self.eid(entry) for entry in self.outputs]

    def head(self, count: int) -> Graph:
        """The graph of the first `count` outputs.  Its nodes are the first of this graph, too."""
        outputs = self.outputs[:count]
        end = 1 + max((self.eid(entry) for entry in outputs), default=-1)
        return Graph(outputs, [node for node in self.nodes if self.output_eids(node).start < end])

    @cached_property
    def variables(self) -> list[Node]:
        """Variable nodes in topological order: arguments and auxiliary states together."""
        return [node for node in self.nodes if node.is_variable]

    @property
    def arguments(self) -> list[Node]:
        """Variables that are not states of ops."""
        return [node for node in self.variables if id(node) not in self._states]

    @property
    def states(self) -> list[Node]:
        """Variables that ops keep as state: moving averages and the like."""
        return [node for node in self.variables if id(node) in self._states]

    @cached_property
    def _states(self) -> set[int]:
        return {id(node.inputs[i].node) for node in self.nodes
                if node.op is not None and node.op.aux
                for i in node.op.aux_indices() if i < len(node.inputs)}

    def rewired(self, wire: Callable[[Node, Entry, Entry], Entry]
                ) -> tuple[Graph, dict[int, Node]]:
        """A graph like this one with other inputs, and its clones by `id` of what they stand for.

        `wire(node, old, new)` says what input `old` of `node` shall be; `new` is the same entry in
        the new graph.  This graph stays as it is: whatever changes, or depends on or has its source
        in what changes, is cloned.
        """
        clones: dict[int, Node] = {}

        def current(entry: Entry) -> Entry:
            return Entry(clones.get(id(entry.node), entry.node), entry.index)

        for node in self.nodes:
            inputs = [wire(node, entry, current(entry)) for entry in node.inputs]
            source = None if node.source is None else clones.get(id(node.source), node.source)
            if inputs != node.inputs or source is not node.source:
                clones[id(node)] = node.clone(inputs, source)
        return Graph([current(entry) for entry in self.outputs]), clones

    def __str__(self) -> str:
        """One line per node: id, name, op, inputs as `name[index]`."""
        lines = []
        for nid, node in enumerate(self.nodes):
            inputs = ", ".join(f"{e.node.name}[{e.index}]" for e in node.inputs)
            lines.append(f"{nid:4} {node.name} = {node.op_name}({inputs})")
        return "\n".join(lines)
