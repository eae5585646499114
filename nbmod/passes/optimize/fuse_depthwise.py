"""Layer fusion of separable convolutions: they run together, one band of image rows at a time.

A depthwise convolution does little arithmetic per element that it reads, so it is bound by memory
bandwidth.  In inference nothing else reads its input and its output.  So it runs in one step with
the convolution before it and the pointwise (1 x 1) convolution after it, and a band of rows passes
through all of them while it is in the cache (see `ops.blocked.depthwise_chain`).

Assumes: nothing else reads what is between (`rule`); weights are packed, so nothing is trained, all
convolutions are direct, and only the pointwise one adds a tensor (`depthwise_chain.can_extend`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, cast

from ...graph import Entry, Node
from ..infer import specs_of
from ..remarks import Obstacle, obstacle
from ..rewrite import Replacement, Rewritten, rewrite
from .analysis import count_uses, other_reader

if TYPE_CHECKING:
    from ...ops.blocked.ops import BlockedConvolution

__all__ = ["fuse_depthwise"]


def fuse_depthwise(before: Rewritten) -> Rewritten:
    """`before` with one node for each chain of convolutions around a depthwise one."""
    graph = before.graph
    convolutions = [cast("BlockedConvolution", node.op) for node in graph.nodes
                    if node.op_name == "_blocked_convolution"]
    if not any(map(_is_depthwise, convolutions)):
        return before
    from ...ops.blocked import depthwise_chain

    uses = count_uses(graph)
    known = specs_of(graph, before.specs)

    def obstacle_to(node: Node, links: Sequence[BlockedConvolution]) -> Obstacle | None:
        """The reason why a convolution cannot be the next one after `links`."""
        other = other_reader(graph, uses, node.inputs[0])
        if other is not None:
            return other
        # What fits into the cache as a whole gains nothing from bands.
        data = known[graph.input_eids(node)[0]]
        elements = prod(data.shape) if data is not None else 0
        if len(links) == 1 and elements <= depthwise_chain.L2_ELEMENTS:
            return obstacle("images are larger than the cache", elements=elements,
                            cache=depthwise_chain.L2_ELEMENTS)
        return None

    def rule(node: Node, inputs: list[Entry]) -> Replacement | Obstacle | None:
        """Append a convolution to the convolution, or to the chain, that it reads."""
        if node.op_name != "_blocked_convolution":
            return None
        op, host = cast("BlockedConvolution", node.op), inputs[0].node
        links: tuple[BlockedConvolution, ...] = (
            (cast("BlockedConvolution", host.op),) if host.op_name == node.op_name
            else getattr(host.op, "links", ()))
        if not links or not (_is_depthwise(links[-1]) or _is_depthwise(op)):
            return None
        why = obstacle_to(node, links)
        if why is not None:
            return why
        if not depthwise_chain.can_extend(links, op):
            return obstacle("packed and direct: depthwise after whole, or 1 x 1 after depthwise",
                            layer=node.inputs[0].node)
        chain = Node(depthwise_chain.BlockedChain((*links, op)), node.name,
                     [*host.inputs, *inputs[1:]], node.attrs)
        return Replacement([Entry(chain)], f"{node.describe()} follows {host.name} band by band",
                           rule="it follows the layer before it band by band",
                           joined=[node.inputs[0].node])

    return rewrite(before, rule)


def _is_depthwise(op: BlockedConvolution) -> bool:
    return 1 < op.slide.groups == op.filters
