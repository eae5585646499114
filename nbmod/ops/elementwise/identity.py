"""Identity ops, which differ in their gradient, and constants of the shape of a tensor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...graph import Entry, Node
from ..op import Op
from .scalar import Scalar

__all__ = ["BlockGrad", "Copy", "GradientMultiplier", "IdentityLike", "MakeLoss", "OnesLike",
           "ZerosLike"]


@dataclass(frozen=True)
class Passing(Op):
    """The output is the input, an alias of its memory in a bound graph."""

    shapes: ClassVar = "data and output have one shape"
    view: ClassVar = True

    def forward(self, ins, outs, call):
        np.copyto(outs[0], ins[0])


class Copy(Passing, name="_copy", aliases=("identity",)):
    """y = x;  gx = gy."""

    def gradient(self, node: Node, ograds: list[Entry | None]) -> list[Entry | None] | None:
        return [ograds[0]]


class BlockGrad(Passing, name="BlockGrad", aliases=("stop_gradient", "_sparse_stop_gradient")):
    """y = x, and no gradient passes."""


class MakeLoss(Passing, name="make_loss", aliases=("_sparse_make_loss",)):
    """y = x, the value of a loss: its gradient is 1 everywhere, whatever the head gradient."""

    outputs: ClassVar = ("loss",)
    needs: ClassVar = ("data",)

    def gradient(self, node: Node, ograds: list[Entry | None]) -> list[Entry | None] | None:
        return [Entry(Node(OnesLike(), f"{node.name}_backward", [node.inputs[0]]))]


class IdentityLike(Passing, name="_identity_with_attr_like_rhs"):
    """y = lhs, which has the shape and type of rhs;  glhs = gy."""

    inputs: ClassVar = ("lhs", "rhs")

    def gradient(self, node: Node, ograds: list[Entry | None]) -> list[Entry | None] | None:
        return [ograds[0], None]


class GradientMultiplier(Scalar, name="_contrib_gradientmultiplier"):
    """y = x, but the gradient is multiplied: by a negative number it is reversed.

        gx = gy * scalar
    """

    formula: ClassVar = "x"
    gradients: ClassVar = {"x": "gy * scalar"}

    def is_identity(self, ins, outs):
        return ins[0] == outs[0]


@dataclass(frozen=True)
class Filled(Op):
    """A constant of the shape and type of the input, without gradient."""

    value: ClassVar[int] = 0
    reads_shapes: ClassVar = True

    def forward(self, ins, outs, call):
        outs[0].fill(self.value)


class ZerosLike(Filled, name="zeros_like", aliases=("_sparse_zeros_like",)):
    """Zeros of the shape and type of the input."""


class OnesLike(Filled, name="ones_like"):
    """Ones of the shape and type of the input."""

    value: ClassVar = 1
