"""Attention over interleaved projections: batched products (`dot`) of strided views."""

from __future__ import annotations

from typing import Any

from ...nn.attention import _Scores, _stacked, _Weighed, heads_of
from ..lib.strided_copy import fill_view, view_of
from ..linalg.dot import Pair, matmul, matmul_gradients, transpose
from ..runtime.device_memory import Array
from ..runtime.launch import Launch, on_gpu


def _heads(op: Any, tensor: Array | None, parts: int, part: int) -> Any:
    """A part of a projection as matrices; None stays."""
    if tensor is None:
        return None
    return view_of(tensor, lambda model: heads_of(model, op.heads, parts, part))


def _attention(op: Any, tensor: Array | None) -> Any:
    """Attention as matrices; None stays."""
    return None if tensor is None else view_of(tensor, lambda model: _stacked(model, op.heads))


def _clear(op: Any, tensor: Array | None, kept: tuple[int, ...]) -> list[Launch]:
    """Zero gradient for the parts that an op does not read."""
    unread = sorted(set(range(op.parts)).difference(kept)) if tensor is not None else []
    return [launch for part in unread
            for launch in fill_view(_heads(op, tensor, op.parts, part), 0)]


def _queries_and_keys(op: Any, tensors: Any) -> Pair:
    """Queries and transposed keys of the inputs or their gradients."""
    own = op.parts if len(tensors) == 1 else 1
    keys = _heads(op, tensors[-1], op.parts, op.parts - 2)
    return _heads(op, tensors[0], own, 0), keys and transpose(keys)


def _scores(op: _Scores, ins: Any, outs: Any, call: Any) -> list[Launch]:
    q, k = _queries_and_keys(op, ins)
    return matmul(q, k, _attention(op, outs[0]), q.shape[-1] ** -0.5)


def _scores_backward(op: _Scores, ins: Any, outs: Any, call: Any) -> list[Launch]:
    q, k = _queries_and_keys(op, ins[1:])
    return [*matmul_gradients(_attention(op, ins[0]), (q, k), _queries_and_keys(op, outs), call,
                               q.shape[-1] ** -0.5),
            *_clear(op, outs[-1], (0, 1) if len(outs) == 1 else (0,))]


def _weights_and_values(op: Any, tensors: Any) -> Pair:
    return _attention(op, tensors[1]), _heads(op, tensors[0], op.parts, op.parts - 1)


def _weighed_backward(op: _Weighed, ins: Any, outs: Any, call: Any) -> list[Launch]:
    return [*matmul_gradients(_heads(op, ins[0], 1, 0), _weights_and_values(op, ins[1:]),
                               _weights_and_values(op, outs), call),
            *_clear(op, outs[0], (op.parts - 1,))]


on_gpu(_Scores, _scores, _scores_backward)
on_gpu(_Weighed,
       lambda op, ins, outs, call: matmul(*_weights_and_values(op, ins), _heads(op, outs[0], 1, 0)),
       _weighed_backward)
