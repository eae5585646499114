"""Ops that passes insert; they occur neither in user code nor in files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..graph import Entry, Node
from .op import Op, Spec
from .param import Shape
from .shape import size_of

__all__ = ["ZeroGradient", "Accumulate", "CrossDeviceCopy", "FoldedBatchNorm", "Unread"]


class ZeroGradient(Op):
    """Zeros of the shape of output `index` of the node's `source`, without reading it: the gradient
    of an output that nothing depends on."""

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
    """Copy a gradient to the user's array: y = x, or y += x under grad_req 'add'.

    For gradients that cannot be computed in that array: they are read elsewhere, are the gradient
    of two arguments at once, or their producer cannot add.
    """

    name = "_accumulate"
    accumulates: ClassVar = True

    def forward(self, ins, outs, call):
        if call.add and call.add[0]:
            np.add(outs[0], ins[0], out=outs[0])
        elif outs[0] is not ins[0]:
            np.copyto(outs[0], ins[0])


class CrossDeviceCopy(Op):
    """y = x, where x is on another device: the only kind of node that reads across devices.

    There is nothing to execute on either device, so the executor copies (`Device.copy`).
    """

    name = "_CrossDeviceCopy"


@dataclass(frozen=True)
class FoldedBatchNorm(Op):
    """Weight and bias of a layer with the BatchNorm after it folded in, for inference.

        scale = gamma / sqrt(moving_var + eps)
        weight' = weight scale,  bias' = (bias - moving_mean) scale + beta

    `fix_gamma` means gamma = 1, `no_bias` that there is no input bias: 0.  The output channels of
    weight are its first axis, or with `transposed` (Deconvolution) those of (G, C / G, F / G, ...)
    in `groups` G parts.  `scale` is computed in float64 and rounded once.
    """

    name: ClassVar = "_folded_batch_norm"
    outputs: ClassVar = ("weight", "bias")
    derived: ClassVar = True

    eps: float
    fix_gamma: bool
    no_bias: bool
    groups: int = 1
    transposed: bool = False

    def list_inputs(self):
        bias = () if self.no_bias else ("bias",)
        return ("weight", *bias, "gamma", "beta", "moving_mean", "moving_var")

    def infer_shape(self, ins, outs):
        return ins, [ins[0], ins[-1]]

    def parts(self, weight: Spec) -> tuple[int, int, int, int]:
        """weight as (groups, inputs, channels, kernel); scale goes along groups and channels."""
        shape = weight.shape
        if not self.transposed:
            return 1, 1, shape[0], size_of(shape[1:])
        return self.groups, shape[0] // self.groups, shape[1], size_of(shape[2:])

    def forward(self, ins, outs, call):
        weight, *bias, gamma, beta, mean, var = ins
        scale = 1 / np.sqrt(var.astype(np.float64) + self.eps)
        if not self.fix_gamma:
            scale *= gamma
        groups, inputs, channels, kernel = self.parts(weight)
        np.multiply(weight.reshape(groups, inputs, channels, kernel),
                    scale.astype(weight.dtype).reshape(groups, 1, channels, 1),
                    out=outs[0].reshape(groups, inputs, channels, kernel))
        outs[1][...] = ((bias[0] if bias else 0) - mean.astype(np.float64)) * scale + beta


@dataclass(frozen=True)
class Unread(Op):
    """A tensor of which only shape and type are read; its contents are undefined."""

    name: ClassVar = "_unread"
    inputs: ClassVar = ()
    derived: ClassVar = True

    shape: Shape
    dtype: np.dtype

    def infer_shape(self, ins, outs):
        return ins, [self.shape]

    def infer_type(self, ins, outs):
        return ins, [self.dtype]

    def forward(self, ins, outs, call):
        """There is nothing to do."""
