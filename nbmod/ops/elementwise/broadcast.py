"""Elementwise ops of two tensors that broadcast: dimensions of size 1 are repeated.

Shapes are aligned at the right, as in NumPy.  The gradient of an operand is the sum of its
formula over the dimensions along which the operand was repeated.  No operand is ever expanded in
memory: kernels leave these dimensions out of its index (see `codegen`).
"""

from __future__ import annotations

from typing import ClassVar

from ...graph import Entry, Node
from ..op import _TABLE, Backward
from ..shape import Shapes, broadcast, unify
from .formula_op import FormulaOp, define
from .unary_binary import BINARY, REGULAR

__all__ = ["Broadcast"]


class Broadcast(FormulaOp):
    """A function of two tensors that broadcast to one shape."""

    shapes: ClassVar = "lhs (2, 1), rhs (3,) -> (2, 3): last axes aligned, sizes of 1 repeated"
    inputs: ClassVar = ("lhs", "rhs")
    letters: ClassVar = {"a": "lhs", "b": "rhs"}
    inplace: ClassVar[tuple[tuple[str, str], ...]] = (("lhs", "output"), ("rhs", "output"))
    # Only the head gradient: a sum for one operand must not overwrite what the other one reads.
    inplace_backward: ClassVar[tuple[tuple[str, str], ...]] = (("ograd", "lhs"), ("ograd", "rhs"))

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        return list(ins), [unify(broadcast(*ins), outs[0], "output")]

    def gradient(self, node: Node, ograds: list[Entry | None]) -> list[Entry | None] | None:
        return None  # the head gradient has the shape of the output

    def decompose_backward(self, node: Node) -> list[Entry | None] | None:
        grads = super().decompose_backward(node)
        if grads is None or self.needs == ("ograd",):
            return None
        return [None if grad is None else _summed(node, grad, i) for i, grad in enumerate(grads)]


def _summed(node: Node, grad: Entry, index: int) -> Entry:
    """`grad` summed to the shape of output `index` of `node`, as the gradient of a sum is."""
    add = _TABLE["broadcast_add"]()
    operands = Node(add, node.name, [Entry(node, 0), Entry(node, 1)], source=node)
    return Entry(Node(Backward(add, 2, add.list_needs()), f"{node.name}_sum", [grad],
                      source=operands), index)


def _define() -> None:
    for name, key, *aliases in (
        ("broadcast_add", "add", "_sparse_broadcast_add", "_sparse_broadcast_plus",
         "broadcast_plus"),
        ("broadcast_sub", "sub", "_sparse_broadcast_minus", "_sparse_broadcast_sub",
         "broadcast_minus"),
        ("broadcast_mul", "mul", "_sparse_broadcast_mul"),
        ("broadcast_div", "div", "_sparse_broadcast_div"),
        *((f"broadcast_{key}", key) for key in REGULAR),
    ):
        row = BINARY[key]
        define(Broadcast, name, f"{row.meaning}  a and b broadcast.", row.formula,
               row.gradients(), aliases, __name__)


_define()
