"""FullyConnected: a dense layer; forward pass and both gradients are matrix products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..elementwise.float_op import FloatOp
from ..linalg.bias_gradient import prepare_bias_gradient
from ..linalg.gemm import gemm_workspace, prepare_gemm
from ..op import Call, Run, Spec, all_of
from ..shape import PartialShape, ShapeMismatch, Shapes, size_of, unify

__all__ = ["FullyConnected"]


@dataclass(frozen=True)
class FullyConnected(FloatOp, name="FullyConnected", aliases=("_sparse_FullyConnected",)):
    """Y = X W^T + b.

    weight (num_hidden, I), bias (num_hidden,) or (num_hidden, 1).  With `flatten`, data (N, ...)
    counts as (N, I) and the output is (N, num_hidden); without, data (..., I) gives
    (..., num_hidden).
    """

    num_hidden: int
    no_bias: bool = False
    flatten: bool = True

    inputs: ClassVar = ("data", "weight", "bias")
    needs: ClassVar = ("ograd", "data", "weight")
    bilinear: ClassVar = ("data", "weight")
    accumulates_backward: ClassVar = True

    def list_inputs(self) -> tuple[str, ...]:
        return self.inputs[:2] if self.no_bias else self.inputs

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        if self.num_hidden < 1:
            raise ShapeMismatch(f"num_hidden is {self.num_hidden}, expected at least 1")
        data = ins[0]
        if not data:
            return list(ins), list(outs)
        split = 1 if self.flatten else len(data) - 1
        lead, rest = data[:split], data[split:]
        out = unify((*lead, self.num_hidden), outs[0], "computed and wanted output")
        assert out is not None
        data = (*out[:-1], *rest)
        weight = self._expect("weight", ins[1], (self.num_hidden, size_of(rest)), data)
        bias = [shape if shape == (self.num_hidden, 1) else
                self._expect("bias", shape, (self.num_hidden,), data) for shape in ins[2:]]
        return [data, weight, *bias], [out]

    def _expect(self, name: str, shape: PartialShape, expected: tuple[int, ...],
                data: PartialShape) -> PartialShape:
        try:
            return unify(shape, expected)
        except ShapeMismatch:
            raise ShapeMismatch(f"{name} has shape {shape}, expected {expected} from data {data}, "
                                f"num_hidden {self.num_hidden} and flatten {self.flatten}"
                                ) from None

    def _matrix(self, array: np.ndarray) -> Any:
        return array.reshape(len(array), -1) if self.flatten else array.reshape(-1, array.shape[-1])

    def _sizes(self, data: Spec) -> tuple[int, int]:
        """Rows and columns of the data as a matrix."""
        rows = data.shape[0] if self.flatten else size_of(data.shape[:-1])
        return rows, data.size // rows

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        rows, columns = self._sizes(ins[0])
        return [gemm_workspace(rows, columns, self.num_hidden, ins[0].dtype, order="CF")]

    def backward_scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        (rows, columns), hidden, dtype = self._sizes(ins[1]), self.num_hidden, ins[1].dtype
        return [gemm_workspace(rows, hidden, columns, dtype, order="CC"),
                gemm_workspace(hidden, rows, columns, dtype, order="FC")]

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        y = outs[0].reshape(-1, self.num_hidden)
        np.matmul(self._matrix(ins[0]), ins[1].T, out=y)
        if not self.no_bias:
            np.add(y, ins[2].reshape(-1), out=y)

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        return self.with_epilogue(ins, outs, call)

    def with_epilogue(self, ins: Sequence[Any], outs: Sequence[Any], call: Call, **options: bool
                      ) -> Run:
        """A function that computes the output and applies the epilogue of `prepare_gemm`."""
        y = outs[0].reshape(-1, self.num_hidden)
        return prepare_gemm(self._matrix(ins[0]), ins[1].T, y, call.scratch[0],
                            bias=None if self.no_bias else ins[2].reshape(-1), **options)

    def backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        gy, x, w = ins[0].reshape(-1, self.num_hidden), self._matrix(ins[1]), ins[2]
        if outs[0] is not None:
            np.matmul(gy, w, out=self._matrix(outs[0]))
        if outs[1] is not None:
            np.matmul(gy.T, x, out=outs[1])
        if not self.no_bias and outs[2] is not None:
            np.add.reduce(gy, axis=0, out=outs[2].reshape(-1))

    def prepare_backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        gy, x, w = ins[0].reshape(-1, self.num_hidden), self._matrix(ins[1]), ins[2]
        adds = [*call.add, False, False, False]
        runs: list[Callable[[], Any]] = []
        if outs[0] is not None:
            runs.append(prepare_gemm(gy, w, self._matrix(outs[0]), call.scratch[0], add=adds[0]))
        if outs[1] is not None:
            runs.append(prepare_gemm(gy.T, x, outs[1], call.scratch[1], add=adds[1]))
        if not self.no_bias and outs[2] is not None:
            runs.append(prepare_bias_gradient(gy, outs[2].reshape(-1), adds[2]))
        return all_of(runs)
