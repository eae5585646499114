"""float16 is a storage type: ops over floating-point tensors compute it in float32.

No CPU kernel computes in float16.  A `FloatOp` asks the planner for a float32 workspace for
each of its float16 tensors, converts inputs into them and outputs out of them.  float32 and float64
tensors are used directly, at no cost.

So these methods of subclasses never get a float16 array:

    compute, compute_backward      compute now, with NumPy: the eager path
    compiled, compiled_backward    return a function without arguments that computes (at bind)
    work, work_backward            workspace of the subclass, first in `call.scratch`

Either `compute` or `compiled` is enough: each is the default of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...base import MXNetError
from ..op import Call, Op, PartialType, Run, Spec, Types
from .cast import CONVERT
from .formula_op import kernels

__all__ = ["FloatOp", "accumulator", "as_float32", "require_float"]

FLOAT16, FLOAT32 = np.dtype(np.float16), np.dtype(np.float32)
Make = Callable[[Sequence[Any], Sequence[Any], Call], Run]


def accumulator(dtype: np.dtype) -> np.dtype:
    """The dtype in which tensors of `dtype` are computed."""
    return FLOAT32 if dtype == FLOAT16 else dtype


def as_float32(value: float) -> float:
    """`value` as the float32 in which MXNet keeps most parameters, whatever the tensors are."""
    return float(np.float32(value))


def require_float(op: Op, ins: Sequence[PartialType]) -> None:
    """MXNetError if the first input of `op` is known not to be floating point."""
    if ins[0] is not None and ins[0].kind != "f":
        raise MXNetError(f"{op.list_inputs()[0]} has type {ins[0]}, expected float32, float64 or "
                         "float16; insert a Cast")


class FloatOp(Op):
    """Base of ops over floating point tensors; see the module docstring."""

    def infer_type(self, ins: Types, outs: Types) -> tuple[Types, Types]:
        require_float(self, ins)
        return super().infer_type(ins, outs)

    def work(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        return []

    def work_backward(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        return []

    def compute(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        self.compiled(ins, outs, call)()

    def compute_backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        self.compiled_backward(ins, outs, call)()

    def compiled(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        return partial(self.compute, ins, outs, call)

    def compiled_backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        return partial(self.compute_backward, ins, outs, call)

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        return _with_copies(self.work, ins, outs)

    def backward_scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        return _with_copies(self.work_backward, ins, outs)

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        _in_float32(lambda *arrays: partial(self.compute, *arrays), ins, outs, call)()

    def backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        _in_float32(lambda *arrays: partial(self.compute_backward, *arrays), ins, outs, call)()

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        return _in_float32(self.compiled, ins, outs, call, _convert_compiled)

    def prepare_backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        return _in_float32(self.compiled_backward, ins, outs, call, _convert_compiled)


def _with_copies(work: Callable[[list[Spec], list[Spec]], list[Spec]], ins: list[Spec],
                 outs: list[Spec]) -> list[Spec]:
    """The workspace `work`, then one array for every tensor: its float32 copy, or an empty one.

    Every tensor has one, so that positions do not depend on which outputs are wanted in the end.
    """
    if all(spec.dtype != FLOAT16 for spec in (*ins, *outs)):
        return work(ins, outs)
    wide_ins, wide_outs = ([Spec(spec.shape, accumulator(spec.dtype)) for spec in specs]
                           for specs in (ins, outs))
    empty = Spec((0,), FLOAT32)
    return work(wide_ins, wide_outs) + [
        wide if spec.dtype == FLOAT16 else empty
        for spec, wide in zip((*ins, *outs), (*wide_ins, *wide_outs), strict=True)]


def _convert_eagerly(source: Any, target: Any) -> Run:
    """A function that converts one array to another, with NumPy."""
    return partial(np.copyto, target, source, casting="same_kind")


def _convert_compiled(source: Any, target: Any) -> Run:
    """The same at bind: a compiled kernel on all cores, for contiguous arrays."""
    if source.flags.c_contiguous and target.flags.c_contiguous:
        return kernels().prepare(CONVERT, [source], [target])
    return _convert_eagerly(source, target)


def _in_float32(make: Make, ins: Sequence[Any], outs: Sequence[Any], call: Call,
                convert: Callable[[Any, Any], Run] = _convert_eagerly) -> Run:
    """`make(ins, outs, call)` on float32 copies of float16 arrays, converted by `convert`."""
    tensors = [*ins, *outs]
    is_float16 = [tensor is not None and tensor.dtype == FLOAT16 for tensor in tensors]
    if not any(is_float16):
        return make(ins, outs, call)
    copies = call.scratch[-len(tensors):]
    wide = [copy if narrow else tensor for tensor, narrow, copy
            in zip(tensors, is_float16, copies, strict=True)]
    # Inputs are converted before, and outputs that are added to; all outputs after.
    is_read = [True] * len(ins) + [*call.add, *[False] * len(outs)][:len(outs)]
    before, after = [], []
    for i, (tensor, copy) in enumerate(zip(tensors, copies, strict=True)):
        if is_float16[i] and is_read[i]:
            before.append(convert(tensor, copy))
        if is_float16[i] and i >= len(ins):
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
