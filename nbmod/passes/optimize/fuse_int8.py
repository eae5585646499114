"""Int8 fusion: quantized layers on blocked images, with their requantization and activation.

    quantized_conv or quantized_fully_connected -> requantize -> quantized_act

become one step where the range of `requantize` is calibrated and nothing else reads the results in
between; a layer alone gives its int32 sums.  Reorders into and out of blocks surround each step,
and cancel where one such step alone reads another.  Results are bitwise the same.

Assumes: nothing else reads integers or range in between (`_fuse`); what follows reads the range of
the layer, is calibrated, and comes in this order (`_joined`); layouts agree up to the halo, which
is the widest that a reader needs (`_undoes`, `_cancel_reorders`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from ...graph import Entry, Node
from ...ops.op import Spec
from ..remarks import Obstacle, obstacle
from ..rewrite import Replacement, Rewritten, rewrite
from .analysis import count_uses, other_reader

if TYPE_CHECKING:
    from ...ops.blocked.int8 import BlockedInt8Layer, Int8FromBlocks, Int8IntoBlocks
    from ...ops.quantization.quantize import Requantize
    from ...ops.quantization.quantized_layers import QuantizedConvolution, QuantizedFullyConnected

__all__ = ["fuse_int8"]

CONVOLUTION, DENSE = "_contrib_quantized_conv", "_contrib_quantized_fully_connected"
FOLLOWERS = REQUANTIZE, ACTIVATION = "_contrib_requantize", "_contrib_quantized_act"


def fuse_int8(before: Rewritten) -> Rewritten:
    """`before` with fused int8 layers."""
    if not any(node.op_name in (CONVOLUTION, DENSE) for node in before.graph.nodes):
        return before
    return _cancel_reorders(_fuse(before))


def _fuse(before: Rewritten) -> Rewritten:
    """Replace each layer; the `requantize` and the ReLU after it join in turn."""
    graph, known = before.graph, before.specs
    uses = count_uses(graph)
    reordered: dict[tuple[Entry, object], Entry] = {}

    def rule(node: Node, inputs: list[Entry]) -> Replacement | Obstacle | None:
        if node.op_name in (CONVOLUTION, DENSE):
            if "__ctx_group__" in node.attrs:
                return obstacle("it has no ctx_group", ctx_group=node.attrs["__ctx_group__"])
            data, out = known[graph.input_eids(node)[0]], known[graph.output_eids(node)[0]]
            if data is None or out is None:
                return None
            return _blocked_layer(node, inputs, data, out, reordered)
        if node.op_name in FOLLOWERS and inputs[0].node.op_name == "_from_bytes":
            reasons = (other_reader(graph, uses, entry) for entry in node.inputs)
            return next(filter(None, reasons), None) or _joined(node, inputs)
        return None

    return rewrite(before, rule)


def _blocked_layer(node: Node, inputs: list[Entry], data: Spec, out: Spec,
                   reordered: dict[tuple[Entry, object], Entry]) -> Replacement | Obstacle:
    """The layer on blocked images, between reorders; `reordered` are the inputs in blocks so far,
    by entry and layout."""
    from ...ops.blocked import int8

    op = cast("QuantizedConvolution | QuantizedFullyConnected", node.op)
    layer = int8.layer_of(op, data, out)
    if layer is None:
        return obstacle("kernels of bytes fit its axes and groups of channels", shape=data.shape)
    source = inputs[0], layer.x
    if source not in reordered:
        into = Node(int8.Int8IntoBlocks(layer.x, layer.batch), f"{inputs[0].node.name}_blocks",
                    inputs[:1])
        reordered[source] = Entry(into)
    packed = Node(int8.PackedInt8Filters(layer.filters), f"{node.name}_packed", inputs[1:2])
    host = Node(int8.BlockedInt8Layer(layer, op, data.dtype), node.name,
                [reordered[source], Entry(packed, 0), Entry(packed, 1), *inputs[2:]], node.attrs)
    plain = Node(int8.Int8FromBlocks(layer.y, layer.batch, out.shape, out.dtype),
                 f"{node.name}_plain", [Entry(host)])
    return Replacement([Entry(plain), Entry(host, 1), Entry(host, 2)],
                       f"{node.describe()} works on blocks of bytes",
                       rule="it works on blocks of bytes", into=host)


def _joined(node: Node, inputs: list[Entry]) -> Replacement | Obstacle:
    """The layer before `node`, which requantizes or is an activation, if it can do that, too."""
    plain = inputs[0].node
    host = plain.inputs[0].node
    layer, ranges = cast("BlockedInt8Layer", host.op), [Entry(host, 1), Entry(host, 2)]
    if inputs[1:] != ranges:
        return obstacle("it reads the range of the layer", layer=host, reads=inputs[1:])
    if node.op_name == REQUANTIZE:
        requantize = cast("Requantize", node.op)
        if not requantize.calibrated:
            return obstacle("its range is calibrated")
        layer = replace(layer, requantize=requantize)
    elif layer.target != np.int8:
        return obstacle("the layer gives int8", layer=host, gives=str(layer.target))
    else:
        layer = replace(layer, relu=True)
    new_host = Node(layer, host.name, host.inputs, host.attrs)
    plain = Node(replace(cast("Int8FromBlocks", plain.op), dtype=layer.target), plain.name,
                 [Entry(new_host)])
    return Replacement([Entry(plain), Entry(new_host, 1), Entry(new_host, 2)],
                       f"{node.describe()} is done by {host.describe()}",
                       rule="the layer before it does it", joined=[node.inputs[0].node],
                       into=new_host)


def _cancel_reorders(before: Rewritten) -> Rewritten:
    """Let layers read the blocks of the layers before them, written with the halo they need."""
    # The widest halo that any reader of a layer needs.
    halos: dict[Node, int] = {}
    for node in before.graph.nodes:
        if _undoes(node, node.inputs):
            host = node.inputs[0].node.inputs[0].node
            halos[host] = max(halos.get(host, 0), cast("Int8IntoBlocks", node.op).layout.halo)

    def rule(node: Node, inputs: list[Entry]) -> Replacement | None:
        if _undoes(node, inputs):
            source = inputs[0].node.inputs[0]
            return Replacement([source], f"{node.name} are those of {source.node.describe()}",
                               rule="the blocks of the layer before it are read")
        op: BlockedInt8Layer | Int8FromBlocks
        if node.op_name == "_byte_layer":
            layer = cast("BlockedInt8Layer", node.op)
            x, y = (replace(layout, halo=halo) for layout, halo in (
                (layer.bytes.x, _halo(inputs[0])), (layer.bytes.y, halos.get(node, 0))))
            op = replace(layer, bytes=replace(layer.bytes, x=x, y=y))
        elif node.op_name == "_from_bytes":
            reorder = cast("Int8FromBlocks", node.op)
            op = replace(reorder, layout=replace(reorder.layout, halo=_halo(inputs[0])))
        else:
            return None
        clone = Node(op, node.name, inputs, node.attrs)
        return None if op == node.op else Replacement(
            [Entry(clone, i) for i in range(node.num_outputs)], "",
            rule="blocks have the padding that their readers need")

    return rewrite(before, rule)


def _halo(image: Entry) -> int:
    """That of a blocked int8 image."""
    if image.node.op_name == "_byte_layer":
        return cast("BlockedInt8Layer", image.node.op).bytes.y.halo
    return cast("Int8IntoBlocks", image.node.op).layout.halo


def _undoes(node: Node, inputs: Sequence[Entry]) -> bool:
    """Whether a node reorders images into the layout from which they were just reordered."""
    if node.op_name != "_into_bytes" or inputs[0].node.op_name != "_from_bytes":
        return False
    into, out = cast("Int8IntoBlocks", node.op), cast("Int8FromBlocks", inputs[0].node.op)
    return into.batch == out.batch and replace(into.layout, halo=0) == replace(out.layout, halo=0)
