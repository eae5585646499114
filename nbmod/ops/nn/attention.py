"""Multi-head attention (Vaswani et al. 2017) over interleaved projections: scores, weighted values.

For each step t and sample n, a projection holds H heads, and in each head its queries, keys and
values (self-attention), or its keys and values (encoder-decoder attention), of E elements each:

    queries_keys_values (T, N, H 3 E)        keys_values (T, N, H 2 E)        queries (S, N, H E)

`heads_of` views any part of these as stacks of matrices (N, H, T, E) without a copy, so both ops
are batched products of `linalg.dot`, and gradients are written through the same views.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from ..elementwise.float_op import require_float
from ..linalg.dot import (
    Sizes,
    multiply,
    multiply_gradients,
    prepare_multiply,
    prepare_multiply_gradients,
)
from ..op import Op, all_of
from ..param import Shape
from ..shape import PartialShape, ShapeMismatch, unify

__all__ = ["heads_of"]


def heads_of(tensor: Any, heads: int, parts: int, part: int) -> Any:
    """Part `part` of (T, N, H parts E) as matrices (N, H, T, E); None is returned unchanged."""
    if tensor is None:
        return None
    time, batch, width = tensor.shape
    split = tensor.reshape(time, batch, heads, parts, width // (heads * parts))
    return split[:, :, :, part].transpose(1, 2, 0, 3)


def _stacked(attention: Any, heads: int) -> Any:
    """Attention (N H, S, T) as matrices (N, H, S, T); None is returned unchanged."""
    return None if attention is None else attention.reshape(-1, heads, *attention.shape[1:])


def _clear(tensor: Any, heads: int, parts: int, kept: tuple[int, ...]) -> None:
    """Zero the gradients of the parts that an op does not read."""
    for part in set(range(parts)).difference(kept):
        if tensor is not None:
            heads_of(tensor, heads, parts, part)[...] = 0


class Attention(Op):
    """Base of the four ops: shapes of their interleaved projections."""

    parts: ClassVar[int]
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


class _Scores(Attention):
    """Scores Q K^T / sqrt(E): queries are the first part of their input, keys precede values."""

    def scratch(self, ins, outs):
        return [self._sizes(ins, outs[0].shape).workspace(ins[0].dtype)]

    def backward_scratch(self, ins, outs):
        return self._sizes(ins[1:], ins[0].shape).gradient_workspaces(ins[0].dtype)

    def _sizes(self, tensors: Any, scores: Shape) -> Sizes:
        width = tensors[-1].shape[-1] // (self.heads * self.parts)
        return Sizes(scores[0], scores[1], width, scores[2])

    def _factors(self, tensors: Any) -> tuple[Any, Any]:
        """Queries and transposed keys of the inputs or their gradients."""
        own = self.parts if len(tensors) == 1 else 1
        keys = heads_of(tensors[-1], self.heads, self.parts, self.parts - 2)
        return (heads_of(tensors[0], self.heads, own, 0),
                None if keys is None else keys.swapaxes(-1, -2))

    def forward(self, ins, outs, call):
        q, k = self._factors(ins)
        multiply(q, k, _stacked(outs[0], self.heads), q.shape[-1] ** -0.5)

    def prepare(self, ins, outs, call):
        q, k = self._factors(ins)
        return prepare_multiply(q, k, _stacked(outs[0], self.heads), call.scratch[0],
                           q.shape[-1] ** -0.5)

    def backward(self, ins, outs, call):
        q, k = self._factors(ins[1:])
        multiply_gradients(_stacked(ins[0], self.heads), q, k, *self._factors(outs),
                           q.shape[-1] ** -0.5)
        self._clear(outs)

    def prepare_backward(self, ins, outs, call):
        q, k = self._factors(ins[1:])
        return all_of([prepare_multiply_gradients(_stacked(ins[0], self.heads), q, k,
                                             *self._factors(outs), call, q.shape[-1] ** -0.5),
                       partial(self._clear, outs)])

    def _clear(self, outs: Any) -> None:
        _clear(outs[-1], self.heads, self.parts, (0, 1) if len(outs) == 1 else (0,))


class _Weighed(Attention):
    """Sums of values, the last part of the projection, weighted by attention."""

    def scratch(self, ins, outs):
        return [self._sizes(*ins).workspace(ins[0].dtype)]

    def backward_scratch(self, ins, outs):
        return self._sizes(*ins[1:]).gradient_workspaces(ins[0].dtype)

    def _sizes(self, projection: Any, attention: Any) -> Sizes:
        stack, rows, depth = attention.shape
        return Sizes(stack, rows, depth, projection.shape[-1] // (self.heads * self.parts))

    def _factors(self, tensors: Any) -> tuple[Any, Any]:
        """Attention and values of the inputs or their gradients."""
        return (_stacked(tensors[1], self.heads),
                heads_of(tensors[0], self.heads, self.parts, self.parts - 1))

    def forward(self, ins, outs, call):
        multiply(*self._factors(ins), heads_of(outs[0], self.heads, 1, 0))

    def prepare(self, ins, outs, call):
        return prepare_multiply(*self._factors(ins), heads_of(outs[0], self.heads, 1, 0),
                           call.scratch[0])

    def backward(self, ins, outs, call):
        multiply_gradients(heads_of(ins[0], self.heads, 1, 0), *self._factors(ins[1:]),
                           *self._factors(outs))
        self._clear(outs)

    def prepare_backward(self, ins, outs, call):
        return all_of([prepare_multiply_gradients(heads_of(ins[0], self.heads, 1, 0),
                                             *self._factors(ins[1:]), *self._factors(outs), call),
                       partial(self._clear, outs)])

    def _clear(self, outs: Any) -> None:
        _clear(outs[0], self.heads, self.parts, (self.parts - 1,))


@dataclass(frozen=True)
class SelfAttentionScores(_Scores, name="_contrib_interleaved_matmul_selfatt_qk"):
    """Q K^T / sqrt(E) for every sample and head, (N H, T, T).

    queries_keys_values (T, N, H 3 E), in every head queries, keys and values.
    """

    heads: int
    parts: ClassVar = 3
    inputs: ClassVar = ("queries_keys_values",)
    needs: ClassVar = ("ograd", "queries_keys_values")

    def infer_shape(self, ins, outs):
        time, batch, width = self.projection(ins[0], self.inputs[0], 3)
        return ins, [unify(self.scores(batch, time, time), outs[0], "computed and wanted output")]


@dataclass(frozen=True)
class SelfAttentionValues(_Weighed, name="_contrib_interleaved_matmul_selfatt_valatt"):
    """attention V for every sample and head, heads side by side again: (T, N, H E).

    queries_keys_values (T, N, H 3 E), in every head queries, keys and values; attention
    (N H, T, T).
    """

    heads: int
    parts: ClassVar = 3
    inputs: ClassVar = ("queries_keys_values", "attention")
    needs: ClassVar = ("ograd", "queries_keys_values", "attention")

    def infer_shape(self, ins, outs):
        time, batch, width = self.projection(ins[0], self.inputs[0], 3)
        attention = unify(ins[1], self.scores(batch, time, time), "attention and its size for "
                          "queries_keys_values")
        return [ins[0], attention], [self.full(time, batch, width, 1)]


@dataclass(frozen=True)
class CrossAttentionScores(_Scores, name="_contrib_interleaved_matmul_encdec_qk"):
    """Q K^T / sqrt(E) for every sample and head, (N H, S, T).

    queries (S, N, H E); keys_values (T, N, H 2 E), in every head keys and values.
    """

    heads: int
    parts: ClassVar = 2
    inputs: ClassVar = ("queries", "keys_values")
    needs: ClassVar = ("ograd", "queries", "keys_values")

    def infer_shape(self, ins, outs):
        rows, batch, width = self.projection(ins[0], "queries", 1)
        time, other, depth = self.projection(ins[1], "keys_values", 2)
        batch, width = batch or other, width or depth
        sizes = [self.full(rows, batch, width, 1), self.full(time, batch, width, 2)]
        ins = [unify(shape, size, f"{name} and what the other input asks for")
               for name, shape, size in zip(self.inputs, ins, sizes, strict=True)]
        return ins, [unify(self.scores(batch, rows, time), outs[0], "computed and wanted output")]


@dataclass(frozen=True)
class CrossAttentionValues(_Weighed, name="_contrib_interleaved_matmul_encdec_valatt"):
    """attention V for every sample and head, heads side by side again: (S, N, H E).

    keys_values (T, N, H 2 E), in every head keys and values; attention (N H, S, T).
    """

    heads: int
    parts: ClassVar = 2
    inputs: ClassVar = ("keys_values", "attention")
    needs: ClassVar = ("ograd", "keys_values", "attention")

    def infer_shape(self, ins, outs):
        time, batch, width = self.projection(ins[0], "keys_values", 2)
        rows = ins[1][1] if ins[1] is not None and len(ins[1]) == 3 else 0
        attention = unify(ins[1], self.scores(batch, rows, time), "attention and its size for "
                          "keys_values")
        return [ins[0], attention], [self.full(rows, batch, width, 1)]
