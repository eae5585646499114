"""What follows a layer becomes part of it: additions, ReLU, and clips from 0 on.

Where nobody else reads what comes between, a batch norm does them, or a layer that learns nothing:
numbers that it has in registers need not be written, read, and written again.  CPUs do so on
blocked images (`layout`) and in dense layers, but for clips there, GPUs in whatever there is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np

from ...graph import Entry, Graph, Node
from ...ops.elementwise.float_op import single
from ..rewrite import Replacement, Rewritten, rewrite

__all__ = ["NORMS", "absorb", "learning"]

NORMS = frozenset({"BatchNorm", "_contrib_SyncBatchNorm"})
FOLLOWED = frozenset({"_blocked_batch_norm", "_followed_batch_norm"})
PLAIN = frozenset({"Convolution", "Convolution_v1"})
LAYERS = frozenset({"_blocked_convolution", "_followed_layer"})


def learning(graph: Graph, trained: Collection[str]) -> set[Node]:
    """Nodes whose results depend on a trained variable."""
    found: set[Node] = set()
    for node in graph.nodes:
        if node.op is None:
            if node.name in trained:
                found.add(node)
        elif any(entry.node in found for entry in node.inputs):
            found.add(node)
    return found


def absorb(before: Rewritten, trained: Collection[str], plain: bool = False) -> Rewritten:
    """`before` with fewer nodes; `trained` are the variables that get gradients.

    With `plain` those that no other pass has replaced do more, too, as they can on GPUs.

    A batch norm without a gradient keeps none: its backward pass would move its averages.  The
    gradient of a clip asks where numbers were before it, which batch norm with an addition forgets.
    """
    graph, learns = before.graph, learning(before.graph, trained)
    uses = Counter(entry for node in graph.nodes for entry in node.inputs)
    uses.update(graph.outputs)

    def able(entry: Entry, old: Entry) -> Any:
        """The op behind an entry, as one that can do more; None if it cannot."""
        hidden = (Entry(old.node, i) for i in range(1, old.node.num_outputs))
        op: Any = entry.node.op
        if op is None or entry.index or uses[old] != 1:
            return None
        op = _followed(op, plain, any(map(uses.get, hidden)))
        known = op.name in FOLLOWED or (op.name in LAYERS and old.node not in learns)
        return op if known and not op.relu else None

    def rule(node: Node, inputs: list[Entry]) -> Replacement | None:
        most = _most(node.op)
        own = able(inputs[0], node.inputs[0]) if most else None
        if own is not None and (most == np.inf or not (trained and own.add or (
                own.name == "_followed_layer" and not plain))):
            return _replaced(node, inputs[0].node, replace(own, relu=True, most=most))
        if node.op_name != "elemwise_add" or node.inputs[0] == node.inputs[1]:
            return None
        for entry, old, other in zip(inputs, node.inputs, inputs[::-1], strict=True):
            own = able(entry, old)
            if own is not None and not own.add and (old.node in learns) == (node in learns):
                return _replaced(node, entry.node, replace(own, add=True), add=other)
        return None

    return rewrite(before, rule)


def _followed(op: Any, plain: bool, watched: bool) -> Any:
    """An op that can do more than `op` does, of which hidden outputs may be `watched`; `op` itself
    where there is none.  What has them is imported in networks that need it."""
    if plain and op.name in NORMS and not (op.output_mean_var or watched):
        from ...ops.nn.batch_norm import FollowedNorm

        return FollowedNorm(op)
    if op.name == "FullyConnected" or (plain and op.name in PLAIN):
        from ...ops.nn.fused_epilogue import FollowedLayer

        return FollowedLayer(op)
    return op


def _replaced(node: Node, host: Node, op: Any, **more: Entry) -> Replacement:
    """`host` as `op`, which does what `node` does, with `more` inputs."""
    named = dict(zip(host.required_op.list_inputs(), host.inputs, strict=True), **more)
    made = Node(op, host.name, [named[name] for name in op.list_inputs()], host.attrs)
    return Replacement([Entry(made)], f"{node.describe()} is done by {host.describe()}")


def _most(op: Any) -> float:
    """The upper bound of what else is 0 or more; infinity for ReLU, 0 for other functions."""
    if op.name == "clip" and op.a_min == 0:
        return max(single(op.a_max), 0)
    is_relu = op.name == "relu" or (op.name == "Activation" and op.act_type == "relu")
    return np.inf if is_relu else 0
