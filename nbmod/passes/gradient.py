"""Reverse-mode differentiation: a forward graph in, gradient entries out.

Walk the nodes from the outputs back.  A node whose outputs have gradients contributes to the
gradients of its inputs, either through one generic `Backward` node, whose inputs are what the op
declares in `needs`, or through whatever nodes the op's own `gradient` builds.  Contributions that
meet at one entry are summed by `_grad_add` nodes in the order in which they arrive.

Loss layers read no head gradient, so they start a gradient of their own wherever they stand, even
under an op that passes none on (as in MXNet: BlockGrad over SoftmaxOutput still trains).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..graph import Entry, Node, topological_order
from ..ops import OPS
from ..ops.internal import ZeroGradient
from ..ops.op import Backward, Op, resolve_needs

__all__ = ["gradient"]

Key = tuple[int, int]


def gradient(outputs: Sequence[Entry], wrt: Sequence[Node], heads: Sequence[Entry]) -> list[Entry]:
    """Gradient entry of every variable in `wrt`, given the gradients `heads` of `outputs`.

    A variable the outputs do not depend on, or only through ops without gradient, gets a
    `ZeroGradient` node.  The entries may coincide, or be head gradients themselves.
    """
    order = topological_order(outputs)
    wanted = _depends_on(order, wrt)
    contributions: dict[Key, list[Entry]] = {}
    for output, head in zip(outputs, heads, strict=True):
        contributions.setdefault(_key(output), []).append(head)
    for node in reversed(order):
        if node.op is None or id(node) not in wanted:
            continue
        ograds = [_total(contributions, Entry(node, i)) for i in range(node.num_visible)]
        for entry, grad in zip(node.inputs, _input_gradients(node, ograds), strict=False):
            if grad is not None and id(entry.node) in wanted:
                contributions.setdefault(_key(entry), []).append(grad)
    return [_total(contributions, Entry(variable)) or _zero(variable, 0) for variable in wrt]


def _key(entry: Entry) -> Key:
    return id(entry.node), entry.index


def _depends_on(order: list[Node], wrt: Sequence[Node]) -> set[int]:
    """`id`s of nodes from which some variable of `wrt` can be reached."""
    wanted = {id(variable) for variable in wrt}
    for node in order:
        if any(id(entry.node) in wanted for entry in node.inputs):
            wanted.add(id(node))
    return wanted


def _total(contributions: dict[Key, list[Entry]], entry: Entry) -> Entry | None:
    """The sum of what arrived at `entry`, None if nothing did."""
    parts = contributions.get(_key(entry))
    if not parts:
        return None
    total = parts[0]
    for part in parts[1:]:
        total = Entry(Node(OPS["_grad_add"](), f"{entry.node.name}_grad_add", [total, part]))
    parts[:] = [total]
    return total


def _zero(node: Node, index: int) -> Entry:
    return Entry(Node(ZeroGradient(index), f"{node.name}_zero_grad", source=node))


def _input_gradients(node: Node, ograds: list[Entry | None]) -> Sequence[Entry | None]:
    """What `node` contributes to each of its inputs (None: nothing)."""
    op = node.op
    assert op is not None
    reads = op.head_gradients()
    if not any(grad is not None for grad in ograds) and (reads or not op.list_needs()):
        return ()
    grads = op.gradient(node, ograds)
    if grads is not None:
        return grads
    if not op.list_needs():
        return ()
    filled = [grad if grad is not None or i not in reads else _zero(node, i)
              for i, grad in enumerate(ograds)]
    return _backward_node(node, op, filled)


def _backward_node(node: Node, op: Op, ograds: list[Entry | None]) -> list[Entry | None]:
    names, inputs = [], []
    for name, kind, index in resolve_needs(op):
        entry = {"ograd": lambda i: ograds[i], "in": lambda i: node.inputs[i],
                 "out": lambda i: Entry(node, i)}[kind](index)
        assert entry is not None
        names.append(name)
        inputs.append(entry)
    backward = Node(Backward(op, len(node.inputs), names), f"{node.name}_backward", inputs,
                    source=node)
    aux = op.aux_indices()
    return [None if i in aux else Entry(backward, i) for i in range(len(node.inputs))]
