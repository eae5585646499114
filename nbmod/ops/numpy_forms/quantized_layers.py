"""Convolution and pooling of bytes with NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..dispatch import REFERENCE, implements
from ..nn.convolution import Convolution
from ..op import Call
from ..quantization.quantized_layers import QuantizedConvolution, QuantizedPooling
from .sliding_window import convolution, pooling

__all__ = ["convolve_integers"]


def convolve_integers(op: Convolution, data: np.ndarray, weight: np.ndarray, sums: np.ndarray
                     ) -> None:
    """A convolution without bias; float64 represents sums of products of bytes exactly."""
    wide = np.empty(sums.shape)
    convolution(op, [data.astype(np.float64), weight.astype(np.float64)], [wide], Call())
    np.copyto(sums, wide, casting="unsafe")


def _quantized_convolution(op: QuantizedConvolution, ins: Sequence[Any], outs: Sequence[Any],
                           call: Call) -> None:
    sums = np.empty(outs[0].shape)
    convolve_integers(replace(op.layer, no_bias=True), ins[0], ins[1], sums)
    op.store(sums, ins, outs)


def _quantized_pooling(op: QuantizedPooling, ins: Sequence[Any], outs: Sequence[Any], call: Call
                      ) -> None:
    data, values = ins[0].astype(np.float32), np.empty(outs[0].shape, np.float32)
    layer, area = op.summing(data.shape)
    pooling(layer, [data], [values], call)
    op.store(values, area, ins, outs)


implements(QuantizedConvolution, REFERENCE, _quantized_convolution)
implements(QuantizedPooling, REFERENCE, _quantized_pooling)
