"""Epilogue fusion: additions, ReLU and clips from 0 become part of the layer or batch norm before.

The layer applies them to results that are still in registers, which saves writing and reading them
again.  Nothing else may read the results in between.  On CPUs the blocked layers (`blocked_layout`)
have epilogues, and dense layers, but for clips; on GPUs all layers have.

Assumes: nothing else reads the results in between or hidden outputs, and layers need no gradient
(`host_of`); both operands of a sum have one shape and are not the same (`rule`); a norm has a
backward pass exactly where the sum has one, and the order of writes to states that nodes share does
not change (`may_add`); ReLU and clips differ in their gradients at the bounds (`_upper_bound`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from ...graph import Entry, Node
from ...ops.elementwise.float_op import as_float32
from ..rewrite import Replacement, Rewritten, rewrite
from .analysis import (
    CONVOLUTIONS,
    NORMS,
    count_uses,
    nodes_with_gradient,
    writers_of_shared_states,
)

__all__ = ["fuse_epilogue"]

FUSED_NORMS = frozenset({"_blocked_batch_norm", "_fused_batch_norm"})
FUSED_LAYERS = frozenset({"_blocked_convolution", "_fused_layer"})

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
    learns, uses = nodes_with_gradient(graph, trained), count_uses(graph)
    ordered = learns.intersection(writers_of_shared_states(graph))

    def host_of(entry: Entry, old: Entry) -> EpilogueOp | None:
        """The op that makes `entry`, as one with an epilogue; None if it cannot have one."""
        op: EpilogueOp = entry.node.op
        if op is None or entry.index or uses[old] != 1:
            return None
        hidden = (Entry(old.node, i) for i in range(1, old.node.num_outputs))
        op = _with_epilogue(op, plain, any(map(uses.get, hidden)))
        fits = op.name in FUSED_NORMS or (op.name in FUSED_LAYERS and old.node not in learns)
        return op if fits and not op.relu else None

    def may_add(host: Node, total: Node) -> bool:
        """Whether both surely have backward passes or neither has, and those in the same order."""
        if host not in learns:
            return total not in learns
        return host not in ordered and any(entry.node.is_variable and entry.node.name in trained
                                           for entry in host.inputs)

    def rule(node: Node, inputs: list[Entry]) -> Replacement | None:
        # ReLU, and clips with lower bound 0.
        most = _upper_bound(node.op)
        op = host_of(inputs[0], node.inputs[0]) if most else None
        if op is not None and (most == np.inf or not (trained and op.add or (
                op.name == "_fused_layer" and not plain))):
            return _replaced(node, node.inputs[0], inputs[0].node,
                             replace(op, relu=True, most=most))
        # Additions: either operand may be the layer, the other one becomes an input of it.
        if node.op_name != "elemwise_add" or node.inputs[0] == node.inputs[1]:
            return None
        for entry, old, other in zip(inputs, node.inputs, inputs[::-1], strict=True):
            op = host_of(entry, old)
            if op is not None and not op.add and may_add(old.node, node):
                return _replaced(node, old, entry.node, replace(op, add=True), add=other)
        return None

    return rewrite(before, rule)


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
