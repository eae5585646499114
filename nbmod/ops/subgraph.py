"""Bodies: graphs that a node runs, maybe many times, each time on other values.

A `Body` is plain data.  Trained, it is one graph of forward and gradients: its outputs, then a
gradient for every variable that has one.  What gradients read of forward is `saved`: the node
keeps it, run by run, in hidden outputs of its own.

A `Part` says what a node wants to run of a body: from values that are given to results that are
wanted.  Whoever prepares the node (`execution.subgraph_executor`) turns every part into a
`Running`: steps in memory that was planned with everything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ..graph import Entry, Graph, Node

if TYPE_CHECKING:
    from .op import Spec

__all__ = ["Body", "Part", "Running", "Bind"]


@dataclass(frozen=True, eq=False)
class Body:
    """A graph, and how many of its outputs are those of forward: the first ones.

    `heads` are variables for the gradients of these.  `trained` are the positions among
    `variables` whose gradients the other outputs are.
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
        """What the body reads, in topological order: nodes count its inputs like this."""
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
        """Positions of the variables that ops of the body keep as state."""
        kept = {id(node) for node in self.forward.states}
        return [i for i, entry in enumerate(self.variables) if id(entry.node) in kept]


class Part(NamedTuple):
    """What to run of a body.

    `given` get their values from the node before every run; `lent` are arrays of the node itself,
    which are read, or (if wanted) written, or added to (if in `added`) where they are.
    """

    body: Body
    specs: Sequence[Spec]
    """Of the body's variables."""
    given: Sequence[Entry]
    wanted: Sequence[Entry]
    lent: Sequence[Entry] = ()
    added: Sequence[Entry] = ()


class Running(Protocol):
    """A part on its arrays."""

    def array(self, entry: Entry) -> Any:
        """Where a given value goes, or a wanted result is found; None if nothing reads it."""

    def run(self) -> None:
        """Compute what is wanted from what is given."""


class Bind(Protocol):
    """What a node gets for each of its parts."""

    def __call__(self, lent: Mapping[Entry, Any]) -> Running: ...
