"""softmax and its kin: numbers along one axis turned into probabilities.

The axis splits a tensor in three, (R, K, L): K numbers compete in each of R x L places.  With
L = 1 they are neighbours in memory and one task takes a row; otherwise a task takes a strip of L,
so that neighbours in memory are still handled together.  `Places` is that view, with the kernels
that go with it; the loss layers use it too.

The largest number is subtracted first, so nothing overflows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from ..base import MXNetError
from .half import FloatOp, accumulator, require_float
from .jit import inlined, kernel, prange
from .kernel_math import exp32
from .kernels import COMPILED_FROM
from .op import Spec
from .shape import ShapeMismatch, normalize_axis, size_of, unify
from .spelling import apply

__all__ = ["PARALLEL_FROM", "ROWS_FROM", "Places", "Softmax", "LogSoftmax", "Softmin",
           "SoftmaxActivation", "SoftmaxCrossEntropy"]

LEAST = 1e-8
"""MXNet never takes the logarithm of a smaller probability in softmax_cross_entropy."""
NO_LENGTH = np.empty(0, np.int32)

ROWS_FROM = 64
"""Numbers from which rows get a kernel: it is the same for all shapes, and NumPy takes 15 us."""
PARALLEL_FROM = 8192
"""Numbers from which rows are handled by all cores: waking them takes 10 us, and so do these."""


@inlined
def exponential(x, single):
    """e**x; `single`, a constant where this is compiled, says that x is float32."""
    return exp32(x) if single else np.exp(x)


@inlined
def _largest(x, scale, lowest):
    """The largest of scale x and `lowest`: eight candidates, as one at a time awaits the last."""
    a = b = c = d = e = f = g = h = lowest
    blocks = x.size // 8
    for block in range(blocks):
        k = block * 8
        a, b = max(a, x[k] * scale), max(b, x[k + 1] * scale)
        c, d = max(c, x[k + 2] * scale), max(d, x[k + 3] * scale)
        e, f = max(e, x[k + 4] * scale), max(f, x[k + 5] * scale)
        g, h = max(g, x[k + 6] * scale), max(h, x[k + 7] * scale)
    for k in range(blocks * 8, x.size):
        a = max(a, x[k] * scale)
    return max(max(max(a, b), max(c, d)), max(max(e, f), max(g, h)))


@inlined(fastmath=True)
def _row(source, target, scale, log):
    """target = softmax(scale source), or its logarithm; they may be one array."""
    kind = target.dtype.type
    top, total = _largest(source, scale, kind(-np.inf)), kind(0)
    if log:
        for k in range(source.size):
            total += exponential(source[k] * scale - top, target.itemsize == 4)
        offset = top + np.log(total)
        for k in range(source.size):
            target[k] = source[k] * scale - offset
    else:
        for k in range(source.size):
            target[k] = exponential(source[k] * scale - top, target.itemsize == 4)
            total += target[k]
        share = kind(1) / total
        for k in range(source.size):
            target[k] *= share


@kernel(parallel=True, fastmath=True)
def _rows(x, y, scale, log, length):
    """y = softmax(scale x), or its logarithm, along K of (R, K); length (R,) or empty."""
    rows, size = x.shape
    for r in prange(rows):
        stop = size if length.size == 0 else min(max(length[r], 0), size)
        _row(x[r, :stop], y[r, :stop], scale, log)
        for k in range(stop, size):
            y[r, k] = y.dtype.type(0)


@inlined(fastmath=True)
def _below_largest(x, y, scale):
    """y = scale x, less the largest of every row."""
    for r in range(x.shape[0]):
        top = y.dtype.type(-np.inf)
        for k in range(x.shape[1]):
            top = max(top, x[r, k] * scale)
        for k in range(x.shape[1]):
            y[r, k] = x[r, k] * scale - top


@kernel(fastmath=True)
def _few_rows(x, y, scale, log):
    """The same on the calling thread, pass by pass: rows may be shorter than vectors are."""
    rows, size = x.shape
    kind = y.dtype.type
    _below_largest(x, y, scale)
    if log:
        for r in range(rows):
            total = kind(0)
            for k in range(size):
                total += exponential(y[r, k], y.itemsize == 4)
            total = np.log(total)
            for k in range(size):
                y[r, k] -= total
        return
    flat = y.reshape(-1)
    for i in range(flat.size):
        flat[i] = exponential(flat[i], y.itemsize == 4)
    for r in range(rows):
        total = kind(0)
        for k in range(size):
            total += y[r, k]
        share = kind(1) / total
        for k in range(size):
            y[r, k] *= share


@inlined
def strip_of(rows, lanes):
    """How many lanes a task takes: enough tasks for many cores, rows long enough for the memory.

    Kernels count them in uint64, because a signed index might be negative, and checking that
    keeps numba from using vectors.
    """
    return min(max(rows * lanes // 32, 64), 1024)


@kernel(parallel=True, fastmath=True)
def _strips(x, y, scale, log, top, total):
    """The same along K of (R, K, L); top and total (R, L)."""
    rows, size, lanes = x.shape
    kind = y.dtype.type
    strip = strip_of(rows, lanes)
    strips = (lanes + strip - 1) // strip
    for task in prange(rows * strips):
        r, first = task // strips, task % strips * strip
        start, stop = np.uint64(first), np.uint64(min(first + strip, lanes))
        for j in range(start, stop):
            top[r, j] = -np.inf
            total[r, j] = 0
        for k in range(size):
            for j in range(start, stop):
                top[r, j] = max(top[r, j], x[r, k, j] * scale)
        for k in range(size):
            for j in range(start, stop):
                below = x[r, k, j] * scale - top[r, j]
                share = exponential(below, y.itemsize == 4)
                y[r, k, j] = below if log else share
                total[r, j] += share
        for j in range(start, stop):
            total[r, j] = np.log(total[r, j]) if log else kind(1) / total[r, j]
        for k in range(size):
            for j in range(start, stop):
                y[r, k, j] = y[r, k, j] - total[r, j] if log else y[r, k, j] * total[r, j]


@kernel(parallel=True, fastmath=True)
def _rows_backward(g, y, gx, scale, log):
    """gx = scale y (g - sum of g y), with log scale (g - exp(y) sum of g); all (R, K)."""
    rows, size = y.shape
    for r in prange(rows):
        total = y.dtype.type(0)
        for k in range(size):
            total += g[r, k] if log else g[r, k] * y[r, k]
        for k in range(size):
            gx[r, k] = scale * (g[r, k] - exponential(y[r, k], y.itemsize == 4) * total
                                if log else y[r, k] * (g[r, k] - total))


@kernel(fastmath=True)
def _few_rows_backward(g, y, gx, scale, log):
    """The same on the calling thread."""
    rows, size = y.shape
    for r in range(rows):
        total = y.dtype.type(0)
        for k in range(size):
            total += g[r, k] if log else g[r, k] * y[r, k]
        for k in range(size):
            gx[r, k] = scale * (g[r, k] - exponential(y[r, k], y.itemsize == 4) * total
                                if log else y[r, k] * (g[r, k] - total))


@kernel(parallel=True, fastmath=True)
def _strips_backward(g, y, gx, scale, log, total):
    """The same for (R, K, L); total is (R, L)."""
    rows, size, lanes = y.shape
    strip = strip_of(rows, lanes)
    strips = (lanes + strip - 1) // strip
    for task in prange(rows * strips):
        r, first = task // strips, task % strips * strip
        start, stop = np.uint64(first), np.uint64(min(first + strip, lanes))
        for j in range(start, stop):
            total[r, j] = 0
        for k in range(size):
            for j in range(start, stop):
                total[r, j] += g[r, k, j] if log else g[r, k, j] * y[r, k, j]
        for k in range(size):
            for j in range(start, stop):
                own = exponential(y[r, k, j], y.itemsize == 4) if log else y[r, k, j]
                gx[r, k, j] = scale * (g[r, k, j] - own * total[r, j] if log
                                       else own * (g[r, k, j] - total[r, j]))


@dataclass(frozen=True)
class Places:
    """The view (rows, size, lanes) of a tensor along one axis, and softmax over `size`."""

    rows: int
    size: int
    lanes: int

    @classmethod
    def along(cls, shape: tuple[int, ...], axis: int) -> Places:
        """Along `axis` of a tensor of `shape`."""
        axis = axis % len(shape)
        return cls(size_of(shape[:axis]), shape[axis], size_of(shape[axis + 1:]))

    def __call__(self, tensor: Any) -> Any:
        """`tensor` in this view: (R, K), or (R, K, L) where L > 1."""
        flat = self.lanes == 1
        return tensor.reshape((self.rows, self.size) if flat else
                              (self.rows, self.size, self.lanes))

    def work(self, dtype: np.dtype) -> list[Spec]:
        """Scratch of both directions."""
        return [] if self.lanes == 1 else [Spec((self.rows, self.lanes), accumulator(dtype))] * 2

    def softmax(self, x: Any, y: Any, spare: Any, scale: float = 1.0, log: bool = False,
                length: Any = NO_LENGTH) -> Callable[[], None]:
        """A function that writes softmax(scale x), or its logarithm, to y; `spare` from `work`."""
        least = ROWS_FROM if self.lanes == 1 else COMPILED_FROM
        if y.size < least or self.lanes > 1 and length is not NO_LENGTH:
            return lambda: self.softmax_now(x, y, scale, log, length)
        source, target, factor = self(x), self(y), y.dtype.type(scale)
        if self.lanes == 1 and y.size < PARALLEL_FROM and length is NO_LENGTH:
            return partial(_few_rows, source, target, factor, log)
        if self.lanes == 1:
            return partial(_rows, source, target, factor, log, length.reshape(-1))
        top, total = spare
        return partial(_strips, source, target, factor, log, top, total)

    def gradient(self, g: Any, y: Any, gx: Any, spare: Any, scale: float = 1.0, log: bool = False
                 ) -> Callable[[], None]:
        """A function that writes the gradient of `softmax` to gx, from its own and from y."""
        if y.size < (ROWS_FROM if self.lanes == 1 else COMPILED_FROM):
            return lambda: self.gradient_now(g, y, gx, scale, log)
        g, y, gx, factor = self(g), self(y), self(gx), y.dtype.type(scale)
        if self.lanes == 1:
            rows = _few_rows_backward if y.size < PARALLEL_FROM else _rows_backward
            return partial(rows, g, y, gx, factor, log)
        return partial(_strips_backward, g, y, gx, factor, log, spare[0])

    def softmax_now(self, x: Any, y: Any, scale: float = 1.0, log: bool = False,
                    length: Any = NO_LENGTH) -> None:
        """`softmax` by NumPy."""
        shape = (self.rows, self.size, self.lanes)
        x, y = x.reshape(shape), y.reshape(shape)
        with np.errstate(all="ignore"):
            z = x.astype(y.dtype) * y.dtype.type(scale)
            outside = None
            if length is not NO_LENGTH:
                stop = length.reshape(self.rows, 1, self.lanes)
                outside = np.arange(self.size)[:, None] >= stop
                z[outside] = -np.inf
            z -= z.max(axis=1, keepdims=True, initial=-np.inf)
            np.exp(z, out=y)
            total = y.sum(axis=1, keepdims=True)
            if log:
                np.subtract(z, np.log(total), out=y)
            else:
                y /= total
            if outside is not None:
                y[outside] = 0

    def gradient_now(self, g: Any, y: Any, gx: Any, scale: float = 1.0, log: bool = False) -> None:
        """`gradient` by NumPy."""
        shape = (self.rows, self.size, self.lanes)
        g, y, gx = g.reshape(shape), y.reshape(shape), gx.reshape(shape)
        with np.errstate(all="ignore"):
            if log:
                grad = g - np.exp(y) * g.sum(axis=1, keepdims=True)
            else:
                grad = y * (g - (g * y).sum(axis=1, keepdims=True))
            np.multiply(grad, gx.dtype.type(scale), out=gx)


class _Softmax(FloatOp):
    """What softmax, log_softmax and softmin share; they differ in two class attributes."""

    shapes: ClassVar = "data and output have one shape"
    sign: ClassVar[int] = 1
    log: ClassVar[bool] = False
    needs: ClassVar = ("ograd", "output")

    axis: int
    temperature: float | None
    dtype: str | None
    use_length: bool

    @property
    def inplace(self):  # type: ignore[override]
        return () if self.dtype else (("data", "output"),)

    @property
    def inplace_backward(self):  # type: ignore[override]
        return () if self.dtype else (("ograd", "data"),)

    @property
    def scale(self) -> float:
        """What data is multiplied by before anything else."""
        if self.temperature is None:
            return float(self.sign)
        return self.sign / self.temperature if self.temperature else np.inf

    def infer_shape(self, ins, outs):
        data = unify(ins[0], outs[0], "data and output")
        if data is None:
            return ins, [data]
        axis = normalize_axis(self.axis, len(data))
        return [data, (*data[:axis], *data[axis + 1:])][:len(ins)], [data]

    def infer_type(self, ins, outs):
        require_float(self, ins)
        data = ins[0] or (None if self.dtype else outs[0])
        if len(ins) > 1 and ins[1] is not None and ins[1].kind not in "iu":
            raise MXNetError(f"length has type {ins[1]}, expected int32 or int64")
        return [data, *ins[1:]], [np.dtype(self.dtype) if self.dtype else data]

    def spelled_backward(self, node):
        grad, y = node.inputs
        weighted = grad if self.log else apply("broadcast_mul", grad, y)
        total = apply("sum", weighted, axis=self.axis, keepdims=True)
        share = apply("exp", y) if self.log else y
        along = apply("broadcast_sub", weighted, apply("broadcast_mul", share, total))
        return [apply("_mul_scalar", along, scalar=self.scale), None][:len(self.list_inputs())]

    def _places(self, tensor: Any) -> Places:
        return Places.along(tensor.shape, self.axis)

    def work(self, ins, outs):
        return self._places(outs[0]).work(outs[0].dtype)

    def work_backward(self, ins, outs):
        return self._places(ins[1]).work(ins[1].dtype)

    def compiled(self, ins, outs, call):
        places, length = self._places(outs[0]), ins[1] if self.use_length else NO_LENGTH
        return places.softmax(ins[0], outs[0], call.scratch[:2], self.scale, self.log, length)

    def compute(self, ins, outs, call):
        length = ins[1] if self.use_length else NO_LENGTH
        self._places(outs[0]).softmax_now(ins[0], outs[0], self.scale, self.log, length)

    def compiled_backward(self, ins, outs, call):
        g, y = ins
        run = _nothing if outs[0] is None else self._places(y).gradient(
            g, y, outs[0], call.scratch[:2], self.scale, self.log)
        return lambda: _also_clear(run, outs[1:])

    def compute_backward(self, ins, outs, call):
        g, y = ins
        if outs[0] is not None:
            self._places(y).gradient_now(g, y, outs[0], self.scale, self.log)
        _also_clear(_nothing, outs[1:])


def _nothing() -> None:
    pass


def _also_clear(run: Callable[[], None], others: Any) -> None:
    run()
    for gradient in others:
        if gradient is not None:
            gradient.fill(0)


@dataclass(frozen=True)
class Softmax(_Softmax, name="softmax"):
    """y = exp(x / temperature) / (sum of the same along `axis`).

    With `use_length` an integer tensor `length`, shaped like data without `axis`, says how many
    leading elements take part; y is 0 for the others.  `dtype` is the type of y.
    """

    axis: int = -1
    temperature: float | None = None
    dtype: Literal["float16", "float32", "float64"] | None = None
    use_length: bool = False
    inputs: ClassVar = ("data", "length")

    def list_inputs(self):
        return self.inputs if self.use_length else self.inputs[:1]


@dataclass(frozen=True)
class LogSoftmax(_Softmax, name="log_softmax"):
    """y = log(softmax(x / temperature)) along `axis`; `use_length` has no effect, as in MXNet."""

    axis: int = -1
    temperature: float | None = None
    dtype: Literal["float16", "float32", "float64"] | None = None
    use_length: bool = False
    log: ClassVar = True

    def __post_init__(self):
        object.__setattr__(self, "use_length", False)


@dataclass(frozen=True)
class Softmin(_Softmax, name="softmin"):
    """y = softmax(-x / temperature) along `axis`; `use_length` has no effect, as in MXNet."""

    axis: int = -1
    temperature: float | None = None
    dtype: Literal["float16", "float32", "float64"] | None = None
    use_length: bool = False
    sign: ClassVar = -1

    def __post_init__(self):
        object.__setattr__(self, "use_length", False)


@dataclass(frozen=True)
class SoftmaxActivation(FloatOp, name="SoftmaxActivation"):
    """softmax over axis 1 of data (N, C, ...) in mode "channel", over the last axis in "instance".

    As in MXNet 1.9.1 on the CPU, the backward pass takes it to be over axis 1 in either mode; for
    "instance" that is the derivative only if data is (N, K).
    """

    mode: Literal["channel", "instance"] = "instance"
    needs: ClassVar = ("ograd", "output")
    inplace: ClassVar = (("data", "output"),)
    inplace_backward: ClassVar = (("ograd", "data"),)

    def infer_shape(self, ins, outs):
        data = unify(ins[0], outs[0], "data and output")
        least = 3 if self.mode == "channel" else 2
        if data is not None and len(data) < least:
            raise ShapeMismatch(f"data has shape {data}, expected at least {least} dimensions "
                                f"for mode {self.mode!r}")
        return [data], [data]

    def _places(self, tensor: Any) -> Places:
        return Places.along(tensor.shape, 1 if self.mode == "channel" else -1)

    def work(self, ins, outs):
        return self._places(outs[0]).work(outs[0].dtype)

    def work_backward(self, ins, outs):
        return Places.along(ins[1].shape, 1).work(ins[1].dtype)

    def compiled(self, ins, outs, call):
        return self._places(outs[0]).softmax(ins[0], outs[0], call.scratch[:2])

    def compute(self, ins, outs, call):
        self._places(outs[0]).softmax_now(ins[0], outs[0])

    def compiled_backward(self, ins, outs, call):
        return Places.along(ins[1].shape, 1).gradient(
            ins[0], ins[1], outs[0], call.scratch[:2])

    def compute_backward(self, ins, outs, call):
        Places.along(ins[1].shape, 1).gradient_now(ins[0], ins[1], outs[0])


@dataclass(frozen=True)
class SoftmaxCrossEntropy(FloatOp, name="softmax_cross_entropy"):
    """y (1,) = - sum over rows of log(softmax(data)[row, label[row]]); data (N, K), label (N,).

    Labels that name no class count nothing; probabilities below 1e-8 count as that.
    """

    inputs: ClassVar = ("data", "label")
    needs: ClassVar = ("ograd", "data", "label")

    def infer_shape(self, ins, outs):
        data, label = ins
        if data is not None and len(data) != 2:
            raise ShapeMismatch(f"data has shape {data}, expected (N, K)")
        label = unify(label, None if data is None else data[:1], "label and rows of data")
        return [data, label], [(1,)]

    def work(self, ins, outs):
        return [ins[0]]

    def work_backward(self, ins, outs):
        return []

    def _log_softmax(self, data: Any, out: Any) -> Callable[[], None]:
        return Places.along(data.shape, -1).softmax(data, out, (), log=True)

    def compiled(self, ins, outs, call):
        (data, label), logs = ins, call.scratch[0]
        softmax = self._log_softmax(data, logs)

        def run() -> None:
            softmax()
            rows, columns = _picked(label, data.shape[1])
            outs[0][0] = -np.maximum(logs[rows, columns], np.log(LEAST)).sum(dtype=np.float64)

        return run

    def compiled_backward(self, ins, outs, call):
        ograd, data, label = ins
        gradient = outs[0]
        softmax = _nothing if gradient is None else Places.along(data.shape, -1).softmax(
            data, gradient, ())

        def run() -> None:
            _also_clear(softmax, outs[1:])
            if gradient is not None:
                rows, columns = _picked(label, data.shape[1])
                gradient[rows, columns] -= 1
                np.multiply(gradient, ograd[0], out=gradient)

        return run


def _picked(label: Any, classes: int) -> tuple[Any, Any]:
    """(row, class) of the labels that name a class."""
    column = label.astype(np.int64)
    row, = np.nonzero((column >= 0) & (column < classes))
    return row, column[row]
