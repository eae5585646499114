"""Batch norm folding: in inference, batch norm becomes part of the weights of the layer before it.

    y = scale (W x + b - mean) + beta = (scale W) x + ((b - mean) scale + beta)

The layer gets new weights, which a `FoldedBatchNorm` node computes from the parameters of both.
Rounding differs, so results differ in the last digits.  A BatchNorm *before* a layer is not folded:
the padding of the layer would have to be the shift instead of 0.

Assumes: nothing else reads the layer or the statistics, and all parameters are variables (`rule`);
the norm scales output channels, and these are an axis of the weight before the kernel, in float32
or float64 (`_differs_in_channels`).  Parameters may change (`DerivedConstants`).  Scales are
finite: where one is not, results that were infinite may be NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from ...graph import Entry, Node
from ...ops.internal import FoldedBatchNorm
from ...ops.op import Spec
from ..remarks import Obstacle, obstacle
from ..rewrite import Replacement, Rewritten, rewrite
from .analysis import CONVOLUTIONS, NORMS, count_uses, other_reader

if TYPE_CHECKING:
    from ...ops.nn.batch_norm import BatchNormOp
    from ...ops.nn.convolution import Convolution
    from ...ops.nn.deconvolution import Deconvolution
    from ...ops.nn.fully_connected import FullyConnected

__all__ = ["fold_batch_norm"]

LAYERS = CONVOLUTIONS | {"Deconvolution", "FullyConnected"}


def fold_batch_norm(before: Rewritten) -> Rewritten:
    """Fold each BatchNorm into the Convolution, Deconvolution or FullyConnected before it, in
    float32 or float64, where all parameters are variables and nothing else reads the layer."""
    graph = before.graph
    if not any(node.op_name in NORMS for node in graph.nodes):
        return before
    uses, known = count_uses(graph), before.specs

    def obstacle_to(node: Node, layer: Node, parameters: Sequence[Entry]) -> Obstacle | None:
        """The reason why a norm cannot be folded into `layer`."""
        data = known[graph.input_eids(node)[0]]
        assert data is not None
        why = (_differs_in_channels(layer, node, data)
               or other_reader(graph, uses, node.inputs[0]))
        if why:
            return why
        statistics = next((i for i in (1, 2) if uses[Entry(node, i)]), 0)
        if statistics:
            return obstacle("nothing reads its statistics", output=Entry(node, statistics))
        computed = next((entry for entry in parameters if not entry.node.is_variable), None)
        if computed:
            return obstacle("all parameters are variables", parameter=computed)
        groups = [each.attrs.get("__ctx_group__") for each in (layer, node)]
        if groups[0] != groups[1]:
            return obstacle("it has the ctx_group of the layer", layer=layer, ctx_groups=groups)
        return None

    def rule(node: Node, inputs: list[Entry]) -> Replacement | Obstacle | None:
        if node.op_name not in NORMS or inputs[0].node.op_name not in LAYERS:
            return None
        layer = inputs[0].node
        if known[graph.input_eids(node)[0]] is None:
            return None
        why = obstacle_to(node, layer, [*layer.inputs[1:], *inputs[1:]])
        return why or Replacement([Entry(_folded(layer, node, inputs))] * node.num_outputs,
                           f"{node.describe()} is folded into {layer.name}",
                           rule="the layer before it does it", joined=[node.inputs[0].node])

    return rewrite(before, rule)


def _differs_in_channels(layer: Node, norm: Node, data: Spec) -> Obstacle | None:
    """The obstacle where batch norm does not scale the axis of the layer's output channels."""
    rank, axis = len(data.shape), cast("BatchNormOp", norm.op).axis
    channels_last = getattr(layer.op, "channels_last", True)  # FullyConnected: (..., channels)
    if channels_last and layer.op_name == "Deconvolution":  # nor are they an axis before the kernel
        return obstacle("channels are the first axis of transposed layers", layer=layer)
    if data.dtype not in (np.float32, np.float64):
        return obstacle("it computes in float32 or float64", dtype=str(data.dtype))
    channels = rank - 1 if channels_last else 1
    if axis % rank != channels:
        return obstacle("it scales the channels of the layer", axis=axis, channels=channels)
    return None


def _folded(layer: Node, norm_node: Node, inputs: list[Entry]) -> Node:
    """The layer, with weights and bias that do the work of the norm."""
    op = cast("Convolution | Deconvolution | FullyConnected", layer.op)
    norm = cast("BatchNormOp", norm_node.op)
    transposed = op.name == "Deconvolution"
    parameters = FoldedBatchNorm(norm.eps, norm.fix_gamma, op.no_bias,
                                 getattr(op, "num_group", 1) if transposed else 1, transposed)
    derived = Node(parameters, f"{layer.name}_folded", [*layer.inputs[1:], *inputs[1:]],
                   {key: text for key, text in layer.attrs.items() if key == "__ctx_group__"})
    return Node(replace(op, no_bias=False), layer.name,
                [layer.inputs[0], Entry(derived, 0), Entry(derived, 1)],
                {**layer.attrs, "no_bias": "False"})
