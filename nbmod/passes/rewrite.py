"""Rewriting a graph node by node.

A *rule* looks at one node and says what replaces its outputs: entries of nodes before it, or
of new nodes; or nothing, and the node stays, for the obstacle that the rule names if the node is
of its kind.  `rewrite` walks the graph once, inputs before users, and clones what depends on
something replaced.  The graph it is given stays as it is.

Outputs of the graph are memory of their own to users, so two of them become one entry, or an
output a variable, only where they were before: such a replacement does not take place.

Assumes: what replaces an output has its shape, type and values, which the rules answer for; new
nodes read entries of the new graph (`_require_current`).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import NamedTuple, TypeVar

from ..graph import Entry, Graph, Node
from ..ops import OPS
from ..ops.op import Spec
from .remarks import (
    Evidence,
    Obstacle,
    Remark,
    current_pass,
    done,
    is_recording,
    obstacle,
    record,
    refused,
    where_is,
)

__all__ = ["Replacement", "Rewritten", "Rule", "carry", "node_of", "rewrite", "unchanged"]

T = TypeVar("T")


class Replacement(NamedTuple):
    """Replacements of the outputs of a node, and a line about them for users, or ""."""

    entries: Sequence[Entry]
    """Entries of new nodes, or of nodes before this one, in the old graph or in the new."""
    note: str
    is_clone: bool = False
    """The entries are those of a clone of the node, which has other inputs."""
    rule: str = ""
    """A few words about what was done, for remarks; as in `Remark`."""
    joined: Sequence[Node] = ()
    """Nodes of the old graph whose work the new node does, too."""
    into: Node | None = None
    """The node that does the work, where that is not the one of the first entry."""


Rule = Callable[[Node, list[Entry]], Replacement | Obstacle | None]
"""A function of a node of the old graph, and of its inputs in the new one."""


class Rewritten(NamedTuple):
    """A graph, and where it comes from."""

    graph: Graph
    origin: dict[Node, Node]
    """Clone -> the node of the first graph."""
    notes: list[str]
    """A line about each replacement."""
    first: tuple[Graph, Sequence[Spec]]
    """The graph before all passes, and the specs of its entries."""
    groups: list[list[Node]] = []  # noqa: RUF012
    """Nodes that need not run every time, each group on its own (`derive`)."""

    @property
    def specs(self) -> list[Spec | None]:
        """Shape and type of every entry; None for new entries."""
        graph, specs = self.first
        return carry(specs, graph, self.graph, self.origin)


def carry(facts: Sequence[T], first: Graph, graph: Graph, origin: Mapping[Node, Node]
          ) -> list[T | None]:
    """`facts` of the entries of `first` for those of `graph`; None for what is new there."""
    new_facts: list[T | None] = []
    for node in graph.nodes:
        eids = first.find(origin.get(node, node))
        new_facts += facts[eids.start:eids.stop] if eids else [None] * node.num_outputs
    return new_facts


def node_of(op: str, name: str, inputs: Sequence[Entry], attrs: Mapping[str, str]) -> Node:
    """A node of the op of this name, as symbols have it: with its parameters as attributes."""
    attrs = dict(attrs)
    return Node(OPS[op].from_attrs(attrs, name), name, inputs, attrs)


def unchanged(graph: Graph, specs: Sequence[Spec]) -> Rewritten:
    """`graph`, whose entries have these `specs`, as it is."""
    return Rewritten(graph, {}, [], (graph, specs))


def rewrite(before: Rewritten, rule: Rule) -> Rewritten:
    """The graph in which `rule` has been asked about every node."""
    graph, origin, notes = before.graph, dict(before.origin), list(before.notes)
    now: dict[Entry, Entry] = {}
    told: set[Node] = set()
    for node in graph.nodes:
        inputs = [now.get(entry, entry) for entry in node.inputs] if now else node.inputs
        result = None if node.op is None else rule(node, inputs)
        if isinstance(result, Replacement):
            result = _collision(node, result.entries, graph, now) or result
        if isinstance(result, Obstacle):
            refused(current_pass(), node, result)
        if isinstance(result, Replacement):
            _require_current(result.entries, graph, now)
            now.update({Entry(node, i): now.get(entry, entry)
                        for i, entry in enumerate(result.entries)})
            if result.is_clone:
                origin[result.entries[0].node] = origin.get(node, node)
            notes += [result.note] * bool(result.note)
            if is_recording():
                _record(node, result, now[Entry(node)].node, rule)
                told.update([node, *result.joined])
        elif inputs is not node.inputs and inputs != node.inputs:
            clone = node.clone(inputs, node.source)
            origin[clone] = origin.get(node, node)
            now.update({Entry(node, i): Entry(clone, i) for i in range(node.num_outputs)})
    if not now:
        return before
    after = Graph([now.get(entry, entry) for entry in graph.outputs])
    if is_recording():
        _record_unread(graph, after, now, told)
    return before._replace(graph=after, origin=origin, notes=notes)


def _record(node: Node, replacement: Replacement, current: Node, rule: Rule) -> None:
    """Record that `node` was replaced, by a node that is `current` in the new graph."""
    facts: dict[str, Evidence] = {"into": replacement.into or current}
    if replacement.joined:
        facts["joined"] = list(replacement.joined)
    code = rule.__code__
    record(Remark(current_pass(), node, "done", replacement.rule, facts,
                  where_is(code.co_filename, code.co_firstlineno)))


def _record_unread(graph: Graph, after: Graph, now: Mapping[Entry, Entry], told: Container[Node]
                   ) -> None:
    """Record the nodes of `graph` that nothing reads in the one `after` it; replacements have been
    `told`."""
    for node in graph.nodes:
        current = now.get(Entry(node), Entry(node)).node
        if not (node.is_variable or node in told or after.find(current)):
            done(current_pass(), node, "nothing reads it any more")


def _require_current(entries: Sequence[Entry], graph: Graph, now: Mapping[Entry, Entry]) -> None:
    """A new node must not read what has been replaced: that would run twice, or be back."""
    for node in {entry.node for entry in entries if graph.find(entry.node) is None}:
        if any(entry in now for entry in node.inputs):
            raise ValueError(f"{node.describe()} reads what its pass has replaced, expected "
                             "entries of the new graph, such as the inputs that a rule is given")


def _collision(node: Node, entries: Sequence[Entry], graph: Graph, now: dict[Entry, Entry]
               ) -> Obstacle | None:
    """The obstacle where an output of the graph would become another output, or a variable."""
    shown = [output for output in graph.outputs if output.node is node]
    if not shown:
        return None
    others = {now.get(output, output) for output in graph.outputs if output.node is not node}
    for output in shown:
        target = now.get(entries[output.index], entries[output.index])
        if target.node.is_variable:
            return obstacle("an output is no variable", output=output, variable=target.node)
        if target in others:
            return obstacle("outputs stay apart", output=output, other=target)
    return None
