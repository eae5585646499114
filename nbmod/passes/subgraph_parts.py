"""The part of a body to compute (`ops.subgraph`), and the specs of its entries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..graph import Entry, Node
from ..ops.op import Spec
from ..ops.subgraph import SubgraphRun
from .infer import infer_specs

__all__ = ["needed_nodes", "part_specs"]


def part_specs(part: SubgraphRun) -> list[Spec]:
    """Specs of every entry of a body: the forward pass decides, then heads and gradients follow."""
    body = part.body
    known = dict(zip(body.variables, part.specs, strict=True))
    specs = infer_specs(body.forward, known)
    known |= {Entry(head): specs[body.forward.eid(entry)]
              for head, entry in zip(body.heads, body.outputs, strict=False)}
    return infer_specs(body.graph, known, specs)


def needed_nodes(targets: Iterable[Entry], known: set[Entry], nodes: Sequence[Node]) -> list[Node]:
    """The nodes, in order, that have to run to compute `targets` from `known`."""
    waiting, needed = [*targets], set()
    while waiting:
        entry = waiting.pop()
        if entry not in known and id(entry.node) not in needed:
            needed.add(id(entry.node))
            waiting += entry.node.inputs
    return [node for node in nodes if id(node) in needed and not node.is_variable]
