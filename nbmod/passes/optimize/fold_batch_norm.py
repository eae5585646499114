"""Batch norm in inference is a scale and a shift per channel, which the layer before it can do.

    y = scale (W x + b - mean) + beta = (scale W) x + ((b - mean) scale + beta)

A layer that only a BatchNorm reads is replaced by one of new weights, which a `FoldedBatchNorm`
computes from the parameters of both.  Being rounded at other places, results differ in the last
digits.  BatchNorm *before* a layer is left alone: padding would have to be the shift, not 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...graph import Entry, Graph, Node
from ...ops.internal import FoldedBatchNorm
from ...ops.op import Spec
from ..rewrite import Replacement, Rewritten, rewrite
from .fuse_epilogue import NORMS

__all__ = ["fold_batch_norm"]

# By name: most networks have no need to import all of their modules.
LAYERS = frozenset({"Convolution", "Convolution_v1", "Deconvolution", "FullyConnected"})


def fold_batch_norm(before: Rewritten, first: Graph, specs: Sequence[Spec]) -> Rewritten:
    """Convolution, Deconvolution and FullyConnected in float32 or float64 take over the BatchNorm
    behind them, where all parameters are variables.

    `specs` are those of the entries of `first`, from which `before` has been rewritten.
    """
    graph = before.graph
    if not any(node.op_name in NORMS for node in graph.nodes):
        return before
    uses = Counter(entry for node in graph.nodes for entry in node.inputs)
    uses.update(graph.outputs)
    known = before.facts(first, specs)

    def rule(node: Node, inputs: list[Entry]) -> Replacement | None:
        if node.op_name not in NORMS or inputs[0].node.op_name not in LAYERS:
            return None
        layer, data = inputs[0].node, known[graph.input_eids(node)[0]]
        if (data is None or not _channels_agree(layer, node.op, data)
                or uses[node.inputs[0]] != 1 or uses[Entry(node, 1)] or uses[Entry(node, 2)]
                or not all(e.node.is_variable for e in (*layer.inputs[1:], *inputs[1:]))
                or layer.attrs.get("__ctx_group__") != node.attrs.get("__ctx_group__")):
            return None
        return Replacement([Entry(_folded(layer, node.op, inputs))] * node.num_outputs,
                           f"{node.describe()} is folded into {layer.name}")

    return rewrite(before, rule)


def _channels_agree(layer: Node, norm: Any, data: Spec) -> bool:
    """Whether the channels that batch norm scales are those that the layer's weights make."""
    rank, op = len(data.shape), layer.op
    last = getattr(op, "channels_last", True)  # those of FullyConnected are
    return (data.dtype in (np.float32, np.float64)
            and norm.axis % rank == (rank - 1 if last else 1))


def _folded(layer: Node, norm: Any, inputs: list[Entry]) -> Node:
    """The layer with the parameters that make it do the work of the norm."""
    op: Any = layer.op
    transposed = op.name == "Deconvolution"
    parameters = FoldedBatchNorm(norm.eps, norm.fix_gamma, op.no_bias,
                                 op.num_group if transposed else 1, transposed)
    derived = Node(parameters, f"{layer.name}_folded", [*layer.inputs[1:], *inputs[1:]],
                   {key: text for key, text in layer.attrs.items() if key == "__ctx_group__"})
    return Node(replace(op, no_bias=False), layer.name,
                [layer.inputs[0], Entry(derived, 0), Entry(derived, 1)],
                {**layer.attrs, "no_bias": "False"})
