"""Ops without inputs: constants, ranges, identity matrices.

`ctx` is read by eager functions only; in a bound graph the placement pass assigns devices.  In
`shape` 0 is an unknown dimension and () an unknown rank: both are inferred from the consumers of
the tensor, so that initial states of recurrent cells get the batch size.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, isfinite
from typing import ClassVar

import numpy as np

from ...base import DTYPE_FLAGS, MXNetError
from ..op import Op
from ..param import DType, Shape
from ..rules import common_type, to_type
from ..shape import ShapeMismatch, normalize_axis, unify

__all__ = ["dtype_named"]


def dtype_named(name: str) -> np.dtype:
    """The element type of a name; bfloat16 is not supported."""
    if name == "bfloat16":
        raise MXNetError("dtype is 'bfloat16', which nbmod does not support; use 'float32'")
    return np.dtype(name)


class Creation(Op):
    """Base of the ops without inputs."""

    inputs: ClassVar = ()
    dtype: str

    def infer_type(self, ins, outs):
        return ins, [dtype_named(self.dtype)]


class Fill(Creation):
    """Base of the ops that fill a tensor with one value."""

    shapes: ClassVar = "-> `shape`"
    shape: Shape | None

    def fill_value(self) -> float:
        return 0.0

    def infer_shape(self, ins, outs):
        if any(dim < -1 for dim in self.shape or ()):
            raise ShapeMismatch(f"shape is {self.shape}, expected no negative sizes (but -1, which "
                                "is unknown)")
        shape = tuple([max(dim, 0) for dim in self.shape or ()])
        return ins, [unify(shape or None, outs[0], "shape and that of the output")]

    def forward(self, ins, outs, call):
        outs[0].fill(to_type(self.fill_value(), outs[0].dtype))


@dataclass(frozen=True)
class Zeros(Fill, name="_zeros"):
    """Zeros of `shape`."""

    shape: Shape | None = ()
    ctx: str = ""
    dtype: DType = "float32"


@dataclass(frozen=True)
class ZerosWithoutDtype(Fill, name="_zeros_without_dtype"):
    """Zeros whose type follows from use where `dtype`, a type's number, is -1."""

    shape: Shape | None = None
    ctx: str = ""
    dtype: int = -1  # type: ignore[assignment]

    def infer_type(self, ins, outs):
        if self.dtype not in (-1, *DTYPE_FLAGS):
            raise MXNetError(f"dtype is {self.dtype}, expected -1 or the number of a type, one of "
                             f"{[*DTYPE_FLAGS]}")
        return ins, [common_type([DTYPE_FLAGS.get(self.dtype), *outs])]


@dataclass(frozen=True)
class Ones(Fill, name="_ones"):
    """Ones of `shape`."""

    shape: Shape | None = ()
    ctx: str = ""
    dtype: DType = "float32"

    def fill_value(self):
        return 1.0


@dataclass(frozen=True, kw_only=True)
class Full(Fill, name="_full"):
    """`shape` filled with `value`."""

    shape: Shape | None = ()
    ctx: str = ""
    dtype: DType = "float32"
    value: float

    numbers: ClassVar = ("value",)

    def fill_value(self):
        return self.value


def _progression(start: float, step: float, repeat: int, out: np.ndarray) -> None:
    """out[i] = start + (i // repeat) step, in the type of `out` (float16: in float32)."""
    wide = np.dtype(np.float32) if out.dtype == np.float16 else out.dtype
    index = (np.arange(out.size, dtype=np.int64) // repeat).astype(wide)
    index *= to_type(step, wide)
    index += to_type(start, wide)
    np.copyto(out.reshape(-1), index, casting="same_kind")


@dataclass(frozen=True)
class Arange(Creation, name="_arange"):
    """start, start + step, ... below `stop`, each `repeat` times, as (n,).

    Without `stop` it counts from 0 to `start`; with `infer_range` its consumers
    determine its length.  Integer types truncate `start` and `step` first.
    """

    start: float
    stop: float | None = None
    step: float = 1.0
    repeat: int = 1
    infer_range: bool = False
    ctx: str = ""
    dtype: DType = "float32"

    def _range(self) -> tuple[float, float]:
        return (0.0, self.start) if self.stop is None else (self.start, self.stop)

    def infer_shape(self, ins, outs):
        if self.step == 0 or self.repeat < 1:
            raise ShapeMismatch(f"step is {self.step} and repeat is {self.repeat}, expected a step "
                                "other than 0 and at least one repetition")
        if self.stop is None and self.infer_range:
            return ins, [unify((0,), outs[0])]
        start, stop = self._range()
        steps = (stop - start) / self.step
        if not (isfinite(start) and isfinite(stop) and isfinite(steps) and steps > 0):
            raise ShapeMismatch(f"no values from {start} to {stop} in steps of {self.step}")
        return ins, [(ceil(steps) * self.repeat,)]

    def forward(self, ins, outs, call):
        open_end = self.stop is None and self.infer_range
        _progression(self.start if open_end else self._range()[0], self.step, self.repeat, outs[0])


@dataclass(frozen=True)
class Linspace(Creation, name="_linspace"):
    """`num` values evenly spaced from `start` to `stop`, with or without the latter, as (num,)."""

    start: float
    stop: float
    num: int
    endpoint: bool = True
    ctx: str = ""
    dtype: DType = "float32"

    def infer_shape(self, ins, outs):
        if self.num < 1:
            raise ShapeMismatch(f"num is {self.num}, expected at least 1")
        return ins, [(self.num,)]

    def forward(self, ins, outs, call):
        spaced = np.linspace(self.start, self.stop, self.num, self.endpoint)
        np.copyto(outs[0], spaced, casting="unsafe")


@dataclass(frozen=True)
class Eye(Creation, name="_eye"):
    """(N, M) with ones on diagonal `k`; M 0 is N."""

    N: int
    M: int = 0
    k: int = 0
    ctx: str = ""
    dtype: DType = "float32"

    def infer_shape(self, ins, outs):
        if self.N < 1 or self.M < 0:
            raise ShapeMismatch(f"N is {self.N} and M is {self.M}, expected positive sizes")
        return ins, [(self.N, self.M or self.N)]

    def forward(self, ins, outs, call):
        rows, columns = outs[0].shape
        outs[0].fill(0)
        first = min(max(0, -self.k), rows)
        on = np.arange(first, max(first, min(rows, columns - self.k)))
        outs[0][on, on + self.k] = 1


@dataclass(frozen=True)
class ArangeLike(Op, name="_contrib_arange_like"):
    """start, start + step, ... in the shape of `data`, or (n,) as long as its `axis`.

    No gradient.
    """

    start: float = 0.0
    step: float = 1.0
    repeat: int = 1
    ctx: str = ""
    axis: int | None = None

    reads_shapes: ClassVar = True

    def infer_shape(self, ins, outs):
        if ins[0] is None:
            return ins, outs
        if self.axis is None:
            return ins, [ins[0]]
        return ins, [(ins[0][normalize_axis(self.axis, len(ins[0]))],)]

    def forward(self, ins, outs, call):
        _progression(self.start, self.step, self.repeat, outs[0])
