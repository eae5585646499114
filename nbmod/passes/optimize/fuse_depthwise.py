"""Convolutions that follow one another, as one step that goes through them band by band.

A depthwise convolution does little work for every number it reads, and in inference nobody else
reads what comes before it and behind it.  So it is one step with the convolution before it and that
of single pixels behind it, where the batch is too large for caches (see `ops.blocked.chain`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod
from typing import Any, cast

from ...graph import Entry, Graph, Node
from ...ops.op import Spec
from ..infer import specs_of
from ..rewrite import Replacement, Rewritten, rewrite

__all__ = ["with_chains"]


def with_chains(before: Rewritten, first: Graph, specs: Sequence[Spec]) -> Rewritten:
    """`before` with a node for each chain.

    `specs` are those of the entries of `first`, from which `before` has been rewritten.
    """
    graph = before.graph
    if not any(map(_is_depthwise, graph.nodes)):
        return before
    from ...ops.blocked import depthwise_chain

    uses = Counter(entry for node in graph.nodes for entry in node.inputs)
    uses.update(graph.outputs)
    known = specs_of(graph, before.facts(first, specs))

    def rule(node: Node, inputs: list[Entry]) -> Replacement | None:
        if node.op_name != "_blocked_convolution" or uses[node.inputs[0]] != 1:
            return None
        host, own = inputs[0].node, cast("Any", inputs[0].node.op)
        links = (own,) if host.op_name == node.op_name else getattr(own, "links", ())
        data = known[graph.input_eids(node)[0]]
        large = len(links) > 1 or (data is not None and prod(data.shape) > depthwise_chain.NEAR)
        if not (large and depthwise_chain.follows(links, cast("Any", node.op))):
            return None
        made = Node(depthwise_chain.BlockedChain((*links, cast("Any", node.op))), node.name,
                    [*host.inputs, *inputs[1:]], node.attrs)
        return Replacement([Entry(made)],
                           f"{node.describe()} follows {host.name} band by band")

    return rewrite(before, rule)


def _is_depthwise(node: Node) -> bool:
    op: Any = node.op
    return node.op_name == "_blocked_convolution" and 1 < op.slide.groups == op.filters
