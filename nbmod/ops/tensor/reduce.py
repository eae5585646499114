"""Reductions over axes.

`axis` is one axis, several, or none, which means all; negative axes count from the end and
`exclude=True` means all the others.  There are no 0-d arrays: a full reduction has shape (1,).

Eager calls reduce with NumPy, which sums pairwise along the innermost axes only; sums over outer
axes, and all of float16, are accumulated one type wider, so that long sums keep the accuracy of
MXNet's compensated (Kahan) summation.  In bound graphs, large reductions run as kernels
(`elementwise.reduction_programs`).

Ops that add no parameters to their base are dataclasses by inheritance (decorating each of them
would double the time it takes to import this module).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, ClassVar, Literal

import numpy as np

from ...base import MXNetError
from ..elementwise import reduction_programs as programs
from ..elementwise.float_op import accumulator as computed_in
from ..elementwise.formula_op import backward_program, kernels
from ..elementwise.program import Elements, Program, run, specialized
from ..elementwise.reduction_programs import fold, sum_elements
from ..op import Op, Run, Spec, Tensor, all_of
from ..param import Shape
from ..rules import data_type, to_type
from ..shape import ShapeMismatch, normalize_axes, size_of

__all__ = ["add_up", "divide", "keep", "reduced_axes", "reduced_shape"]

_NAIVE = 64
"""Terms a float32 sum may add sequentially: its error, 64 eps at worst, is that of pairwise
sums."""

_SHORT = 16
"""Up to this many terms along the innermost axis, NumPy spends more on starting each sum than on
it: adding whole slices is several times faster."""

_BLOCK = 1 << 16
"""Elements whose squares are summed at a time."""


def reduced_axes(axis: Shape | None, rank: int, exclude: bool = False) -> tuple[int, ...]:
    """The axes a reduction removes, in order."""
    if not axis:
        return tuple(range(rank))
    axes = normalize_axes(axis, rank)
    return tuple(i for i in range(rank) if (i in axes) != exclude)


def reduced_shape(shape: Shape, axes: Collection[int], keepdims: bool) -> Shape:
    """`shape` without `axes`, or with 1 instead of them; never empty."""
    if keepdims:
        return tuple(1 if i in axes else dim for i, dim in enumerate(shape))
    return tuple(dim for i, dim in enumerate(shape) if i not in axes) or (1,)


def keep(shape: Shape, axes: Collection[int], reduced: np.ndarray) -> np.ndarray:
    """`reduced` with 1 for every axis of `shape` that the reduction removed."""
    return reduced.reshape(reduced_shape(shape, axes, True))


def accumulator(x: np.ndarray, axes: Collection[int]) -> np.dtype:
    """The type in which to sum `x` over `axes`."""
    if x.dtype == np.float16:
        return np.dtype(np.float32)
    inner = x.ndim
    while inner - 1 in axes:
        inner -= 1
    one_by_one = prod(x.shape[axis] for axis in axes if axis < inner)
    return np.dtype(np.float64) if x.dtype == np.float32 and one_by_one > _NAIVE else x.dtype


def add_up(x: np.ndarray, axes: Collection[int], out: np.ndarray) -> None:
    """out = sum of `x` over `axes`; `out` has 1 there."""
    dtype = accumulator(x, axes)
    terms = prod(x.shape[axis] for axis in axes)
    innermost = x.shape[-1] == terms > 1 and x.ndim - 1 in axes
    if innermost and terms <= _SHORT and dtype == x.dtype and out.size > _NAIVE:
        np.add(x[..., :1], x[..., 1:2], out=out)
        for index in range(2, terms):
            np.add(out, x[..., index:index + 1], out=out)
    else:
        np.add.reduce(x, axis=tuple(axes), dtype=dtype, out=out, keepdims=True)


def divide(total: np.ndarray, count: int, out: np.ndarray) -> None:
    """out = total / count, towards zero for integers."""
    if out.dtype.kind == "f":
        np.divide(total, count, out=out, casting="same_kind")
    elif out.dtype.kind == "b":
        np.copyto(out, total)
    else:
        np.copyto(out, np.sign(total) * (np.abs(total) // count), casting="unsafe")


@dataclass(frozen=True)
class Reduction(Op):
    """Base of the reductions with `axis`, `keepdims` and `exclude`.

    The gradient is a formula over gy, x, y and the number n of terms.  Kernels compute reductions
    that are a formula of x, combined by `join` (see `Program`).
    """

    needs: ClassVar[tuple[str, ...]] = ("ograd",)
    term: ClassVar[str] = ""
    join: ClassVar[str] = "add"
    slope: ClassVar[str]

    shapes: ClassVar = "data (2, 3, 4), axis=1 -> (2, 4), with keepdims (2, 1, 4); no axis: (1,)"
    axis: Shape | None = None
    keepdims: bool = False
    exclude: bool = False

    def axes(self, rank: int) -> tuple[int, ...]:
        return reduced_axes(self.axis, rank, self.exclude)

    def infer_shape(self, ins, outs):
        return ins, outs if ins[0] is None else [
            reduced_shape(ins[0], self.axes(len(ins[0])), self.keepdims)]

    def forward(self, ins, outs, call):
        self.at_once(ins, outs)(self, ins, outs, call)

    def at_once(self, ins, outs):
        axes = self.axes(len(ins[0].shape))
        shape = reduced_shape(ins[0].shape, axes, True)
        if (self.term, self.join, shape) == ("x", "add", ins[0].shape):     # of one term, or zero
            return lambda op, ins, outs, call: np.add(ins[0], False, out=outs[0].reshape(shape))
        return lambda op, ins, outs, call: op.reduce(ins[0], axes, outs[0].reshape(shape))

    def prepare(self, ins, outs, call):
        return self.reduction_kernel(ins[0], outs[0]) or partial(
            self.at_once(ins, outs), self, ins, outs, call)

    def reduction_kernel(self, x: np.ndarray, out: np.ndarray) -> Run | None:
        """A kernel on these arrays; None where NumPy is as fast."""
        if not self.term:
            return None
        return fold(x, keep(x.shape, self.axes(x.ndim), out), self.term, self.join)

    def reduce(self, x: np.ndarray, axes: tuple[int, ...], out: np.ndarray) -> None:
        """Write the reduction of `x` to `out`, which has 1 for each of `axes`."""
        raise NotImplementedError

    def backward(self, ins, outs, call):
        run(*self.grad_program(ins, outs))

    def backward_at_once(self, ins, outs):
        shapes = self._needed(outs[0])[:len(ins)]
        specs = [Spec(shape, spec.dtype) for spec, shape in zip(ins, shapes, strict=True)]
        compute, scalars = specialized(self._slope, specs, outs), self._scalars(outs[0], shapes)
        return lambda op, ins, outs, call: compute(
            [array.reshape(shape) for array, shape in zip(ins, shapes, strict=True)], outs, scalars)

    def prepare_backward(self, ins, outs, call):
        return kernels().prepare(*self.grad_program(ins, outs))

    def grad_program(self, ins: Sequence[Any], outs: Sequence[Any]
                     ) -> tuple[Program, list, list, list]:
        """The program of the gradient, its inputs, its output, its scalars."""
        gx, = outs
        shapes = self._needed(gx)
        return (self._slope, [array.reshape(shape) for array, shape
                              in zip(ins, shapes, strict=False)], [gx], self._scalars(gx, shapes))

    def backward_elements(self, ins, outs):
        shapes = self._needed(outs[0])
        return Elements(self._slope, tuple(range(len(ins))), tuple(self._scalars(outs[0], shapes)),
                        (*shapes[:len(ins)], outs[0].shape))

    @property
    def _slope(self) -> Program:
        return backward_program(self.name, (self.slope,), ("x",))

    def _needed(self, x: Tensor) -> tuple[Shape, Shape, Shape]:
        """The shapes in which the program gets gy, x and y."""
        keepdims_shape = reduced_shape(x.shape, self.axes(len(x.shape)), True)
        return keepdims_shape, x.shape, keepdims_shape

    def _scalars(self, x: Tensor, shapes: Sequence[Shape]) -> list[float]:
        return [float(x.size // max(size_of(shapes[0]), 1))] * len(self._slope.scalars)


class Sum(Reduction, name="sum", aliases=("_sparse_sum", "sum_axis")):
    """Sum over axes, in the input's type (integers wrap)."""

    term: ClassVar = "x"
    slope: ClassVar = "gy"

    def elements(self, ins, outs):
        return sum_elements("x", *self._needed(ins[0])[1:])

    def reduce(self, x, axes, out):
        add_up(x, axes, out)


