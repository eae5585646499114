"""Convolution and pooling on some images at a time, where what is between them is large.

An image is largest behind the first convolutions, and the pooling after them leaves a quarter of
it.  In inference nobody else reads what stands between the two, so it need not be there for the
whole batch: `InParts` takes so many images through both that it stays in the caches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod
from typing import Any

from ...graph import Entry, Graph, Node
from ...ops.elementwise.formula_op import FormulaOp
from ...ops.nn.batch_tiles import InParts, divisors_up_to
from ...ops.op import Spec
from ..infer import specs_of
from ..rewrite import Replacement, Rewritten, rewrite

__all__ = ["in_parts"]

NEAR = 2 ** 22
"""Bytes between two ops at a time."""
FEW = 4
"""Images at a time that are too few to keep threads busy."""


def in_parts(before: Rewritten, first: Graph, specs: Sequence[Spec]) -> Rewritten:
    """`before` with one node for each convolution, functions of its results, and pooling.

    `specs` are those of the entries of `first`, from which `before` has been rewritten.
    """
    graph = before.graph
    if not any(_chain(node, {}) for node in graph.nodes):
        return before
    known = specs_of(graph, before.facts(first, specs))
    uses = Counter(entry for node in graph.nodes for entry in node.inputs)
    uses.update(graph.outputs)

    def rule(node: Node, inputs: list[Entry]) -> Replacement | None:
        chain = _chain(node, uses)
        images = _images(chain, graph, known) if chain else 0
        if not images:
            return None
        head, names = chain[0], " -> ".join(each.name for each in chain)
        rest = [entry for each in chain for entry in each.inputs[1:]]
        made = Node(InParts(tuple(each.op for each in chain if each.op), images), node.name,
                    [head.inputs[0], *rest])
        return Replacement([Entry(made)], f"{names}: {images} image(s) at a time")

    return rewrite(before, rule)


def _chain(pooling: Node, uses: Any) -> list[Node]:
    """The nodes from a convolution to a pooling; none if others read what is between them."""
    if pooling.op_name != "_blocked_pooling":
        return []
    found = [pooling]
    while True:
        entry = found[0].inputs[0]
        node, op = entry.node, entry.node.op
        if uses.get(entry, 1) != 1 or node.op is None:
            return []
        found.insert(0, node)
        if node.op_name == "_blocked_convolution":
            return [] if getattr(op, "add", True) else found
        if not (isinstance(op, FormulaOp) and len(node.inputs) == 1):
            return []


def _images(chain: list[Node], graph: Graph, known: Sequence[Spec | None]) -> int:
    """How many images at a time; 0 for all of them."""
    out, weight = (known[graph.eid(entry)] for entry in (chain[1].inputs[0], chain[0].inputs[1]))
    if out is None or weight is None:
        return 0
    batch, each = out.shape[0], prod(out.shape[1:]) * out.dtype.itemsize
    images = max(divisors_up_to(batch, NEAR // each), default=0)
    return images if FEW < images < batch and weight.nbytes <= images * each else 0
