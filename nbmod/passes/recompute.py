"""Mirroring: less memory for more work.

What backward reads of forward must be kept from one to the other, and for a deep network that is
most of its memory.  A *mirrored* node is not kept: backward reads a clone of it, which is computed
again when it is needed.  A clone reads clones where its inputs are mirrored too, so a chain is
computed again from the nearest tensor that is kept.  (Training deep nets with sublinear memory
cost: Chen et al., 2016, https://arxiv.org/abs/1604.06174.)

Which nodes are mirrored is the user's choice: those with the attribute `force_mirroring`, or, with
MXNET_BACKWARD_DO_MIRROR=1, all that are cheap.  Never mirrored are nodes that draw random numbers
or change states, which would not give the same again, and outputs of the graph, which are kept
anyway.  Hidden outputs are kept as well: they are what forward notes for backward, and most are
small.

Assumes: what a clone reads is in backward as it was in forward, as any gradient does, and that the
op gives the same again; checked in `_is_chosen`, by `Op.is_pure`.
"""

from __future__ import annotations

from collections.abc import Container

from ..base import MXNetError
from ..graph import Entry, Graph, Node, topological_order
from .remarks import Obstacle, done, obstacle, refused

__all__ = ["mirror"]

COSTLY = frozenset({
    "Convolution", "_blocked_convolution", "Deconvolution", "FullyConnected", "dot", "batch_dot",
    "RNN", "_recurrent_layer", "Concat", "SoftmaxOutput", "_foreach", "_while_loop", "_cond"})
"""Not mirrored unless asked for by name.  Concat costs little, but what it reads is as large."""

TRUTH = {"True": True, "true": True, "1": True, "False": False, "false": False, "0": False}


def mirror(graph: Graph, num_outputs: int, cheap: bool = False) -> Graph:
    """`graph`, whose first `num_outputs` outputs are those of forward and whose others are
    gradients, with clones (`<name>_mirror`) in backward; with `cheap` of all cheap nodes.
    """
    forward = topological_order(graph.outputs[:num_outputs])
    shown = {id(entry.node) for entry in graph.outputs[:num_outputs]}
    chosen = {id(node) for node in forward if _is_chosen(node, shown, cheap)}
    return _with_clones(graph, forward, chosen) if chosen else graph


def _with_clones(graph: Graph, forward: list[Node], chosen: set[int]) -> Graph:
    """`graph` whose backward pass reads clones of the nodes of `forward` that are `chosen`."""
    ahead = {id(node) for node in forward}
    # What the backward pass reads is cloned, and all that is chosen before that.
    needed = chosen & _read_by([node for node in graph.nodes if id(node) not in ahead])
    for node in reversed(forward):
        if id(node) in needed:
            needed |= chosen & _read_by([node])
    clones: dict[int, Node] = {}
    for node in forward:
        if id(node) in needed:
            clone = node.clone([_again(entry, clones) or entry for entry in node.inputs], node)
            clone.name = f"{node.name}_mirror"
            clones[id(node)] = clone
            done("mirror", node, "backward computes it again", again=clone)
        elif id(node) in chosen:
            refused("mirror", node, obstacle("backward reads it"))

    def wire(node: Node, old: Entry, new: Entry) -> Entry:
        return new if id(node) in ahead else _again(old, clones) or new

    return graph.rewired(wire)[0]


def _read_by(nodes: list[Node]) -> set[int]:
    """`id`s of the nodes whose visible outputs `nodes` read."""
    return {id(entry.node) for node in nodes for entry in node.inputs
            if entry.index < entry.node.num_visible}


def _again(entry: Entry, clones: dict[int, Node]) -> Entry | None:
    """`entry` as it is computed again, if it is."""
    if id(entry.node) not in clones or entry.index >= entry.node.num_visible:
        return None
    return Entry(clones[id(entry.node)], entry.index)


def _is_chosen(node: Node, shown: Container[int], cheap: bool) -> bool:
    """Whether a node is computed again, if backward reads it; `shown` are those of outputs."""
    if node.op is None:
        return False
    text = node.attrs.get("__force_mirroring__", "False")
    why = _not_repeated(node, shown)
    if why is not None:
        if cheap or TRUTH.get(text):
            refused("mirror", node, why)
        return False
    if cheap and node.op.name not in COSTLY and not node.op.name.startswith("_linalg_"):
        return True
    if text not in TRUTH:
        raise MXNetError(f"{node.describe()}: attribute force_mirroring is {text!r}, expected one "
                         f"of {list(TRUTH)}")
    if cheap and not TRUTH[text]:
        refused("mirror", node, obstacle("it is cheap, or has the attribute force_mirroring"))
    return TRUTH[text]


def _not_repeated(node: Node, shown: Container[int]) -> Obstacle | None:
    """The reason why a node must not, or need not, be computed again."""
    if id(node) in shown:
        return obstacle("it is no output of the graph")
    return None if node.required_op.is_pure else obstacle("a second run gives the same")