class Mean(Reduction, name="mean", aliases=("_sparse_mean",)):
    """Mean over axes; of integers, the wrapped sum divided towards zero."""

    term: ClassVar = "x"
    slope: ClassVar = "gy / n"

    def elements(self, ins, outs):
        return sum_elements("x / n", *self._needed(ins[0])[1:])

    def reduction_kernel(self, x, out):
        if out.dtype == np.float16:  # the sum may overflow before the division
            return fold(x, keep(x.shape, self.axes(x.ndim), out), "x / n")
        total = super().reduction_kernel(x, out)
        return total and all_of([total, partial(divide, out, x.size // out.size, out)])

    def reduce(self, x, axes, out):
        total = np.add.reduce(x, axis=axes, dtype=accumulator(x, axes), keepdims=True)
        divide(total, x.size // out.size, out)


class Prod(Reduction, name="prod"):
    """Product over axes.  The gradient is g y / x, so it is NaN where x is 0, as in MXNet."""

    needs: ClassVar = ("ograd", "data", "output")
    term: ClassVar = "x"
    join: ClassVar = "multiply"
    slope: ClassVar = "y / x * gy"

    def reduce(self, x, axes, out):
        dtype = np.float32 if x.dtype == np.float16 else x.dtype
        np.multiply.reduce(x, axis=axes, dtype=dtype, out=out, keepdims=True)


class NanSum(Reduction, name="nansum"):
    """Sum over axes in which NaN counts as 0 and gets no gradient."""

    needs: ClassVar = ("ograd", "data")
    term: ClassVar = "where(x == x, x, 0)"
    slope: ClassVar = "where(x == x, gy, 0)"

    def reduce(self, x, axes, out):
        np.add.reduce(x, axis=axes, dtype=accumulator(x, axes), out=out, keepdims=True,
                      where=~np.isnan(x))


class SquareSum(Reduction, name="_square_sum"):
    """Sum of squares over axes; MXNet has it for row_sparse matrices only."""

    needs: ClassVar = ("ograd", "data")
    term: ClassVar = "x * x"
    slope: ClassVar = "2 * x * gy"

    def reduce(self, x, axes, out):
        dtype = accumulator(x, axes)
        np.add.reduce(np.square(x, dtype=dtype), axis=axes, dtype=dtype, out=out, keepdims=True)


class NanProd(Prod, name="nanprod"):
    """Product over axes in which NaN counts as 1 and gets no gradient."""

    term: ClassVar = "where(x == x, x, 1)"
    slope: ClassVar = "where(x == x, y / x * gy, 0)"

    def reduce(self, x, axes, out):
        dtype = np.float32 if x.dtype == np.float16 else x.dtype
        np.multiply.reduce(x, axis=axes, dtype=dtype, out=out, keepdims=True, where=~np.isnan(x))


class Extreme(Reduction):
    """Base of max and min: every element that equals the result gets the whole gradient."""

    needs: ClassVar = ("ograd", "data", "output")
    term: ClassVar = "x"
    slope: ClassVar = "where(x == y, 1, 0) * gy"

    def reduce(self, x, axes, out):
        getattr(np, self.join).reduce(x, axis=axes, out=out, keepdims=True)


class Max(Extreme, name="max", aliases=("max_axis",)):
    """Maximum over axes; NaN wins."""

    join: ClassVar = "maximum"


class Min(Extreme, name="min", aliases=("min_axis",)):
    """Minimum over axes; NaN wins."""

    join: ClassVar = "minimum"


@dataclass(frozen=True)
class Norm(Op, name="norm", aliases=("_sparse_norm",)):
    """L1 norm (sum of magnitudes) or L2 norm (root of the sum of squares) over axes.

    Squares are summed in float64, so they neither overflow nor lose digits; of integers the true
    norm is cut to an integer (MXNet's own integer norm is off: 5 for (3, 4, 5)).
    The gradient of a zero L2 norm is NaN, as in MXNet.
    """

    ord: int = 2
    axis: Shape | None = None
    out_dtype: Literal["float16", "float32", "float64", "int32", "int64", "int8"] | None = None
    keepdims: bool = False

    def list_needs(self):
        return ("ograd", "data") if self.ord == 1 else ("ograd", "data", "output")

    def infer_shape(self, ins, outs):
        if self.ord not in (1, 2):
            raise ShapeMismatch(f"ord is {self.ord}, expected 1 or 2")
        if ins[0] is None:
            return ins, outs
        return ins, [reduced_shape(ins[0], reduced_axes(self.axis, len(ins[0])), self.keepdims)]

    def infer_type(self, ins, outs):
        if self.out_dtype is None:
            return data_type(ins, outs)
        return ins, [np.dtype(self.out_dtype)]

    def forward(self, ins, outs, call):
        x = ins[0]
        axes = reduced_axes(self.axis, x.ndim)
        out = keep(x.shape, axes, outs[0])
        if self.ord == 1:
            total = np.add.reduce(np.abs(x), axis=axes, dtype=accumulator(x, axes), keepdims=True)
            np.copyto(out, total, casting="unsafe")
        elif len(axes) == x.ndim:
            flat, squares = x.reshape(-1), 0.0
            for start in range(0, flat.size, _BLOCK):  # so that no large copy is made
                part = flat[start:start + _BLOCK].astype(np.float64)
                squares += float(np.dot(part, part))
            out.fill(to_type(squares ** 0.5, out.dtype))
        else:
            sums = np.add.reduce(np.square(x, dtype=np.float64), axis=axes, keepdims=True)
            np.sqrt(sums, out=out, casting="unsafe")

    def scratch(self, ins, outs):
        """Sums of squares; those of float16 are far from the limits of float32."""
        dtype = np.float32 if ins[0].dtype == np.float16 else np.float64
        return [Spec(outs[0].shape, np.dtype(dtype))] if self.ord == 2 else []

    def prepare(self, ins, outs, call):
        x, (total,) = ins[0], call.scratch or outs
        axes = reduced_axes(self.axis, x.ndim)
        out, total = (keep(x.shape, axes, array) for array in (outs[0], total))
        folded = out.dtype.kind == "f" and fold(x, total, "x * x" if self.ord == 2 else "abs(x)")
        if not folded:
            return super().prepare(ins, outs, call)
        root = [kernels().prepare(programs.ROOT, [total], [out])] if self.ord == 2 else []
        return all_of([folded, *root])

    def backward(self, ins, outs, call):
        run(*self.grad_program(ins, outs))

    def prepare_backward(self, ins, outs, call):
        return kernels().prepare(*self.grad_program(ins, outs))

    def grad_program(self, ins: Sequence[Any], outs: Sequence[Any]) -> tuple[Program, list, list]:
        """The program of the gradient, its inputs and its output."""
        gx = outs[0]
        axes = reduced_axes(self.axis, gx.ndim)
        g, *norm = (keep(gx.shape, axes, array) for array in (ins[0], *ins[2:]))
        program = programs.NORM2_GRADIENT if norm else programs.NORM1_GRADIENT
        return program, [g, ins[1], *norm], [gx]


@dataclass(frozen=True)
class Moments(Op, name="moments"):
    """Mean and population variance over `axes`, which must be given."""

    shapes: ClassVar = "data (2, 3), axes=(1,) -> mean (2,), var (2,); with keepdims (2, 1)"
    axes: Shape | None = None
    keepdims: bool = False

    outputs: ClassVar = ("output0", "output1")
    needs: ClassVar = ("ograds", "data")

    def infer_shape(self, ins, outs):
        if not self.axes:
            raise ShapeMismatch("axes is empty, expected the axes to reduce; name all of them for "
                                "the moments of the whole array")
        if ins[0] is None:
            return ins, outs
        shape = reduced_shape(ins[0], reduced_axes(self.axes, len(ins[0])), self.keepdims)
        return ins, [shape, shape]

    def forward(self, ins, outs, call):
        axes = reduced_axes(self.axes, ins[0].ndim)
        moments = _moments(ins[0], axes)
        for out, value in zip(outs, moments, strict=True):
            if out is not None:
                np.copyto(keep(ins[0].shape, axes, out), value, casting="unsafe")

    def _means(self, x: Spec) -> list[Spec]:
        axes = reduced_axes(self.axes, len(x.shape))
        return [Spec(reduced_shape(x.shape, axes, True), computed_in(x.dtype))]

    def scratch(self, ins, outs):
        return self._means(ins[0])

    def backward_scratch(self, ins, outs):
        return self._means(ins[2])

    def prepare(self, ins, outs, call):
        x, mean = ins[0], call.scratch[0]
        first = fold(x, mean, "x / n")
        if not first:
            return super().prepare(ins, outs, call)
        steps, count = [first], [x.size // mean.size]
        for out, program, read in ((outs[0], programs.COPY, [mean]),
                                   (outs[1], programs.VARIANCE, [x, mean])):
            if out is not None:
                steps.append(kernels().prepare(program, read, [out.reshape(mean.shape)],
                                               count[:len(program.scalars)]))
        return all_of(steps)

    def prepare_backward(self, ins, outs, call):
        *grads, x = ins
        mean = call.scratch[0]
        first = fold(x, mean, "x / n")
        if not first:
            return super().prepare_backward(ins, outs, call)
        g, v = (array.reshape(mean.shape) for array in grads)
        return all_of([first, kernels().prepare(programs.MOMENTS_BACK, [g, v, x, mean], outs,
                                                [x.size // mean.size])])

    def backward(self, ins, outs, call):
        (g_mean, g_var, x), gx = ins, outs[0]
        axes = reduced_axes(self.axes, x.ndim)
        mean, _ = _moments(x, axes)
        np.subtract(x, mean, out=gx, casting="unsafe")
        np.multiply(gx, 2 * keep(x.shape, axes, g_var), out=gx)
        np.add(gx, keep(x.shape, axes, g_mean), out=gx)
        divide(gx, x.size // g_mean.size, gx)


def _moments(x: np.ndarray, axes: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    dtype = accumulator(x, axes)
    count = prod(x.shape[axis] for axis in axes)
    mean = np.add.reduce(x, axis=axes, dtype=dtype, keepdims=True)
    divide(mean, count, mean)
    variance = np.add.reduce(np.square(x - mean), axis=axes, dtype=dtype, keepdims=True)
    divide(variance, count, variance)
    return mean, variance


@dataclass(frozen=True)
class ArgMax(Op, name="argmax"):
    """Index of the first maximum along `axis`, in the type of the data; None: of the flat array.

    NaN counts as the maximum.  No gradient.
    """

    shapes: ClassVar = "data (2, 3), axis=1 -> (2,), with keepdims (2, 1); no axis: (1,)"
    axis: int | None = None
    keepdims: bool = False

    search: ClassVar[Any] = staticmethod(np.argmax)

    def infer_shape(self, ins, outs):
        if ins[0] is None:
            return ins, outs
        axes = None if self.axis is None else (self.axis,)
        return ins, [reduced_shape(ins[0], reduced_axes(axes, len(ins[0])), self.keepdims)]

    def infer_type(self, ins, outs):
        if ins[0] == np.bool_:
            raise MXNetError("data has type bool, expected another: the index would be bool, too")
        return data_type(ins, outs)

    def forward(self, ins, outs, call):
        indices = self.search(ins[0], axis=self.axis)
        np.copyto(outs[0], np.reshape(indices, outs[0].shape), casting="unsafe")


class ArgMin(ArgMax, name="argmin"):
    """Index of the first minimum along `axis`, in the type of the data; None: of the flat array.

    NaN counts as the minimum.  No gradient.
    """

    search: ClassVar[Any] = staticmethod(np.argmin)


@dataclass(frozen=True)
class ArgMaxChannel(Op, name="argmax_channel"):
    """argmax along axis 1.  No gradient."""

    shapes: ClassVar = "data (2, 3, 4) -> (2, 4)"

    def infer_shape(self, ins, outs):
        return ArgMax(1).infer_shape(ins, outs)

    def forward(self, ins, outs, call):
        ArgMax(1).forward(ins, outs, call)
