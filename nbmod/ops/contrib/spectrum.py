"""Fourier transforms and count sketches, as in compact bilinear pooling (Gao et al. 2016).

MXNet has these ops on GPUs only.  Complex numbers are interleaved: real part, imaginary part.
Gradients are the derivatives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...base import MXNetError
from ..elementwise.float_op import FloatOp
from ..op import Call
from ..rules import fill_zero
from ..shape import ShapeMismatch, unify

__all__ = ["CountSketch", "Fft", "Ifft"]


def _spread(data: np.ndarray, out: np.ndarray) -> None:
    """out (..., 2 d), real and imaginary parts of the transform of real data (..., d)."""
    spectrum = np.fft.fft(data)
    out[..., 0::2], out[..., 1::2] = spectrum.real, spectrum.imag


def _gather(data: np.ndarray, out: np.ndarray) -> None:
    """out (..., d), real parts of d times the inverse transform of data (..., 2 d)."""
    out[...] = np.fft.ifft(data[..., 0::2] + 1j * data[..., 1::2]).real * out.shape[-1]


@dataclass(frozen=True)
class Fft(FloatOp, name="_contrib_fft"):
    """Fourier transform along the last axis: (..., d) -> (..., 2 d), real and imaginary in turn."""

    compute_size: int = 128
    needs: ClassVar = ("ograd",)

    def infer_shape(self, ins, outs):
        data = ins[0]
        if data is None or not data:
            return ins, outs
        return ins, [unify((*data[:-1], 2 * data[-1]), outs[0], "computed and wanted output")]

    def forward(self, ins, outs, call):
        _spread(ins[0], outs[0])

    def backward(self, ins, outs, call):
        if outs[0] is not None:
            _gather(ins[0], outs[0])


@dataclass(frozen=True)
class Ifft(FloatOp, name="_contrib_ifft"):
    """Real part of the inverse transform, not divided by d: (..., 2 d) -> (..., d)."""

    compute_size: int = 128
    needs: ClassVar = ("ograd",)

    def infer_shape(self, ins, outs):
        data = ins[0]
        if data is None or not data:
            return ins, outs
        if data[-1] % 2:
            raise ShapeMismatch(f"data has shape {data}, expected (..., 2 d): pairs of real and "
                                "imaginary parts")
        return ins, [unify((*data[:-1], data[-1] // 2), outs[0], "computed and wanted output")]

    def forward(self, ins, outs, call):
        _gather(ins[0], outs[0])

    def backward(self, ins, outs, call):
        if outs[0] is not None:
            _spread(ins[0], outs[0])


@dataclass(frozen=True, kw_only=True)
class CountSketch(FloatOp, name="_contrib_count_sketch"):
    """out[n, h[i]] = sum of s[i] data[n, i]: (N, d) -> (N, out_dim); h and s are (1, d).

    h holds columns of the output, s signs; they get no gradient.
    """

    out_dim: int
    processing_batch_size: int = 32

    inputs: ClassVar = ("data", "h", "s")
    needs: ClassVar = ("ograd", "h", "s")

    def infer_shape(self, ins, outs):
        data = ins[0]
        if data is None:
            return ins, outs
        if len(data) != 2 or self.out_dim < 1:
            raise ShapeMismatch(f"data has shape {data} and out_dim is {self.out_dim}, expected "
                                "(N, d) and at least 1")
        row = unify((1, data[1]), unify(ins[1], ins[2], "h and s"), "h and columns of data")
        return [data, row, row], [unify((data[0], self.out_dim), outs[0],
                                        "computed and wanted output")]

    def _columns(self, h: np.ndarray) -> np.ndarray:
        columns = h.reshape(-1).astype(np.int64)
        wrong = (columns < 0) | (columns >= self.out_dim)
        if wrong.any():
            raise MXNetError(f"{self.name}: h holds {columns[wrong][0]}, expected columns from 0 "
                             f"to {self.out_dim - 1}")
        return columns

    def forward(self, ins: Sequence[np.ndarray], outs: Sequence[np.ndarray], call: Call) -> None:
        data, h, s = ins
        outs[0].fill(0)
        np.add.at(outs[0].T, self._columns(h), (data * s).T)

    def backward(self, ins: Sequence[np.ndarray], outs: Sequence[np.ndarray], call: Call) -> None:
        g, h, s = ins
        fill_zero(outs[1:])
        if outs[0] is not None:
            np.multiply(g[:, self._columns(h)], s, out=outs[0])
