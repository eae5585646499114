"""The fused layers of MXNet's oneDNN backend with NumPy: their chain over NumPy's passes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ..dispatch import REFERENCE, implements
from ..elementwise.float16 import FLOAT32
from ..onednn.fused_base import ChainPasses
from ..onednn.fused_layers import FusedConvolution, FusedFullyConnected
from ..op import Call, Op, Run
from ..quantization.integer_sums import row_products_by_numpy
from . import prepare_numpy_form
from .quantized_layers import convolve_integers
from .sliding_window import convolution

__all__: list[str] = []


def _quantize_rows(w: np.ndarray, factor: np.ndarray, levels: float, scale: np.ndarray,
                   out: np.ndarray) -> None:
    """out (F, K) = w factor scale, rounded; scale brings each row's largest element to `levels`."""
    rows = (w * factor[:, None]).astype(np.float32)
    largest = np.fmax.reduce(abs(rows), axis=1, initial=0)
    scale[:] = np.divide(levels, largest, out=np.ones_like(largest), where=largest > 0)
    np.copyto(out, np.minimum(np.rint(rows * scale[:, None]), 127), casting="unsafe")


def _finish(sums: np.ndarray, offset: np.ndarray, scale: np.ndarray, other: np.ndarray,
            scalars: Sequence[float], out: np.ndarray) -> None:
    """The epilogue of `Finish` over (N, F, P)."""
    slope0, top0, weight, slope1, top1, low, high, whole = scalars
    y = (sums.astype(np.float32) + offset[:, None]) * scale[:, None]
    y = np.where(y > 0, np.minimum(y, top0), y * slope0)
    if weight != 0:
        y = (y + other * np.float64(weight)).astype(np.float32)    # rounded once
    y = np.where(y > 0, np.minimum(y, top1), y * slope1)
    y = np.rint(y) if whole else y
    np.copyto(out, np.fmin(np.fmax(y, low), high), casting="unsafe")


def _activate(act: Op | None, y: np.ndarray) -> Run:
    """A function that applies an activation in place."""
    assert act is not None
    return prepare_numpy_form(act, [y], [y, *[None] * (len(act.list_outputs()) - 1)], Call())


PASSES = ChainPasses(_quantize_rows, row_products_by_numpy, _finish, _activate)


def _fused_convolution(op: FusedConvolution, ins: Sequence[Any], outs: Sequence[Any], call: Call
                      ) -> None:
    work = [np.empty(*spec) for spec in op.own_work(ins, outs)]
    data, weight = op.pick(ins)["data"], work[0]
    sums = np.empty(outs[0].shape, FLOAT32) if op.quantized else outs[0]
    run = (partial(convolve_integers, op.conv, data, weight, sums) if op.quantized else
           partial(convolution, op.conv, [data, weight], [sums], call))
    op.chained(ins, outs, work, (run, sums), PASSES)()


def _fused_fully_connected(op: FusedFullyConnected, ins: Sequence[Any], outs: Sequence[Any],
                           call: Call) -> None:
    work = [np.empty(*spec) for spec in op.own_work(ins, outs)]
    tensors = op.pick(ins)
    multiply = None if op.quantized else prepare_numpy_form(
        op.layer, [tensors["data"], tensors["weight"]], [outs[0]], call)
    op.chained(ins, outs, work, multiply, PASSES)()


implements(FusedConvolution, REFERENCE, _fused_convolution)
implements(FusedFullyConnected, REFERENCE, _fused_fully_connected)
