"""The same elements in another order, or repeated."""

from __future__ import annotations

from typing import Any

from ..rearrange import Permutation, Repeat, Tile
from .formula_op import COPY, run_program
from .launch import Launch, on_gpu
from .strided import copy_view, view_of


def _permute(op: Permutation, ins: Any, outs: Any, call: Any) -> list[Launch]:
    source = view_of(ins[0], op.turned)
    return copy_view(source, view_of(outs[0].reshape(source.shape)))


def _permute_back(op: Permutation, ins: Any, outs: Any, call: Any) -> list[Launch]:
    source = view_of(ins[0], op.turned_back)
    return copy_view(source, view_of(outs[0].reshape(source.shape)))


def _tile(op: Tile, ins: Any, outs: Any, call: Any) -> list[Launch]:
    x, y = op._interleaved(ins[0], outs[0])
    return run_program(COPY, [x], [y])


def _tile_backward(op: Tile, ins: Any, outs: Any, call: Any) -> list[Launch]:
    gx, g = op._interleaved(outs[0], ins[0])
    return run_program(COPY, [g], [gx])


def _repeat(op: Repeat, ins: Any, outs: Any, call: Any) -> list[Launch]:
    x, y = op._folded(ins[0], outs[0])
    return run_program(COPY, [x], [y])


def _repeat_backward(op: Repeat, ins: Any, outs: Any, call: Any) -> list[Launch]:
    gx, g = op._folded(outs[0], ins[0])
    return run_program(COPY, [g], [gx])


on_gpu(Permutation, _permute, _permute_back)
on_gpu(Tile, _tile, _tile_backward)
on_gpu(Repeat, _repeat, _repeat_backward)
