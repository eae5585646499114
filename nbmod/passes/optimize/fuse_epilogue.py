"""Epilogue fusion: additions, ReLU and clips from 0 become part of the layer or batch norm before.

The layer applies them to results that are still in registers, which saves writing and reading them
again.  Nothing else may read the results in between.  On CPUs the blocked layers (`blocked_layout`)
have epilogues, and dense layers, but for clips; on GPUs all layers have.

Assumes: nothing else reads the results in between or hidden outputs, and layers need no gradient
(`host_of`); both operands of a sum have one shape, and are not the same, which would be two readers
(`summed`); a norm has a backward pass exactly where the sum has one, and the order of writes to
states that nodes share does not change (`cannot_add`); ReLU and clips differ in their gradients at
the bounds (`_upper_bound`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from ...graph import Entry, Graph, Node
from ...ops.elementwise.float_op import as_float32
from ..remarks import Obstacle, obstacle
from ..rewrite import Replacement, Rewritten, rewrite
from .analysis import (
    CONVOLUTIONS,
    NORMS,
    count_uses,
    nodes_with_gradient,
    other_reader,
    writers_of_shared_states,
)

__all__ = ["fuse_epilogue"]

FUSED_NORMS = frozenset({"_blocked_batch_norm", "_fused_batch_norm"})
FUSED_LAYERS = frozenset({"_blocked_convolution", "_fused_layer"})
HOSTS = CONVOLUTIONS | NORMS | FUSED_NORMS | FUSED_LAYERS | {"FullyConnected"}
"""Layers that have epilogues somewhere."""

EpilogueOp: TypeAlias = Any  # type: ignore[explicit-any]
"""An op with the fields `add`, `relu` and `most`.  Any: these are dataclasses of `ops.nn` and
`ops.blocked` without a common base, which are imported only in networks that need them."""


def fuse_epilogue(before: Rewritten, trained: Collection[str], plain: bool = False) -> Rewritten:
    """`before` with fewer nodes; `trained` are the variables that get gradients.

    With `plain` layers in plain (not blocked) layout get epilogues too, as GPUs have them.

    Layers are fused where they need no gradient; batch norm has a backward pass with epilogue.  An
    addition is fused if it needs a gradient exactly where its host does: a batch norm without one,
    such as behind BlockGrad, must not get a backward pass, which would update its moving averages;
    with a parameter that is trained it has one.  In training a clip after
    an addition stays apart, since its gradient depends on its input, which the host does not store.
    """
    graph = before.graph
    learns = nodes_with_gradient(graph, trained)
    ordered = learns.intersection(writers_of_shared_states(graph))
    return rewrite(before, _Epilogues(graph, trained, plain, learns, ordered).rule)


class _Epilogues:
    """The rule that makes nodes epilogues of layers, or says why it does not."""

    def __init__(self, graph: Graph, trained: Collection[str], plain: bool, learns: set[Node],
                 ordered: set[Node]):
        self.graph, self.trained, self.plain, self.learns = graph, trained, plain, learns
        self.ordered = ordered
        """Nodes that learn, of which another one has the same state."""
        self.uses = count_uses(graph)

    def rule(self, node: Node, inputs: list[Entry]) -> Replacement | Obstacle | None:
        most = _upper_bound(node.op)    # that of ReLU, and of clips with lower bound 0
        if most:
            return self.clipped(node, inputs[0], most)
        return self.summed(node, inputs) if node.op_name == "elemwise_add" else None

    def clipped(self, node: Node, source: Entry, most: float) -> Replacement | Obstacle | None:
        """`node`, which is ReLU or a clip with lower bound 0, as a part of the layer before it."""
        op, host = self.host_of(source, node.inputs[0]), source.node
        if op is None or isinstance(op, Obstacle):
            return op
        if most < np.inf and self.trained and op.add:
            return obstacle("the layer adds nothing, or nothing is trained", layer=host)
        if most < np.inf and op.name == "_fused_layer" and not self.plain:
            return obstacle("a dense layer is on a GPU", layer=host)
        return _replaced(node, node.inputs[0], host, replace(op, relu=True, most=most))

    def summed(self, node: Node, inputs: list[Entry]) -> Replacement | Obstacle | None:
        """An addition: either operand may be the layer, the other one becomes an input of it."""
        reasons: list[Obstacle] = []
        for entry, old, other in zip(inputs, node.inputs, inputs[::-1], strict=True):
            op = self.host_of(entry, old)
            if op is None:
                continue
            if isinstance(op, Obstacle):
                reasons.append(op)
                continue
            why = self.cannot_add(op, old.node, node)
            if why is None:
                return _replaced(node, old, entry.node, replace(op, add=True), add=other)
            reasons.append(why)
        return reasons[0] if reasons else None

    def host_of(self, entry: Entry, old: Entry) -> EpilogueOp | Obstacle | None:
        """The op that makes `entry`, as one with an epilogue, or the reason why it cannot have one;
        None if it is no layer."""
        op: EpilogueOp = entry.node.op
        if op is None or entry.index or op.name not in HOSTS:
            return None
        other = other_reader(self.graph, self.uses, old)
        if other is not None:
            return other
        if op.name not in NORMS | FUSED_NORMS and old.node in self.learns:
            return obstacle("the layer is not trained", layer=old.node)
        hidden = (Entry(old.node, i) for i in range(1, old.node.num_outputs))
        op = _with_epilogue(op, self.plain, any(map(self.uses.get, hidden)))
        if op.name in NORMS and self.plain:
            return obstacle("nothing reads the statistics of the norm", layer=old.node)
        if op.name not in FUSED_NORMS | FUSED_LAYERS:
            return obstacle("the layer works on blocks, or on a GPU", layer=old.node)
        return obstacle("the layer has no ReLU yet", layer=entry.node) if op.relu else op

    def cannot_add(self, op: EpilogueOp, host: Node, total: Node) -> Obstacle | None:
        """The reason why `host`, as `op`, cannot add: both surely have backward passes or neither
        has, and those in the same order."""
        if op.add:
            return obstacle("the layer adds nothing yet", layer=host)
        if host not in self.learns:
            return obstacle("the sum needs no gradient, or the layer too", layer=host) if (
                total in self.learns) else None
        if host in self.ordered:
            return obstacle("no other node has the states of the norm", layer=host)
        if any(entry.node.is_variable and entry.node.name in self.trained
               for entry in host.inputs):
            return None
        return obstacle("a parameter of the norm is trained", layer=host)


def _with_epilogue(op: EpilogueOp, plain: bool, reads_hidden: bool) -> EpilogueOp:
    """The op with an epilogue that computes what `op` does; `op` itself where there is none.

    `reads_hidden`: some node reads hidden outputs of `op`, which a fused batch norm has not.
    """
    if plain and op.name in NORMS and not (op.output_mean_var or reads_hidden):
        from ...ops.nn.batch_norm import FusedBatchNorm

        return FusedBatchNorm(op)
    if op.name == "FullyConnected" or (plain and op.name in CONVOLUTIONS):
        from ...ops.nn.fused_epilogue import FusedLayer

        return FusedLayer(op)
    return op


def _replaced(node: Node, old: Entry, host: Node, op: EpilogueOp, **more: Entry) -> Replacement:
    """`host`, which makes `old`, as `op`, which does what `node` does too, with `more` inputs."""
    named = dict(zip(host.required_op.list_inputs(), host.inputs, strict=True), **more)
    new_host = Node(op, host.name, [named[name] for name in op.list_inputs()], host.attrs)
    return Replacement([Entry(new_host)], f"{node.describe()} is done by {host.describe()}",
                       rule="the layer before it does it", joined=[old.node])


def _upper_bound(op: EpilogueOp) -> float:
    """That of a function that clips from 0 on, infinity for ReLU; 0 for other functions.

    A clip without an upper bound is another function: its gradient at 0 is 1.
    """
    if op.name == "clip" and op.a_min == 0:
        most = as_float32(op.a_max)
        return max(most, 0) if most < np.inf else 0
    is_relu = op.name == "relu" or (op.name == "Activation" and op.act_type == "relu")
    return np.inf if is_relu else 0
