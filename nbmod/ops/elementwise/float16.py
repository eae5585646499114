"""float16 is a storage type: what computes it converts it to float32 and back.

No CPU kernel computes in float16.  An op with float16 tensors gets float32 copies of them, in its
workspace: inputs are converted before it runs, and outputs after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..dispatch import NUMBA, AnyOp, Estimate, Implementation, Specs, unknown
from ..op import Call, Run, Spec
from ..param import Shape
from .cast import CONVERT
from .formula_op import kernels

__all__ = ["FLOAT16", "FLOAT32", "accumulator", "convert_eagerly", "convert_prepared",
           "in_float32", "is_stored", "through_float32", "with_copies"]

FLOAT16, FLOAT32 = np.dtype(np.float16), np.dtype(np.float32)

Make = Callable[[Sequence[Any], Sequence[Any], Call], Run]
"""From inputs, outputs and the call to a function that computes."""
Work = Callable[[list[Spec], list[Spec]], list[Spec]]
"""From the specs of inputs and outputs to those of a workspace."""
Convert = Callable[[Any, Any], Run]
"""From source and target to a function that converts the one to the other."""


def accumulator(dtype: np.dtype) -> np.dtype:
    """The dtype in which tensors of `dtype` are computed."""
    return FLOAT32 if dtype == FLOAT16 else dtype


def is_stored(tensors: Sequence[Any]) -> bool:
    """Whether one of these tensors, or of their specs, is float16; None is an unwanted output."""
    return any(tensor is not None and tensor.dtype == FLOAT16 for tensor in tensors)


def with_copies(work: Work, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    """The workspace `work`, then one array for every tensor: its float32 copy, or an empty one.

    Every tensor has one, so that positions do not depend on which outputs are wanted in the end.
    """
    wide_ins, wide_outs = _wide(ins), _wide(outs)
    empty = Spec((0,), FLOAT32)
    return work(wide_ins, wide_outs) + [
        wide if spec.dtype == FLOAT16 else empty
        for spec, wide in zip((*ins, *outs), (*wide_ins, *wide_outs), strict=True)]


def _wide(tensors: Sequence[Any]) -> list[Any]:
    """Specs of the tensors that are computed with; None stays where an output is not wanted."""
    return [None if tensor is None else Spec(tensor.shape, accumulator(tensor.dtype))
            for tensor in tensors]


def convert_eagerly(source: np.ndarray, target: np.ndarray) -> Run:
    """A function that converts one array to another, with NumPy."""
    return partial(np.copyto, target, source, casting="same_kind")


def convert_prepared(source: np.ndarray, target: np.ndarray) -> Run:
    """A function that converts one array to another, by a kernel if both are contiguous."""
    if source.flags.c_contiguous and target.flags.c_contiguous:
        return kernels().prepare(CONVERT, [source], [target])
    return convert_eagerly(source, target)


def in_float32(make: Make, ins: Sequence[Any], outs: Sequence[Any], call: Call,
               convert: Convert) -> Run:
    """`make(ins, outs, call)` on float32 copies of float16 arrays, converted by `convert`."""
    tensors = [*ins, *outs]
    copies = call.scratch[-len(tensors):]
    # Inputs are converted before, and outputs that are added to; all outputs after.
    is_read = [True] * len(ins) + [*call.add, *[False] * len(outs)][:len(outs)]
    wide, before, after = [], [], []
    of_outputs: dict[tuple[int, Shape], Any] = {}
    for i, (tensor, copy) in enumerate(zip(tensors, copies, strict=True)):
        is_float16 = is_stored([tensor])
        if is_float16 and i >= len(ins):    # outputs that are one array, as gradients may be
            address = tensor.__array_interface__["data"][0]
            copy = of_outputs.setdefault((address, tensor.shape), copy)
        wide.append(copy if is_float16 else tensor)
        if is_float16 and is_read[i]:
            before.append(convert(tensor, copy))
        if is_float16 and i >= len(ins):
            after.append(convert(copy, tensor))
    run = make(wide[:len(ins)], wide[len(ins):], call)

    def convert_and_run() -> None:
        for widen in before:
            widen()
        run()
        with np.errstate(over="ignore"):  # overflow is infinite, as in MXNet
            for narrow in after:
                narrow()

    return convert_and_run


def through_float32(inner: Implementation) -> Implementation:
    """An implementation that gets float32 copies of float16 tensors, which are part of the
    workspace of kernels; what computes with NumPy allocates them."""
    convert = convert_prepared if inner.key == NUMBA else convert_eagerly

    def prepare(op: AnyOp, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        if not is_stored([*ins, *outs]):
            return inner.prepare(op, ins, outs, call)
        if inner.key != NUMBA:
            call = replace(call, scratch=[*call.scratch, *map(_copy, (*ins, *outs))])
        return in_float32(partial(inner.prepare, op), ins, outs, call, convert)

    def workspace(op: AnyOp, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        if is_stored([*ins, *outs]):
            return with_copies(partial(inner.workspace, op), ins, outs)
        return inner.workspace(op, ins, outs)

    def estimate(op: AnyOp, ins: Specs, outs: Specs) -> Estimate:
        return inner.estimate(op, _wide(ins), _wide(outs))

    return inner._replace(prepare=prepare, workspace=workspace,
                          estimate=unknown if inner.estimate is unknown else estimate)


def _copy(tensor: Any) -> Any:
    """Memory for a float32 copy of a tensor that is float16."""
    return np.empty(tensor.shape, FLOAT32) if is_stored([tensor]) else None
