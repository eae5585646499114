"""Operations of the tape that write gradients of leaves themselves: calls of bound networks.

A bound network (`execution.network_call`) computes the gradients of its parameters in their own
arrays, in one run.  So its node on the tape does not read its parameters one by one: one input, a
`LeafGroup`, stands for all of them.  A backward pass that differentiates by the group runs the node
once, and `DirectGradients` knows which leaves have their gradient by then:

    request "write"     a second contribution in one pass is added to a copy of the first
    request "add"       the network adds what it computes by itself
    `autograd.grad`     the arrays are lent to the pass, and restored at its end
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from ..graph import Entry, Graph
from .tape import DirectGradientOp, LeafGroup, Marked, Recorded

__all__ = ["DirectGradients", "latest_first", "unfold"]


class DirectGradients:
    """The gradients that operations in `graph` write in one backward pass.

    Attributes
    ----------
    retains : bool
        Whether another backward pass may follow.
    """

    def __init__(self, graph: Graph, retains: bool):
        self.retains = retains
        self._all = [node for node in graph.variables if isinstance(node, LeafGroup)]
        self._written: list[LeafGroup] = []

    @property
    def groups(self) -> list[LeafGroup]:
        """The leaves by which a pass differentiates, so that these operations run."""
        return latest_first([group for group in self._all if group.leaves])

    @property
    def leaves(self) -> list[Marked]:
        """The leaves in these groups."""
        return [*{id(leaf): leaf for group in self.groups for leaf in group.leaves}.values()]

    def has_written(self, leaf: Marked) -> bool:
        """Whether the array of a leaf has a contribution of this pass."""
        return any([leaf is each for group in self._written for each in group.leaves])

    def __enter__(self) -> None:
        for group in self._all:
            group.direct = self

    def __exit__(self, *error: object) -> None:
        for group in self._all:
            group.direct = None

    def begin(self, group: LeafGroup) -> list[tuple[Marked, Any]]:
        """The gradients in a group that the operation is going to overwrite, but shall add to."""
        if not self._written:
            return []
        written = {id(leaf) for each in self._written for leaf in each.leaves}
        return [(leaf, leaf.grad.copy()) for leaf in group.leaves
                if leaf.request == "write" and id(leaf) in written]

    def end(self, group: LeafGroup, former: Sequence[tuple[Marked, Any]]) -> None:
        """The gradients in a group are written: add what `begin` returned."""
        for leaf, before in former:
            leaf.grad[:] = before + leaf.grad
        for leaf in group.leaves:
            leaf.fresh = True
        self._written.append(group)


End = TypeVar("End", bound=Recorded)


def latest_first(ends: Sequence[End]) -> list[End]:
    """Leaves and groups in the order in which MXNet differentiates by them.

    A group comes where the first group with one of its leaves is, later groups before earlier ones,
    as contributions to one leaf are added.  Moving averages depend on the order, because backward
    passes update them.
    """
    if len(ends) == 1 or not any([isinstance(end, LeafGroup) for end in ends]):
        return [*ends]
    users: dict[int, list[End]] = {}
    for end in reversed(ends):
        for leaf in end.leaves if isinstance(end, LeafGroup) else (end,):
            users.setdefault(id(leaf), []).append(end)
    ordered: dict[int, End] = {}
    for end in ends:
        for leaf in end.leaves if isinstance(end, LeafGroup) else (end,):
            ordered.update({id(user): user for user in users.pop(id(leaf), ())})
    return [*ordered.values()]


def unfold(graph: Graph) -> Graph:
    """The graph of a tape without operations that write gradients, so that gradients are recorded.

    Those of which they consist take their places as inputs of other nodes.
    """
    replaced: dict[Entry, Entry] = {}
    for node in graph.nodes:
        if replaced and node.inputs:
            node.inputs = [replaced.get(entry, entry) for entry in node.inputs]
        if isinstance(node.op, DirectGradientOp):
            assert isinstance(node, Recorded)
            for index, entry in enumerate(node.op.unfolded(node)):
                replaced[Entry(node, index)] = entry
                if (value := node.values[index]) is not None:
                    entry.node.values[entry.index] = value  # type: ignore[attr-defined]
    return Graph([replaced.get(entry, entry) for entry in graph.outputs]) if replaced else graph
