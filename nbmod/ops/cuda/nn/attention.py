"""Attention over interleaved projections: batched products (`dot`) of strided views."""

from __future__ import annotations

from typing import Any

from ...dispatch import implements
from ...nn.attention import Attention, _Values, heads_of
from ...op import Call
from ..lib.strided_copy import fill_view, view_of
from ..linalg.dot import Pair, matmul, matmul_gradients, transpose
from ..runtime.device_memory import Array, Arrays, Outputs
from ..runtime.launch import Launch


def _heads(op: Attention, tensor: Array | None, parts: int, part: int) -> Any:
    """A part of a projection as matrices; None is returned unchanged."""
    if tensor is None:
        return None
    return view_of(tensor, lambda model: heads_of(model, op.heads, parts, part))


def _factors(op: Attention, tensors: Outputs) -> Pair:
    """Both factors of the product, of the inputs or of their gradients."""
    if isinstance(op, _Values):
        return _attention(op, tensors[1]), _heads(op, tensors[0], op.parts, op.parts - 1)
    own = op.parts if len(tensors) == 1 else 1
    keys = _heads(op, tensors[-1], op.parts, op.parts - 2)
    return _heads(op, tensors[0], own, 0), keys and transpose(keys)


def _attention(op: Attention, tensor: Array | None) -> Any:
    """Attention as matrices; None is returned unchanged."""
    return None if tensor is None else view_of(tensor, op.stacked)


def _product(op: Attention, tensor: Array) -> Any:
    """The output or its gradient as matrices."""
    return _heads(op, tensor, 1, 0) if isinstance(op, _Values) else _attention(op, tensor)


def _forward(op: Attention, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    return matmul(*_factors(op, ins), _product(op, outs[0]), op.scale(ins))


def _backward(op: Attention, ins: Arrays, outs: Outputs, call: Call) -> list[Launch]:
    launches = [*matmul_gradients(_product(op, ins[0]), _factors(op, ins[1:]), _factors(op, outs),
                                  call, op.scale(ins[1:]))]
    gradient = outs[op.interleaved]
    for part in range(op.parts)[op.unread] if gradient is not None else ():
        launches += fill_view(_heads(op, gradient, op.parts, part), 0)
    return launches


implements(Attention, "cuda", _forward, _backward)
