"""Multi-head attention (Vaswani et al. 2017) over interleaved projections: scores, weighted values.

For each step t and sample n, a projection holds H heads, and in each head its queries, keys and
values (self-attention), or its keys and values (encoder-decoder attention), of E elements each:

    queries_keys_values (T, N, H 3 E)        keys_values (T, N, H 2 E)        queries (S, N, H E)

`heads_of` views any part of these as stacks of matrices (N, H, T, E) without a copy, so all
operators are batched products of `linalg.dot`, and gradients are written through the same views.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ..elementwise.float_op import require_float
from ..linalg.dot import Sizes, multiply_gradients, prepare_multiply, prepare_multiply_gradients
from ..linalg.numpy_products import multiply
from ..op import Op, Tensor, all_of
from ..param import Shape
from ..shape import PartialShape, ShapeMismatch, unify

__all__ = ["heads_of"]


def heads_of(tensor: np.ndarray | None, heads: int, parts: int, part: int) -> Any:
    """Part `part` of (T, N, H parts E) as matrices (N, H, T, E); None is returned unchanged."""
    if tensor is None:
        return None
    time, batch, width = tensor.shape
    split = tensor.reshape(time, batch, heads, parts, width // (heads * parts))
    return split[:, :, :, part].transpose(1, 2, 0, 3)


@dataclass(frozen=True)
class Attention(Op):
    """Base of the four operators: a batched product of two factors, which are parts of projections
    or attention (N H, S, T)."""

    parts: ClassVar[int]
    interleaved: ClassVar[int]
    """Index of the interleaved projection among the inputs."""
    unread: ClassVar[slice]
    """Parts of that projection that are not factors: their gradients are 0."""
    heads: int

    def infer_type(self, ins, outs):
        require_float(self, ins)
        return super().infer_type(ins, outs)

    def projection(self, shape: PartialShape, name: str, parts: int) -> tuple[int, int, int]:
        """(T, N, E) of a projection, 0 where unknown."""
        if self.heads < 1:
            raise ShapeMismatch(f"heads is {self.heads}, expected at least 1")
        if shape is None:
            return 0, 0, 0
        unit = self.heads * parts
        if len(shape) != 3 or shape[2] % unit:
            raise ShapeMismatch(f"{name} has shape {shape}, expected (T, N, heads {parts} E) with "
                                f"{self.heads} heads: a multiple of {unit} columns")
        return shape[0], shape[1], shape[2] // unit

    def full(self, time: int, batch: int, width: int, parts: int) -> Shape:
        """Shape of a projection, 0 where unknown."""
        return time, batch, self.heads * parts * width

    def scores(self, batch: int, rows: int, columns: int) -> Shape:
        """Shape of attention, 0 where unknown."""
        return self.heads * batch, rows, columns

    def stacked(self, attention: np.ndarray | None) -> Any:
        """Attention (N H, S, T) as matrices (N, H, S, T); None is returned unchanged."""
        return None if attention is None else attention.reshape(-1, self.heads,
                                                                *attention.shape[1:])

    def width(self, tensors: Sequence[Tensor]) -> int:
        """E, from the inputs."""
        return tensors[self.interleaved].shape[-1] // (self.heads * self.parts)

    def factors(self, tensors: Sequence[np.ndarray | None]) -> tuple[Any, Any]:
        """Both factors of the product, as matrices, of the inputs or of their gradients."""
        raise NotImplementedError

    def product(self, tensor: np.ndarray | None) -> Any:
        """The output or its gradient, as matrices."""
        raise NotImplementedError

    def sizes(self, tensors: Sequence[Tensor], output: Tensor) -> Sizes:
        """Sizes of the product."""
        raise NotImplementedError

    def scale(self, tensors: Sequence[Tensor]) -> float:
        """Factor of the product."""
        return 1.0

    def clear_unread(self, gradients: Sequence[np.ndarray | None]) -> None:
        gradient = gradients[self.interleaved]
        for part in range(self.parts)[self.unread] if gradient is not None else ():
            heads_of(gradient, self.heads, self.parts, part)[...] = 0

    def scratch(self, ins, outs):
        return [self.sizes(ins, outs[0]).workspace(ins[0].dtype)]

    def backward_scratch(self, ins, outs):
        return self.sizes(ins[1:], ins[0]).gradient_workspaces(ins[0].dtype)

    def forward(self, ins, outs, call):
        multiply(*self.factors(ins), self.product(outs[0]), self.scale(ins))

    def prepare(self, ins, outs, call):
        return prepare_multiply(*self.factors(ins), self.product(outs[0]), call.scratch[0],
                                self.scale(ins))

    def backward(self, ins, outs, call):
        multiply_gradients(self.product(ins[0]), *self.factors(ins[1:]), *self.factors(outs),
                           self.scale(ins[1:]))
        self.clear_unread(outs)

    def prepare_backward(self, ins, outs, call):
        run = prepare_multiply_gradients(self.product(ins[0]), *self.factors(ins[1:]),
                                         *self.factors(outs), call, self.scale(ins[1:]))
        return all_of([run, partial(self.clear_unread, outs)])


class _Scores(Attention):
    """Scores Q K^T / sqrt(E): queries are the first part of their input, keys precede values."""

    interleaved: ClassVar = -1
    unread: ClassVar = slice(-1, None)

    def factors(self, tensors):
        own = self.parts if len(tensors) == 1 else 1
        keys = heads_of(tensors[-1], self.heads, self.parts, self.parts - 2)
        return (heads_of(tensors[0], self.heads, own, 0),
                None if keys is None else keys.swapaxes(-1, -2))

    def product(self, tensor):
        return self.stacked(tensor)

    def sizes(self, tensors, output):
        stack, rows, columns = output.shape
        return Sizes(stack, rows, self.width(tensors), columns)

    def scale(self, tensors):
        return self.width(tensors) ** -0.5


class _Values(Attention):
    """Sums of values, the last part of the projection, weighted by attention."""

    interleaved: ClassVar = 0
    unread: ClassVar = slice(-1)

    def factors(self, tensors):
        return self.stacked(tensors[1]), heads_of(tensors[0], self.heads, self.parts,
                                                  self.parts - 1)

    def product(self, tensor):
        return heads_of(tensor, self.heads, 1, 0)

    def sizes(self, tensors, output):
        stack, rows, depth = tensors[1].shape
        return Sizes(stack, rows, depth, self.width(tensors))

    def infer_shape(self, ins, outs):
        time, batch, width = self.projection(ins[0], self.inputs[0], self.parts)
        rows = ins[1][1] if ins[1] is not None and len(ins[1]) == 3 else 0
        rows = time if self.parts == 3 else rows  # self-attention
        attention = unify(ins[1], self.scores(batch, rows, time),
                          f"attention and its size for {self.inputs[0]}")
        return [ins[0], attention], [self.full(rows, batch, width, 1)]


class SelfAttentionScores(_Scores, name="_contrib_interleaved_matmul_selfatt_qk"):
    """Q K^T / sqrt(E) for every sample and head, (N H, T, T).

    queries_keys_values (T, N, H 3 E), in every head queries, keys and values.
    """

    parts: ClassVar = 3
    inputs: ClassVar = ("queries_keys_values",)
    needs: ClassVar = ("ograd", "queries_keys_values")

    def infer_shape(self, ins, outs):
        time, batch, width = self.projection(ins[0], self.inputs[0], 3)
        return ins, [unify(self.scores(batch, time, time), outs[0], "computed and wanted output")]


class SelfAttentionValues(_Values, name="_contrib_interleaved_matmul_selfatt_valatt"):
    """attention V for every sample and head, heads concatenated again: (T, N, H E).

    queries_keys_values (T, N, H 3 E), in every head queries, keys and values; attention
    (N H, T, T).
    """

    parts: ClassVar = 3
    inputs: ClassVar = ("queries_keys_values", "attention")
    needs: ClassVar = ("ograd", "queries_keys_values", "attention")


class CrossAttentionScores(_Scores, name="_contrib_interleaved_matmul_encdec_qk"):
    """Q K^T / sqrt(E) for every sample and head, (N H, S, T).

    queries (S, N, H E); keys_values (T, N, H 2 E), in every head keys and values.
    """

    parts: ClassVar = 2
    inputs: ClassVar = ("queries", "keys_values")
    needs: ClassVar = ("ograd", "queries", "keys_values")

    def infer_shape(self, ins, outs):
        rows, batch, width = self.projection(ins[0], "queries", 1)
        time, other, depth = self.projection(ins[1], "keys_values", 2)
        batch, width = batch or other, width or depth
        sizes = [self.full(rows, batch, width, 1), self.full(time, batch, width, 2)]
        ins = [unify(shape, size, f"{name} and what the other input requires")
               for name, shape, size in zip(self.inputs, ins, sizes, strict=True)]
        return ins, [unify(self.scores(batch, rows, time), outs[0], "computed and wanted output")]


class CrossAttentionValues(_Values, name="_contrib_interleaved_matmul_encdec_valatt"):
    """attention V for every sample and head, heads concatenated again: (S, N, H E).

    keys_values (T, N, H 2 E), in every head keys and values; attention (N H, S, T).
    """

    parts: ClassVar = 2
    inputs: ClassVar = ("keys_values", "attention")
    needs: ClassVar = ("ograd", "keys_values", "attention")
