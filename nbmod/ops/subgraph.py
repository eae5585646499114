"""Subgraphs (bodies): graphs that a node runs, perhaps many times, on other values each time.

A `Body` is plain data.  A trained one is a graph of forward and gradients: its outputs, then a
gradient for every variable that has one.  Intermediate results of forward that gradients read are
`saved`: the node keeps them, for every run, in hidden outputs.

A `SubgraphRun` describes what a node runs of a body: from given values to wanted results.  The
executor (`execution.steps.BoundSubgraph`) turns each into a `Running`: steps in planned memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ..graph import Entry, Graph, Node

if TYPE_CHECKING:
    from .op import Spec

__all__ = ["Body", "SubgraphRun", "Running", "Bind"]


@dataclass(frozen=True, eq=False)
class Body:
    """A graph whose first `num_outputs` outputs are those of forward.

    `heads` are variables for the gradients of these.  The other outputs are the gradients of the
    variables at the positions `trained`.
    """

    graph: Graph
    num_outputs: int
    heads: tuple[Node, ...] = ()
    trained: tuple[int, ...] = ()
    saved: tuple[Entry, ...] = ()

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Body:
        """The body with these outputs."""
        graph = Graph(entries)
        return cls(graph, len(graph.outputs))

    @cached_property
    def forward(self) -> Graph:
        """The graph without gradients."""
        return self.graph.head(self.num_outputs)

    @cached_property
    def variables(self) -> list[Entry]:
        """The inputs of the body, in topological order; nodes refer to them by position."""
        return [Entry(node) for node in self.forward.variables]

    @property
    def outputs(self) -> list[Entry]:
        return self.graph.outputs[:self.num_outputs]

    @cached_property
    def gradients(self) -> dict[int, Entry]:
        """Position of a variable -> its gradient."""
        return dict(zip(self.trained, self.graph.outputs[self.num_outputs:], strict=True))

    @property
    def states(self) -> list[int]:
        """Positions of the variables that are auxiliary states of ops in the body."""
        states = {id(node) for node in self.forward.states}
        return [i for i, entry in enumerate(self.variables) if id(entry.node) in states]


class SubgraphRun(NamedTuple):
    """The part of a body that a node runs.

    `feeds` get their values from the node before every run; `shared` are arrays of the node itself,
    used without copies: read, written (those in `fetches`) or added to (those in `accumulated`).
    """

    body: Body
    specs: Sequence[Spec]
    """Specs of the body's variables."""
    feeds: Sequence[Entry]
    fetches: Sequence[Entry]
    shared: Sequence[Entry] = ()
    accumulated: Sequence[Entry] = ()


class Running(Protocol):
    """A part, bound to arrays."""

    def array(self, entry: Entry) -> Any:
        """The array of a feed or of a fetch; None if nothing reads it."""

    def run(self) -> None:
        """Compute the fetches from the feeds."""


class Bind(Protocol):
    """A function of a node for each of its parts, which binds it to the node's arrays."""

    def __call__(self, shared: Mapping[Entry, Any]) -> Running: ...
