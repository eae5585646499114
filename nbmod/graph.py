"""The computation graph, as plain data.

A `Node` applies an op to entries; an `Entry` is one output of a node; a `Graph` is a list of output
entries with all nodes that they depend on.  A variable is a node whose `op` is None.

    symbol output -> Entry(node, index) -> node.inputs -> Entry ...

There are two views.  Construction and rewriting follow the edges (`Node`, `Entry`).  Analysis uses
`Graph`: nodes in topological order (producers before consumers, in argument order), and every
output of every node numbered by one integer, its *entry id*.  Results of all passes (shapes,
dtypes, storage, devices) are lists indexed by entry id.

All traversals are iterative, so the depth of a graph is not limited by Python's stack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .ops.op import Op

__all__ = ["Node", "Entry", "Graph", "topological_order"]


class Node:
    """An application of an op to inputs, or a variable.

    Parameters
    ----------
    op : Op or None
        The op with its parsed parameters; None for a variable.
    name : str
        Name of the node.
    inputs : iterable of Entry
        Inputs.
    attrs : dict of str to str, optional
        Attributes as the user or file gave them: op parameters and hidden `__key__` attributes.
    source : Node, optional
        For nodes that passes derive from a forward node, that node: gradient nodes, and clones that
        are recomputed in the backward pass.

    Attributes
    ----------
    control_deps : tuple of Node
        Control dependencies of a loaded graph, kept for saving it.
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
    def required_op(self) -> Op:
        """The op of a node that is not a variable."""
        if self.op is None:
            raise TypeError(f"{self.name} is a variable, which has no op")
        return self.op

    @property
    def num_outputs(self) -> int:
        """Number of outputs, hidden ones included."""
        return 1 if self.op is None else len(self.op.list_outputs())

    @property
    def num_visible(self) -> int:
        """Number of outputs that symbols show."""
        return 1 if self.op is None else self.op.num_visible

    @property
    def op_name(self) -> str:
        return "null" if self.op is None else self.op.name

    @property
    def runs_subgraphs(self) -> bool:
        """Whether this is a loop or a branch."""
        return self.op is not None and self.op.runs_subgraphs

    @property
    def recomputes(self) -> bool:
        """Whether this is a clone of its source that the backward pass recomputes."""
        return self.op is not None and self.source is not None and self.op is self.source.op

    def clone(self, inputs: Iterable[Entry], source: Node | None) -> Node:
        """A node of the same op, name and attributes on other inputs."""
        copy = Node(self.op, self.name, inputs, self.attrs, source)
        copy.control_deps = self.control_deps
        return copy

    def describe(self) -> str:
        """`name (op)`, for error messages."""
        return f"{self.name} ({'variable' if self.op is None else self.op.name})"

    def __repr__(self) -> str:
        return f"<Node {self.describe()}>"


class Entry(NamedTuple):
    """Output number `index` of `node`."""

    node: Node
    index: int = 0  # type: ignore[assignment]  # hides tuple.index, which nothing here uses


def topological_order(entries: Iterable[Entry], known: Iterable[Node] = ()) -> list[Node]:
    """All nodes that `entries` depend on, in depth-first postorder: producers before consumers.

    Nodes in `known`, and those on which only these depend, are left out.
    """
    order: list[Node] = []
    seen = set(map(id, known))
    for root in entries:
        if id(root.node) in seen:
            continue
        seen.add(id(root.node))
        stack: list[tuple[Node, Iterator[Entry]]] = [(root.node, iter(root.node.inputs))]
        while stack:
            node, inputs = stack[-1]
            for source, _ in inputs:
                if id(source) in seen:
                    continue
                seen.add(id(source))
                if source.inputs:
                    stack.append((source, iter(source.inputs)))
                    break
                order.append(source)
            else:
                stack.pop()
                order.append(node)
    return order


class Graph:
    """Output entries and all nodes that they depend on.

    The entry ids of a node are a range; ranges are consecutive in the order of `nodes`, which is
    topological.
    """

    def __init__(self, outputs: Iterable[Entry], nodes: list[Node] | None = None):
        self.outputs = list(outputs)
        self.nodes = topological_order(self.outputs) if nodes is None else nodes

    @cached_property
    def _eids(self) -> dict[int, range]:
        """Entry ids of the outputs of every node, by its `id`."""
        eids, first = {}, 0
        for node in self.nodes:
            eids[id(node)] = range(first, first + node.num_outputs)
            first = eids[id(node)].stop
        return eids

    @property
    def num_entries(self) -> int:
        """Number of entry ids."""
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
        """`output_eids` of a node; None if it is not in the graph."""
        return self._eids.get(id(node))

    @property
    def output_ids(self) -> list[int]:
        """Entry ids of the graph's outputs."""
        return [self.eid(entry) for entry in self.outputs]

    def head(self, count: int) -> Graph:
        """The graph of the first `count` outputs; its nodes are a prefix of this graph's."""
        outputs = self.outputs[:count]
        end = 1 + max((self.eid(entry) for entry in outputs), default=-1)
        return Graph(outputs, [node for node in self.nodes if self.output_eids(node).start < end])

    @cached_property
    def variables(self) -> list[Node]:
        """Variable nodes in topological order: arguments and auxiliary states together."""
        return [node for node in self.nodes if node.op is None]

    @property
    def arguments(self) -> list[Node]:
        """Variables that are not auxiliary states."""
        return [node for node in self.variables if id(node) not in self._states]

    @property
    def states(self) -> list[Node]:
        """Auxiliary states: variables that ops update, such as moving averages."""
        return [node for node in self.variables if id(node) in self._states]

    @cached_property
    def _states(self) -> set[int]:
        return {id(node.inputs[i].node) for node in self.nodes
                if node.op is not None and node.op.aux
                for i in node.op.aux_indices() if i < len(node.inputs)}

    def rewired(self, wire: Callable[[Node, Entry, Entry], Entry]
                ) -> tuple[Graph, dict[int, Node]]:
        """A copy of the graph with replaced inputs, and its cloned nodes by `id` of the originals.

        `wire(node, old, new)` returns the replacement of input `old` of `node`; `new` is the same
        entry in the new graph.  Only nodes that change are cloned, with those that depend on them
        or have one as `source`; the others are shared.
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
        """One line per node: number, name, op, inputs as `name[index]`."""
        lines = []
        for nid, node in enumerate(self.nodes):
            inputs = ", ".join(f"{e.node.name}[{e.index}]" for e in node.inputs)
            lines.append(f"{nid:4} {node.name} = {node.op_name}({inputs})")
        return "\n".join(lines)
