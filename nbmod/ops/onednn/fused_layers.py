"""The fused operators of MXNet's oneDNN backend: convolution and dense layer with their epilogue.

Both compute in floating point, or with `quantized` in 8-bit integers with exact int32 sums; see
`fused_base` for the chain and `quantization.ranges` for the representation of integers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ...graph import Graph
from ..nn.activation import LeakyReLU
from ..nn.convolution import Convolution, convolve, fastest
from ..nn.fully_connected import FullyConnected
from ..op import Call, Run, Spec, Tensor, all_of
from ..quantization.integer_sums import ExactConvolution
from ..quantization.ranges import (
    FLOAT,
    INT8,
    INT32,
    LEVELS,
    S8,
    UINT8,
    RangedOp,
    per_unit,
    product_range,
    quotient,
    set_range,
)
from ..shape import ShapeMismatch
from .fused_base import KERNELS, ChainPasses, Finish, FusedOp, folded

__all__ = ["FusedConvolution", "FusedFullyConnected"]

UNSIGNED = ("abs", "square", "sqrt", "exp")
"""Activations of dense layers with a uint8 output, besides rectifiers."""
ONE = np.float32(1)
NORM = ("gamma", "beta", "moving_mean", "moving_var")


@dataclass(frozen=True)
class FusedConvolution(FusedOp, name="_sg_mkldnn_conv"):
    """Convolution, then as the node's graph has them BatchNorm by its moving statistics, an
    activation, the sum with another tensor and another activation.

    data (N, C, *image), the layer's weight (F, C / G, *kernel) and bias (F,), BatchNorm's four
    (F,), `sum` (N, F, *out) -> (N, F, *out).  All is float32, also the weights if `quantized`:
    data and `sum` are then 8-bit, each with the two ends of its range (1,).  Weights are rounded
    at each run, with a range per filter; the output is 8-bit in the calibrated range (uint8 after
    a rectifier, else int8), or int32 without one, with one range for all weights.

    The `with_*` parameters say what the graph holds.  There is no gradient.
    """

    with_bn: bool = False
    with_act: bool = False
    with_sum: bool = False
    with_postsum_act: bool = False
    quantized: bool = False
    min_calib_range: float | None = None
    max_calib_range: float | None = None
    subgraphs: tuple[Graph, ...] = ()

    kind: ClassVar = Convolution
    outputs: ClassVar = ("output", "output_min", "output_max")

    @property
    def ranges(self) -> tuple[str, ...]:
        if not self.quantized:
            return ()
        data = ("data_min", "data_max")
        return (*data, "sum_min", "sum_max") if self.chain.adds else data

    @property
    def out_type(self) -> np.dtype:
        return self.eight_bits() if self.calibrated else INT32

    @property
    def conv(self) -> Convolution:
        """The layer without its bias, which is part of the epilogue."""
        layer = self.chain.layer
        assert isinstance(layer, Convolution)
        if layer.channels_last:
            raise ShapeMismatch(f"layout is {layer.layout}, expected channels second")
        return replace(layer, no_bias=True)

    @property
    def finish(self) -> Finish:
        return Finish(self.chain.before, self.chain.after)

    def exact(self, data: Tensor) -> ExactConvolution:
        largest = 128 * (128 if data.dtype == INT8 else 255)
        return ExactConvolution(self.conv, tuple(data.shape), largest)

    def own_work(self, ins: Sequence[Any], outs: Sequence[Any]) -> list[Spec]:
        """Weights, their scales, workspace of other activations."""
        weight, filters = self.pick(ins)["weight"], outs[0].shape[1]
        workspace = Spec((0,) if self.finish.simple else outs[0].shape, FLOAT)
        return [Spec(weight.shape, FLOAT), Spec((filters,), FLOAT), workspace]

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        own, data = self.own_work(ins, outs), self.pick(ins)["data"]
        if self.quantized:
            return own + self.exact(data).workspace()
        return own + fastest(self.conv.geometry(data), "forward", data.dtype).workspace

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        data, weight, scratch = self.pick(ins)["data"], call.scratch[0], call.scratch[3:]
        if self.quantized:
            layer = self.exact(data).prepare(data, weight, scratch, exact=False)
        else:
            layer = convolve(self.conv.geometry(data), "forward", data, weight, outs[0], None,
                             scratch), outs[0]
        return self.chained(ins, outs, call.scratch[:3], layer, KERNELS)

    def chained(self, ins: Sequence[Any], outs: Sequence[Any], work: Sequence[Any],
                layer: tuple[Run, Any], passes: ChainPasses) -> Run:
        """A function that runs the layer and the rest of the chain.

        `layer` is a function that computes the convolution with the first array of `own_work`, and
        its result.
        """
        inputs, (weight, scale, workspace), (convolve, sums) = self.pick(ins), work, layer
        planes = (outs[0].shape[0], outs[0].shape[1], -1)
        other = inputs.get("sum")
        finish = self.finish.prepare(
            sums.reshape(planes), None if other is None else other.reshape(planes),
            outs[0].reshape(planes), workspace.reshape(planes) if workspace.size else workspace,
            passes)
        if self.quantized:
            return partial(self._quantized, inputs, outs, weight, scale, convolve, finish,
                           passes.quantize_rows)
        return partial(self._real, inputs, weight, scale, convolve, finish)

    def _folded(self, inputs: dict[str, Any]) -> tuple[Any, Any]:
        norm = [inputs[name] for name in NORM] if self.chain.norm is not None else []
        return folded(self.chain.norm, inputs.get("bias"), norm, len(inputs["weight"]))

    def _real(self, inputs: dict[str, Any], weight: np.ndarray, scale: np.ndarray, convolve: Run,
              finish: Callable[..., None]) -> None:
        factor, offset = self._folded(inputs)
        np.multiply(inputs["weight"], factor.reshape(-1, *[1] * (weight.ndim - 1)), out=weight)
        convolve()
        scale.fill(1)
        finish(offset, scale, float(self.chain.adds), ONE)

    def _quantized(self, inputs: dict[str, Any], outs: Sequence[Any], weight: np.ndarray,
                   scale: np.ndarray, convolve: Run, finish: Callable[..., None],
                   quantize_rows: Callable[..., None]) -> None:
        factor, offset = self._folded(inputs)
        rows, data = inputs["weight"].reshape(len(weight), -1), inputs["data"]
        if self.calibrated:
            quantize_rows(rows, factor, LEVELS[INT8], scale, weight.reshape(rows.shape))
        else:
            whole = (rows * factor[:, None]).reshape(1, -1)
            quantize_rows(whole, np.ones(1, FLOAT), LEVELS[INT8], scale[:1],
                          weight.reshape(1, -1))
            scale[:] = scale[0]
        convolve()
        data_ends = inputs["data_min"], inputs["data_max"]
        data_unit = per_unit(data.dtype, *data_ends) or ONE
        steps = data_unit * scale
        unit, low, high = _output_range(self, data.dtype, data_ends, scale[0], steps[0])
        share = 0.0
        if self.chain.adds:
            share = float(quotient(unit, per_unit(inputs["sum"].dtype, inputs["sum_min"],
                                                  inputs["sum_max"])))
        scales = unit / data_unit / scale if self.calibrated else np.ones_like(scale)
        finish(np.rint(offset * steps), scales, share, unit)
        set_range(outs, low, high)


@dataclass(frozen=True)
class FusedFullyConnected(FusedOp, name="_sg_mkldnn_fully_connected"):
    """FullyConnected, and the activation that follows it in the node's graph.

    Shapes are those of FullyConnected, ranges (1,).  Without `quantized` all is float32.  Else data
    is 8-bit; weight and bias are int8 too, each with its range, or with `channel_wise_quantize`
    float32, rounded at each run with a range per row.  The output is float32 with
    `enable_float_output`, 8-bit in the calibrated range (uint8 after a rectifier, a leaky one as
    well, and after abs, square, sqrt and exp, else int8), or int32 without one.  There is no
    gradient.
    """

    quantized: bool = False
    enable_float_output: bool = False
    with_eltwise: bool = False
    min_calib_range: float | None = None
    max_calib_range: float | None = None
    channel_wise_quantize: bool | None = None
    subgraphs: tuple[Graph, ...] = ()

    kind: ClassVar = FullyConnected
    outputs: ClassVar = RangedOp.outputs

    @property
    def per_row(self) -> bool:
        """Whether weights are floating point and get a range per row."""
        return bool(self.channel_wise_quantize)

    @property
    def ranges(self) -> tuple[str, ...]:
        if not self.quantized:
            return ()
        names = ("data",) if self.per_row else self.chain.layer.list_inputs()
        return tuple(f"{end}_{name}" for name in names for end in ("min", "max"))

    @property
    def out_type(self) -> np.dtype:
        if self.enable_float_output:
            return FLOAT
        if not self.calibrated:
            return INT32
        act = self.chain.before
        leaky = isinstance(act, LeakyReLU) and act.act_type == "leaky"
        return UINT8 if leaky or (act and act.name in UNSIGNED) else self.eight_bits()

    def weight_type(self, name: str) -> np.dtype:
        return INT8 if name in ("weight", "bias") and not self.per_row else FLOAT

    @property
    def layer(self) -> FullyConnected:
        """The floating-point layer without its bias, which is part of the epilogue."""
        assert isinstance(self.chain.layer, FullyConnected)
        return replace(self.chain.layer, no_bias=True)

    @property
    def finish(self) -> Finish:
        return Finish(self.chain.before, self.chain.after, real=self.calibrated)

    def own_work(self, ins: Sequence[Any], outs: Sequence[Any]) -> list[Spec]:
        """Workspace of other activations; if quantized int32 and float32 sums, quantised weights
        and scales."""
        weight, out = self.pick(ins)["weight"], outs[0]
        workspace = Spec((0,) if self.finish.simple else out.shape, FLOAT)
        if not self.quantized:
            return [workspace]
        return [workspace, Spec(out.shape, FLOAT), Spec(out.shape, INT32),
                Spec(weight.shape if self.per_row else (0,), INT8),
                Spec((self.layer.num_hidden,), FLOAT)]

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        own, inputs = self.own_work(ins, outs), self.pick(ins)
        if self.quantized:
            return own
        return own + self.layer.scratch([inputs["data"], inputs["weight"]], [outs[0]])

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        if self.quantized:
            return self.chained(ins, outs, call.scratch, None, KERNELS)
        inputs, (workspace, *scratch) = self.pick(ins), call.scratch
        multiply = self.layer.prepare([inputs["data"], inputs["weight"]], [outs[0]],
                                       Call(scratch=scratch))
        return self.chained(ins, outs, [workspace], multiply, KERNELS)

    def chained(self, ins: Sequence[Any], outs: Sequence[Any], work: Sequence[Any],
                multiply: Run | None, passes: ChainPasses) -> Run:
        """A function that runs the layer and the rest of the chain.

        `multiply` computes the floating-point layer, `work` begins with `own_work`.
        """
        inputs, out, hidden = self.pick(ins), outs[0], self.layer.num_hidden
        workspace, rows = work[0], (-1, hidden, 1)
        sums = out if multiply else work[1]
        finish = self.finish.prepare(sums.reshape(rows), None, out.reshape(rows),
                                     workspace.reshape(rows) if workspace.size else workspace,
                                     passes)
        if multiply is None:
            return partial(self._quantized, inputs, outs, work[1:5], finish, passes)
        bias, ones = inputs.get("bias", np.zeros(hidden, FLOAT)), np.ones(hidden, FLOAT)
        return all_of([multiply, partial(finish, bias, ones, 0.0, ONE)])

    def _quantized(self, inputs: dict[str, Any], outs: Sequence[Any], work: Sequence[Any],
                   finish: Callable[..., None], passes: ChainPasses) -> None:
        data, weight, (real, sums, rounded, scale) = inputs["data"], inputs["weight"], work
        data_ends = inputs["min_data"], inputs["max_data"]
        data_unit = per_unit(data.dtype, *data_ends) or ONE
        if self.per_row:
            ones = np.ones(len(weight), FLOAT)
            passes.quantize_rows(weight, ones, LEVELS[INT8], scale, rounded)
            weight = rounded
        else:
            weight_ends = inputs["min_weight"], inputs["max_weight"]
            scale.fill(per_unit(INT8, *weight_ends) or ONE)
        sums = sums.reshape(-1, len(weight))
        passes.row_products(data.reshape(len(sums), -1), weight, sums)
        np.copyto(real, sums.reshape(real.shape), casting="same_kind")
        steps = data_unit * scale
        offset = np.zeros(len(weight), FLOAT)
        if "bias" in inputs and self.per_row:
            offset = np.rint(inputs["bias"] * steps)
        elif "bias" in inputs:
            bias_unit = per_unit(INT8, inputs["min_bias"], inputs["max_bias"])
            offset = np.rint(inputs["bias"] * quotient(steps[0], bias_unit))
        unit, low, high = _output_range(self, data.dtype, data_ends, scale[0], steps[0])
        sums_only = self.out_type == INT32
        finish(offset, np.ones_like(scale) if sums_only else unit / data_unit / scale, 0.0, unit)
        set_range(outs, low, high)


def _output_range(op: FusedOp, data: np.dtype, data_ends: Sequence[Any], scale: np.float32,
                  step: np.float32) -> tuple[np.float32, float, float]:
    """The quantised value of 1 in the output, and the output's range: the calibrated one, or that
    of int32 sums of which `step` represent 1."""
    if op.out_type == FLOAT:
        return ONE, 0.0, 0.0    # it has no range
    low, high = op.min_calib_range, op.max_calib_range
    if low is not None and high is not None:
        return per_unit(op.out_type, low, high), low, high
    end = float(product_range(S8 if data == INT8 else 255, data_ends, (LEVELS[INT8] / scale, 0)))
    return step, -end, end
