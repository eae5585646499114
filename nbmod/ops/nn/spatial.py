"""Channels-last tensors: ops over images compute on channels-first copies of them.

Kernels process channels-first tensors.  With a channels-last layout tensors are transposed to
copies in the workspace, around the computation.  (Real MXNet has no channels-last convolution on
the CPU.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from ..dispatch import NUMBA, AnyOp, Estimate, Implementation, Specs, Storage, unknown
from ..elementwise.float16 import through_float32
from ..elementwise.float_op import FloatOp
from ..op import Call, Run, Spec

__all__ = ["SpatialOp"]


def through_channels_first(inner: Implementation) -> Implementation:
    """An implementation that gets channels-first copies of channels-last tensors."""

    def prepare(op: AnyOp, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        if not op.channels_last:
            return inner.prepare(op, ins, outs, call)
        first: list[Any] = [*_first(ins), *_first(outs)]
        own = len(inner.workspace(op, first[:len(ins)], first[len(ins):]))
        copies = call.scratch[own:own + len(first)] if inner.key == NUMBA else [
            spec and np.empty(*spec) for spec in first]
        inside, outside = copies[:len(ins)], copies[len(ins):]
        targets = [copy if out is not None else None
                   for copy, out in zip(outside, outs, strict=True)]
        run = inner.prepare(op, inside, targets, replace(call, scratch=call.scratch[:own]))
        before = list(zip(inside, map(_moved, ins), strict=True))
        after = [(_moved(out), copy) for copy, out in zip(outside, outs, strict=True)
                 if out is not None]

        def copying() -> None:
            for target, source in before:
                np.copyto(target, source)
            run()
            for target, source in after:
                np.copyto(target, source)

        return copying

    def workspace(op: AnyOp, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        if not op.channels_last:
            return inner.workspace(op, ins, outs)
        first = _first(ins), _first(outs)
        return [*inner.workspace(op, *first), *first[0], *first[1]]

    def estimate(op: AnyOp, ins: Specs, outs: Specs) -> Estimate:
        return inner.estimate(op, *(map(_first, (ins, outs)) if op.channels_last else (ins, outs)))

    return inner._replace(prepare=prepare, workspace=workspace,
                          estimate=unknown if inner.estimate is unknown else estimate)


class SpatialOp(FloatOp):
    """Base of ops over images: what computes only sees channels-first tensors."""

    storage: ClassVar[tuple[Storage, ...]] = (through_float32, through_channels_first)

    @property
    def channels_last(self) -> bool:
        """Whether the op's tensors have their channels last."""
        return False


def _first(tensors: Sequence[Any]) -> list[Any]:
    """Specs of tensors with channels moved to axis 1; vectors, such as a bias, are unchanged, and
    None stays where an output is not wanted."""
    return [None if tensor is None else Spec(_shape(*tensor.shape), tensor.dtype)
            for tensor in tensors]


def _shape(*shape: int) -> tuple[int, ...]:
    return (shape[0], shape[-1], *shape[1:-1]) if len(shape) > 2 else shape


def _moved(array: np.ndarray) -> Any:
    return np.moveaxis(array, -1, 1) if array.ndim > 2 else array
