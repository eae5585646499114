"""Slicing, splitting, concatenation and stacking: copies of rectangular regions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...dispatch import implements
from ...op import Call
from ...regions import Region, slice_region
from ...rules import to_type
from ...tensor.slicing import (
    Concat,
    Cut,
    SliceAssign,
    SliceAssignScalar,
    Split,
    Stack,
    _bounds,
    along,
)
from ..elementwise.formula_op import COPY, run_program
from ..lib.fill import fill, first_gradient
from ..lib.strided_copy import copy_view, fill_view, view_of
from ..runtime.device_memory import Array, Arrays, Outputs
from ..runtime.launch import Launch


def _take(array: Array, region: Region, piece: Array) -> list[Launch]:
    return copy_view(view_of(array, lambda model: model[region]), view_of(piece))


def _put(piece: Array, array: Array, region: Region) -> list[Launch]:
    return copy_view(view_of(piece), view_of(array, lambda model: model[region]))


@first_gradient
def _cut_backward(op: Cut, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    g, gx = ins[0], outs[0]
    return fill(gx, 0) + _put(g, gx, op.region(gx.shape, g.shape))


def _region(op: SliceAssign | SliceAssignScalar, array: Array) -> Region:
    return slice_region(array.shape, op.begin, op.end, op.step)


def _assign(op: SliceAssign, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    return run_program(COPY, ins[:1], outs) + _put(ins[1], outs[0], _region(op, outs[0]))


def _set_region(op: SliceAssign | SliceAssignScalar, x: Array, y: Array, value: float
                ) -> list[Launch]:
    """y = x, with `value` in the op's region."""
    region = _region(op, y)
    return run_program(COPY, [x], [y]) + fill_view(view_of(y, lambda model: model[region]), value)


def _assign_backward(op: SliceAssign, ins: Arrays, outs: Outputs, call: Call) -> list[Launch]:
    g, (gx, gpart) = ins[0], outs
    return [*(_set_region(op, g, gx, 0) if gx is not None else ()),
            *(_take(g, _region(op, g), gpart) if gpart is not None else ())]


def _assign_scalar(op: SliceAssignScalar, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    return _set_region(op, ins[0], outs[0], to_type(op.scalar, outs[0].dtype))


def _take_all(array: Array, regions: Sequence[Any], pieces: Sequence[Array | None]
              ) -> list[Launch]:
    return [launch for piece, region in zip(pieces, regions, strict=True) if piece is not None
            for launch in _take(array, region, piece)]


def _put_all(pieces: Sequence[Array], array: Array, regions: Sequence[Any]) -> list[Launch]:
    return [launch for piece, region in zip(pieces, regions, strict=True)
            for launch in _put(piece, array, region)]


def _pieces(op: Concat, sizes: Sequence[int], rank: int) -> list[Any]:
    """The region of every input of a Concat."""
    return [along(op.dim % rank, *ends) for ends in _bounds(list(sizes))]


def _concat(op: Concat, ins: Arrays, outs: Arrays, call: Call) -> list[Launch]:
    rank = outs[0].ndim
    return _put_all(ins, outs[0], _pieces(op, [x.shape[op.dim] for x in ins], rank))


def _concat_backward(op: Concat, ins: Arrays, outs: Outputs, call: Call) -> list[Launch]:
    sizes = [spec.shape[op.dim] for spec in call.specs]
    return _take_all(ins[0], _pieces(op, sizes, ins[0].ndim), outs)


def _layers(op: Stack, rank: int) -> list[Any]:
    """The region of every input of a Stack."""
    return [(slice(None),) * (op.axis % rank) + (i,) for i in range(op.num_args)]


implements(Cut, "cuda",
           lambda op, ins, outs, call: (
               _take(ins[0], op.region(ins[0].shape, outs[0].shape), outs[0])),
           _cut_backward)
implements(SliceAssign, "cuda", _assign, _assign_backward)
implements(SliceAssignScalar, "cuda", _assign_scalar,
           lambda op, ins, outs, call: _set_region(op, ins[0], outs[0], 0))
implements(Concat, "cuda", _concat, _concat_backward)
implements(Stack, "cuda",
           lambda op, ins, outs, call: _put_all(ins, outs[0], _layers(op, outs[0].ndim)),
           lambda op, ins, outs, call: _take_all(ins[0], _layers(op, ins[0].ndim), outs))
implements(Split, "cuda",
           lambda op, ins, outs, call: _take_all(ins[0], op.regions(ins[0].shape), outs),
           lambda op, ins, outs, call: _put_all(ins, outs[0], op.regions(outs[0].shape)))
