"""Deconvolution (transposed convolution): the data gradient of a convolution."""

from __future__ import annotations

from ...dispatch import implements
from ...nn.deconvolution import Deconvolution
from ...nn.sliding_window import Geometry, Window
from ...op import Call, Spec
from ..lib.block_reduce import each_block
from ..lib.epilogue import Epilogue
from ..lib.kernel_math import real_of
from ..runtime.device_memory import Array, Arrays, Outputs
from ..runtime.launch import Launch
from .convolution import bias_kernel, data_gradient, output, weight_gradient, weight_scratch
from .sliding_window import ConvSpec

__all__ = ["backward", "backward_scratch", "forward"]


def _case(op: Deconvolution, data: Array | Spec) -> ConvSpec:
    """The convolution of which `data` is the output."""
    layout, (kernel, stride, _, dilate) = op.axes, op.params
    images, channels, image = layout.split(data.shape)
    out, pad = op.out_and_pad(image)
    window = Window.over(out, image, kernel, stride, pad, dilate)
    geo = Geometry(window, images, op.num_filter, channels, op.num_group)
    return ConvSpec.of(geo, layout, real_of(data.dtype))


def forward(op: Deconvolution, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    """Launches that write the output."""
    x, w, *bias = ins
    return data_gradient(_case(op, x), x, w, outs[0], False, Epilogue(bias[0] if bias else None))


def backward(op: Deconvolution, ins: Arrays, outs: Outputs, call: Call) -> list[Launch]:
    """Launches that write the requested gradients of data, weight and bias."""
    gy, x, w = ins
    case, launches = _case(op, x), []
    geo = case.geo
    gx, gw, gb = (*outs, None)[:3]
    if gx is not None:
        launches += output(case, gy, w, gx)
    if gw is not None:
        launches += weight_gradient(case, x, gy, gw, call.scratch, False)
    if gb is not None:
        launches += each_block(bias_kernel(case.x, geo.window.image, case.real), geo.channels, gy,
                               gb, gy.size // geo.channels, False)
    return launches


def backward_scratch(op: Deconvolution, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    """Scratch for partial sums of the gradient of weights."""
    return weight_scratch(_case(op, ins[1]), ins[2])


implements(Deconvolution, "cuda", forward, backward, backward_scratch=backward_scratch)
