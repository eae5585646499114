"""Quantised layers of 8-bit numbers on blocked images, with what follows them.

    quantized_conv or quantized_fully_connected -> requantize -> quantized_act

become one step where the range of `requantize` is calibrated and nobody else reads what comes
between; a layer alone becomes one that gives its sums.  Reorders stand around it; where one such
layer reads another, and nobody else does, they go.  Results are the same bit by bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from ...graph import Entry, Graph, Node
from ...ops.op import Spec
from ..rewrite import Replacement, Rewritten, rewrite

__all__ = ["with_byte_layers"]

CONVOLUTION, DENSE = "_contrib_quantized_conv", "_contrib_quantized_fully_connected"


def with_byte_layers(before: Rewritten, first: Graph, specs: Sequence[Spec]) -> Rewritten:
    """`before` with such layers.

    `specs` are those of the entries of `first`, from which `before` has been rewritten.
    """
    if not any(node.op_name in (CONVOLUTION, DENSE) for node in before.graph.nodes):
        return before
    return _without_reorders(_joined(before, before.facts(first, specs)))


def _joined(before: Rewritten, known: Sequence[Spec | None]) -> Rewritten:
    """Every layer, `requantize` and ReLU in turn joins what is there already."""
    graph = before.graph
    uses = Counter(entry for node in graph.nodes for entry in node.inputs)
    uses.update(graph.outputs)
    images: dict[tuple[Entry, Any], Entry] = {}

    def rule(node: Node, inputs: list[Entry]) -> Replacement | None:
        if node.op_name in (CONVOLUTION, DENSE) and "__ctx_group__" not in node.attrs:
            data, out = known[graph.input_eids(node)[0]], known[graph.output_eids(node)[0]]
            return None if data is None or out is None else _layer(node, inputs, data, out, images)
        if inputs and inputs[0].node.op_name == "_from_bytes" and all(
                uses[entry] == 1 for entry in node.inputs):
            return _extended(node, inputs)
        return None

    return rewrite(before, rule)


def _layer(node: Node, inputs: list[Entry], data: Spec, out: Spec,
           images: dict[tuple[Entry, Any], Entry]) -> Replacement | None:
    """A layer on blocked images, between reorders; `images` are those there are already."""
    from ...ops.blocked.int8 import ByteLayer, FromBytes, IntoBytes, PackedBytes, layer_of

    op: Any = node.op
    found = layer_of(op, data, out)
    if found is None:
        return None
    source = inputs[0], found.x
    if source not in images:
        into = Node(IntoBytes(found.x, found.batch), f"{inputs[0].node.name}_blocks", inputs[:1])
        images[source] = Entry(into)
    packed = Node(PackedBytes(found.filters), f"{node.name}_packed", inputs[1:2])
    made = Node(ByteLayer(found, op, data.dtype), node.name,
                [images[source], Entry(packed, 0), Entry(packed, 1), *inputs[2:]], node.attrs)
    plain = Node(FromBytes(found.y, found.batch, out.shape, out.dtype), f"{node.name}_plain",
                 [Entry(made)])
    return Replacement([Entry(plain), Entry(made, 1), Entry(made, 2)],
                       f"{node.describe()} works on blocks of bytes")


def _extended(node: Node, inputs: list[Entry]) -> Replacement | None:
    """The layer before a node, if it can do the work of the node."""
    plain = inputs[0].node
    host, op = plain.inputs[0].node, cast("Any", node.op)
    own, ends = cast("Any", host.op), [Entry(host, 1), Entry(host, 2)]
    if inputs[1:] != ends:
        return None
    if op.name == "_contrib_requantize" and op.calibrated and own.requantize is None:
        own = replace(own, requantize=op)
    elif op.name == "_contrib_quantized_act" and own.target == np.int8:
        own = replace(own, relu=True)
    else:
        return None
    made = Node(own, host.name, host.inputs, host.attrs)
    plain = Node(replace(cast("Any", plain.op), dtype=own.target), plain.name, [Entry(made)])
    return Replacement([Entry(plain), Entry(made, 1), Entry(made, 2)],
                       f"{node.describe()} is done by {host.describe()}")


def _without_reorders(before: Rewritten) -> Rewritten:
    """Layers read the blocks of the layers before them, which have the halo that they need."""
    halos: dict[Node, int] = {}
    for node in before.graph.nodes:
        if _meets(node, node.inputs):
            host, own = node.inputs[0].node.inputs[0].node, cast("Any", node.op)
            halos[host] = max(halos.get(host, 0), own.form.halo)

    def rule(node: Node, inputs: list[Entry]) -> Replacement | None:
        op: Any = node.op
        if _meets(node, inputs):
            source = inputs[0].node.inputs[0]
            return Replacement([source], f"{node.name} are those of {source.node.describe()}")
        if op.name == "_byte_layer":
            x, y = (replace(form, halo=halo) for form, halo in (
                (op.bytes.x, _halo(inputs[0])), (op.bytes.y, halos.get(node, 0))))
            own = replace(op, bytes=replace(op.bytes, x=x, y=y))
        elif op.name == "_from_bytes":
            own = replace(op, form=replace(op.form, halo=_halo(inputs[0])))
        else:
            return None
        made = Node(own, node.name, inputs, node.attrs)
        return None if own == op else Replacement(
            [Entry(made, i) for i in range(node.num_outputs)], "")

    return rewrite(before, rule)


def _halo(image: Entry) -> int:
    """That of blocked bytes."""
    op: Any = image.node.op
    return op.bytes.y.halo if op.name == "_byte_layer" else op.form.halo


def _meets(node: Node, inputs: Sequence[Entry]) -> bool:
    """Whether a node brings images into the form from which they have just been brought."""
    if node.op_name != "_into_bytes" or inputs[0].node.op_name != "_from_bytes":
        return False
    into, out = (cast("Any", each.op) for each in (node, inputs[0].node))
    return bool(into.batch == out.batch and replace(into.form, halo=0) == replace(out.form, halo=0))
