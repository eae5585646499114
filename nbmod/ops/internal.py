"""Ops the executor's passes insert; no user writes them and no file holds them."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ..graph import Entry, Node
from .op import Op

__all__ = ["ZeroGradient", "Accumulate"]


class ZeroGradient(Op):
    """Zeros shaped like output `index` of the node named by `source`, without reading it.

    Stands for the gradient of an output that nothing depends on.
    """

    name = "_zero_gradient"
    inputs: ClassVar = ()

    def __init__(self, index: int = 0):
        self.index = index

    def like(self, node: Node) -> list[Entry]:
        assert node.source is not None
        return [Entry(node.source, self.index)]

    def forward(self, ins, outs, call):
        outs[0][...] = 0


class Accumulate(Op):
    """Write a gradient to where the user wants it: y = x, or y += x under grad_req 'add'.

    Used when the computed gradient cannot be born in the user's array: it is read elsewhere, is
    the gradient of two arguments at once, or its producer cannot add.
    """

    name = "_accumulate"
    accumulates: ClassVar = True

    def forward(self, ins, outs, call):
        if call.add and call.add[0]:
            np.add(outs[0], ins[0], out=outs[0])
        elif outs[0] is not ins[0]:
            np.copyto(outs[0], ins[0])
