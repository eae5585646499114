"""float16 as a storage type: half precision tensors are computed in float32.

No CPU kernel knows float16.  An op that is a `FloatOp` asks the planner for float32 scratch beside
its float16 tensors; its work is done on those, with a conversion on the way in and one on the way
out.  float32 and float64 tensors are handed through, so such an op costs nothing there.

What a subclass writes never sees a float16 array:

    compute, compute_backward      do it now, with NumPy: the eager path
    compiled, compiled_backward    a function without arguments that does it, made at bind
    work, work_backward            scratch of its own, which comes first in `call.scratch`

Either of `compute` and `compiled` is enough: each has the other for its default.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...base import MXNetError
from ..op import Call, Op, PartialType, Spec
from .cast import CONVERT
from .formula_op import kernels

__all__ = ["FloatOp", "accumulator", "require_float", "single"]

HALF, SINGLE = np.dtype(np.float16), np.dtype(np.float32)
Make = Callable[[Sequence[Any], Sequence[Any], Call], Callable[[], None]]


def accumulator(dtype: np.dtype) -> np.dtype:
    """The type in which tensors of `dtype` are computed."""
    return SINGLE if dtype == HALF else dtype


def single(value: float) -> float:
    """`value` as the float32 in which MXNet keeps most parameters, whatever the tensors are."""
    return float(np.float32(value))


def require_float(op: Op, ins: Sequence[PartialType]) -> None:
    """MXNetError if the first input of `op` is known not to be floating point."""
    if ins[0] is not None and ins[0].kind != "f":
        raise MXNetError(f"{op.list_inputs()[0]} has type {ins[0]}, expected float32, float64 or "
                         "float16; insert a Cast")


class FloatOp(Op):
    """Base of ops over floating point tensors; see the module docstring."""

    def infer_type(self, ins: list[PartialType], outs: list[PartialType]
                   ) -> tuple[list[PartialType], list[PartialType]]:
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

    def compiled(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Callable[[], None]:
        return partial(self.compute, ins, outs, call)

    def compiled_backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call
                          ) -> Callable[[], None]:
        return partial(self.compute_backward, ins, outs, call)

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        return _widened(self.work, ins, outs)

    def backward_scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        return _widened(self.work_backward, ins, outs)

    def forward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        _through_single(lambda *arrays: partial(self.compute, *arrays), ins, outs, call)()

    def backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> None:
        _through_single(lambda *arrays: partial(self.compute_backward, *arrays), ins, outs, call)()

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Callable[[], None]:
        return _through_single(self.compiled, ins, outs, call, _copying)

    def prepare_backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call
                         ) -> Callable[[], None]:
        return _through_single(self.compiled_backward, ins, outs, call, _copying)


def _widened(work: Callable, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    """The op's own scratch, then one array for every tensor (empty unless that is float16).

    One for every tensor, so that positions do not depend on which outputs are wanted in the end.
    """
    if all(spec.dtype != HALF for spec in (*ins, *outs)):
        return work(ins, outs)
    wide_ins, wide_outs = ([Spec(spec.shape, accumulator(spec.dtype)) for spec in specs]
                           for specs in (ins, outs))
    empty = Spec((0,), SINGLE)
    return work(wide_ins, wide_outs) + [
        wide if spec.dtype == HALF else empty
        for spec, wide in zip((*ins, *outs), (*wide_ins, *wide_outs), strict=True)]


def _copying_now(source: Any, target: Any) -> Callable[[], None]:
    """A function that copies one array to another, of another type."""
    return partial(np.copyto, target, source, casting="same_kind")


def _copying(source: Any, target: Any) -> Callable[[], None]:
    """The same at bind: on all cores."""
    if source.flags.c_contiguous and target.flags.c_contiguous:
        return kernels().prepare(CONVERT, [source], [target])
    return _copying_now(source, target)


def _through_single(make: Make, ins: Sequence[Any], outs: Sequence[Any], call: Call,
                    copying: Callable[[Any, Any], Callable[[], None]] = _copying_now
                    ) -> Callable[[], None]:
    """`make(ins, outs, call)`, with float32 stand-ins for float16 arrays, filled and read by
    `copying`."""
    tensors = [*ins, *outs]
    half = [tensor is not None and tensor.dtype == HALF for tensor in tensors]
    if not any(half):
        return make(ins, outs, call)
    wide = [single if narrow else tensor for tensor, narrow, single
            in zip(tensors, half, call.scratch[-len(tensors):], strict=True)]
    pairs = [pair for pair, narrow in zip(zip(tensors, wide, strict=True), half, strict=True)
             if narrow]
    count = sum(half[:len(ins)])
    reads = [True] * len(ins) + [*call.add, *[False] * len(outs)][:len(outs)]
    before = [copying(*pair) for pair, narrow, wanted in zip(
        zip(tensors, wide, strict=True), half, reads, strict=True) if narrow and wanted]
    after = [copying(single, tensor) for tensor, single in pairs[count:]]
    run = make(wide[:len(ins)], wide[len(ins):], call)

    def converting() -> None:
        for widen in before:
            widen()
        run()
        with np.errstate(over="ignore"):  # what does not fit is infinite, as in MXNet
            for narrow in after:
                narrow()

    return converting
