"""Layers of SimpleDet: group normalization, a fixed scale, simulated 8-bit quantization."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from ...graph import Entry, Node
from ...operator.register_op import register_op
from ...ops.elementwise.broadcast import Broadcast
from ...ops.elementwise.float_op import FloatOp, as_float32
from ...ops.jit import kernel, prange
from ...ops.op import Call, Spec
from ...ops.rules import copy_over
from ...ops.shape import PartialShape, ShapeMismatch, broadcast, unify

__all__ = ["BroadcastScale", "GroupNorm", "Quantization_int8"]

Shapes = tuple[list[PartialShape], list[PartialShape]]


@kernel(parallel=True)
def _normalize(x, gamma, beta, y, mean, inverse_std, eps):
    """x, y (N, G, D, L): D channels a group of L elements; gamma, beta (G, D)."""
    groups, one = x.shape[1], x.dtype.type(1)
    count = x.dtype.type(x.shape[2] * x.shape[3])
    for task in prange(len(x) * groups):
        n, g = task // groups, task % groups
        center = np.sum(x[n, g]) / count
        spread = x.dtype.type(0)
        for d in range(x.shape[2]):
            for i in range(x.shape[3]):
                spread += (x[n, g, d, i] - center) ** 2
        rate = one / np.sqrt(spread / count + eps)
        mean[n, g], inverse_std[n, g] = center, rate
        for d in range(x.shape[2]):
            for i in range(x.shape[3]):
                y[n, g, d, i] = (x[n, g, d, i] - center) * rate * gamma[g, d] + beta[g, d]


@kernel(parallel=True)
def _normalize_gradient(gy, x, gamma, mean, inverse_std, gx, sums):
    """gx, and sums (2, N, G, D) of gy and of gy times normalized x over L."""
    groups = x.shape[1]
    count = x.dtype.type(x.shape[2] * x.shape[3])
    for task in prange(len(x) * groups):
        n, g = task // groups, task % groups
        center, rate = mean[n, g], inverse_std[n, g]
        total, along = x.dtype.type(0), x.dtype.type(0)
        for d in range(x.shape[2]):
            shift, scale = x.dtype.type(0), x.dtype.type(0)
            for i in range(x.shape[3]):
                shift += gy[n, g, d, i]
                scale += gy[n, g, d, i] * (x[n, g, d, i] - center) * rate
            sums[0, n, g, d], sums[1, n, g, d] = shift, scale
            total += gamma[g, d] * shift
            along += gamma[g, d] * scale
        for d in range(x.shape[2]):
            for i in range(x.shape[3]):
                normal = (x[n, g, d, i] - center) * rate
                gx[n, g, d, i] = rate * (gamma[g, d] * gy[n, g, d, i]
                                         - (total + normal * along) / count)


@register_op("_contrib_GroupNorm")
@dataclass(frozen=True)
class GroupNorm(FloatOp):
    """y = gamma (x - mean) / sqrt(var + eps) + beta over groups of channels of each sample.

    data (N, C, ...), C a multiple of `num_group`; gamma and beta (C,): one per channel, unlike
    those of `GroupNorm`.  Wu and He, Group Normalization, 2018.
    """

    num_group: int = 32
    eps: float = 1e-5

    inputs: ClassVar = ("data", "gamma", "beta")
    outputs: ClassVar = ("output", "mean", "var")
    needs: ClassVar = ("ograd", "data", "gamma", "mean", "var")
    gpu_module: ClassVar = "nbmod.contrib.simpledet.cuda.layers"

    @property
    def num_visible(self) -> int:
        return 1

    def infer_shape(self, ins: list[PartialShape], outs: list[PartialShape]) -> Shapes:
        data = unify(ins[0], outs[0], "data and output")
        if data is None:
            return ins, outs
        if len(data) < 3 or self.num_group < 1 or data[1] % self.num_group:
            raise ShapeMismatch(f"data has shape {data}, expected (N, C, ...) with C a multiple of "
                                f"num_group = {self.num_group}")
        moments = (data[0], self.num_group)
        return ([data, *(unify(shape, data[1:2], "gamma, beta and (C,)") for shape in ins[1:])],
                [data, moments, moments])

    def by_group(self, data: Any) -> Any:
        return data.reshape(len(data), self.num_group, data.shape[1] // self.num_group, -1)

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        return list(outs[1:])

    def backward_scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        data = ins[1]
        return [data, Spec((2, *data.shape[:2]), data.dtype)]

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        data, gamma, beta = ins
        moments = [out if out is not None else np.empty((len(data), self.num_group), data.dtype)
                   for out in outs[1:]]
        parts = (self.num_group, -1)
        _normalize(self.by_group(data), gamma.reshape(parts), beta.reshape(parts),
                   self.by_group(outs[0]), *moments, data.dtype.type(as_float32(self.eps)))

    def backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        ograd, data, gamma, mean, inverse_std = ins
        spare, sums = call.scratch[:2] if call.scratch else (
            np.empty_like(data), np.empty((2, *data.shape[:2]), data.dtype))
        gx = spare if outs[0] is None else outs[0]
        _normalize_gradient(self.by_group(ograd), self.by_group(data),
                            gamma.reshape(self.num_group, -1), mean, inverse_std, self.by_group(gx),
                            sums.reshape(2, len(data), self.num_group, -1))
        for out, rows in zip(outs[1:], sums[::-1], strict=True):
            if out is not None:
                np.sum(rows, axis=0, out=out)


@register_op("_contrib_BroadcastScale", aliases=("BroadcastScale",))
class BroadcastScale(Broadcast):
    """data times scaler, whose axes of size 1 are repeated; the gradient of scaler is 0.

    data and scaler have 4 axes.
    """

    shapes: ClassVar = "data (2, 3, 4, 4), scaler (1, 3, 1, 1) -> (2, 3, 4, 4)"
    inputs: ClassVar = ("data", "scaler")
    letters: ClassVar = {"a": "data", "b": "scaler"}
    formula: ClassVar = "a * b"
    gradients: ClassVar = {"a": "gy * b"}
    inplace: ClassVar = (("data", "output"),)
    inplace_backward: ClassVar = (("ograd", "data"),)

    def infer_shape(self, ins: list[PartialShape], outs: list[PartialShape]) -> Shapes:
        data, scaler = unify(ins[0], outs[0], "data and output"), ins[1]
        if data is not None and scaler is not None:
            if len(data) != 4 or len(scaler) != 4 or broadcast(data, scaler) != data:
                raise ShapeMismatch(f"data has shape {data} and scaler {scaler}, expected 4 axes, "
                                    "and each of scaler 1 or as large as that of data")
        return [data, scaler], [data]


@register_op("_contrib_Quantization_int8", aliases=("Quantization_int8",))
@dataclass(frozen=True)
class Quantization_int8(FloatOp):  # noqa: N801 - the name of the operator
    """data rounded to 255 levels of -minmax to minmax: training for 8-bit inference.

    The auxiliary state minmax (1,) is the largest absolute value: of this batch if `is_weight`,
    else an average over batches, which keeps `ema_decay` of itself (the first batch sets a state
    below 1e-6).  It changes in training only, and not with `fix_act_scale`.  Activations beyond it
    are clipped.  The first `delay_quant` training steps of an executor leave data as it is.

    The gradient is that of the output, unchanged ("ste", the straight-through estimator); for
    activations with `grad_mode` "clip" it is 0 outside of the range.  `quant_mode` has one value;
    `is_weight_perchannel` is not supported.
    """

    quant_mode: Literal["minmax"] = "minmax"
    is_weight: bool = True
    is_weight_perchannel: bool = False
    delay_quant: int = 0
    ema_decay: float = 0.99
    grad_mode: Literal["ste", "clip"] = "ste"
    fix_act_scale: bool = False

    inputs: ClassVar = ("data", "minmax")
    aux: ClassVar = ("minmax",)
    needs: ClassVar = ("ograd", "data", "minmax")

    def infer_shape(self, ins: list[PartialShape], outs: list[PartialShape]) -> Shapes:
        if self.is_weight_perchannel:
            raise ShapeMismatch("is_weight_perchannel is True, which SimpleDet's operator has no "
                                "code for either; expected False")
        data = unify(ins[0], outs[0], "data and output")
        return [data, unify(ins[1], (1,), "minmax and (1,)")], [data]

    def gradient(self, node: Node, ograds: list[Entry | None]) -> list[Entry | None] | None:
        if self.is_weight or self.grad_mode == "ste":
            return [ograds[0], None]
        return None

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        (data, minmax), y = ins, outs[0]
        state = {} if call.state is None else call.state
        if call.is_train and state.setdefault("delay", self.delay_quant) > 0:
            state["delay"] -= 1
            copy_over(data, y)
            return
        if call.is_train and not self.fix_act_scale:
            self._observe(data, minmax, state)
        unit = minmax[0] / minmax.dtype.type(127)
        if not self.is_weight:
            data = np.clip(data, -minmax[0], minmax[0])
        if unit > 0:
            # Halves are rounded away from zero, as C's round does.
            levels = np.abs(data) / unit
            np.multiply(np.copysign(np.floor(levels + data.dtype.type(0.5)), data), unit, out=y)
        else:
            y.fill(0)

    def _observe(self, data: Any, minmax: Any, state: dict[str, Any]) -> None:
        """Update the range by a batch."""
        largest = np.max(np.abs(data)) if data.size else minmax[0]
        if self.is_weight:
            minmax[0] = largest
        elif not state.setdefault("seen", False):
            state["seen"] = True
            minmax[0] = largest if minmax[0] < 1e-6 else minmax[0]
        else:
            decay = minmax.dtype.type(as_float32(self.ema_decay))
            minmax[0] = decay * minmax[0] + (1 - decay) * largest

    def backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        ograd, data, minmax = ins
        if outs[0] is not None:
            np.multiply(ograd, np.abs(data) <= minmax[0], out=outs[0])
