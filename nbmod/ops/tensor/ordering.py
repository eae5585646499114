"""Sorting: topk, sort, argsort.

All are computed from one argsort, `where`: the positions of the first k elements along the sorted
axis, (A, k, B) for data viewed as (A, K, B).  Values are gathered by it, gradients and masks
scattered.  The sort is stable on every platform; NaN is last in either direction.

Kernels pack an element and its position into one unsigned key: the bits of the element, mapped to
an unsigned integer of the same order, above the position.  Keys are distinct, so any sort of them
is stable.  It is an LSD radix sort, linear in K, or for small k a bounded max-heap.  64-bit
elements, which leave no bits for a position, and small tensors are sorted by NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, Literal

import numpy as np

from ..elementwise.float16 import FLOAT16
from ..elementwise.kernel_cache import COMPILED_FROM
from ..jit import inlined, kernel, num_threads, prange
from ..op import Call, Op, Run, Spec, Tensor, Types, all_of
from ..param import Shape
from ..rules import common_type
from ..shape import ShapeMismatch, Shapes, normalize_axis, unify

__all__ = ["Argsort", "Sort", "TopK", "rank_work", "ranking"]

INT64, KEY = np.dtype(np.int64), np.dtype(np.uint64)
DIGITS, SHORT, HEAP_PAYS = 256, 32, 16
"""Values of a digit; length of rows that are sorted by insertion; share 1/16 wanted: a heap."""
IndexType = Literal["float16", "float32", "float64", "int32", "int64", "uint8"]


# ------------------------------------------------------------------------------------------ kernels

@inlined
def _order_key(bits, real, descending):
    """The 32 bits of an integer, or of a `real` float32, as an unsigned key of the same order."""
    pattern = np.uint32(bits)
    if real:
        size = pattern & np.uint32(0x7FFFFFFF)
        if size > np.uint32(0x7F800000):
            return np.uint64(0xFFFFFFFF)
        if size == 0:
            pattern = size
    if real and pattern >> np.uint32(31):
        pattern = ~pattern
    else:
        pattern ^= np.uint32(0x80000000)
    return np.uint64(~pattern if descending else pattern)


@inlined
def _insertion_sort(keys):
    for i in range(1, keys.size):
        key, j = keys[i], i
        while j > 0 and keys[j - 1] > key:
            keys[j] = keys[j - 1]
            j -= 1
        keys[j] = key


@inlined
def _sort_keys(keys, spare, starts):
    """LSD radix sort of keys that ascend in their lower 32 bits; starts has DIGITS entries."""
    if keys.size <= SHORT:
        _insertion_sort(keys)
        return
    source, target, moved = keys, spare, False
    for digit in range(4):
        shift = np.uint64(32 + 8 * digit)
        starts[:] = 0
        for i in range(source.size):
            starts[(source[i] >> shift) & np.uint64(255)] += 1
        if starts[(source[0] >> shift) & np.uint64(255)] == source.size:
            continue
        total = 0
        for value in range(DIGITS):
            count = starts[value]
            starts[value] = total
            total += count
        for i in range(source.size):
            value = (source[i] >> shift) & np.uint64(255)
            target[starts[value]] = source[i]
            starts[value] += 1
        source, target, moved = target, source, not moved
    if moved:
        for i in range(source.size):
            target[i] = source[i]


@inlined
def _sift_down(heap, at, size, key):
    """Sift `key` down in a max-heap of `size` keys, from position `at`."""
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= key:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = key


@inlined
def _heap_smallest(keys, count):
    """Partial heapsort: the `count` smallest keys in front, in order."""
    for root in range(count // 2 - 1, -1, -1):
        _sift_down(keys, root, count, keys[root])
    for i in range(count, keys.size):
        if keys[i] < keys[0]:
            _sift_down(keys, 0, count, keys[i])
    for size in range(count - 1, 0, -1):
        key = keys[size]
        keys[size] = keys[0]
        _sift_down(keys, 0, size, key)


@inlined
def _rank_rows(worker, workers, bits, where, keys, spare, starts, real, descending):
    """Every `workers`-th row, of all (a, b)."""
    size, count, lanes = bits.shape[1], where.shape[1], bits.shape[2]
    low = np.uint64(0xFFFFFFFF)
    for row in range(worker, bits.shape[0] * lanes, workers):
        a, b = row // lanes, row % lanes
        for k in range(size):
            keys[k] = _order_key(bits[a, k, b], real, descending) << np.uint64(32) | np.uint64(k)
        if count * HEAP_PAYS <= size:
            _heap_smallest(keys, count)
        else:
            _sort_keys(keys, spare, starts)
        for k in range(count):
            where[a, k, b] = np.int64(keys[k] & low)


@kernel(parallel=True)
def _rank(bits, where, keys, spare, starts, real, descending):
    """where (A, k, B) of bits (A, K, B); keys and spare (workers, K), starts (workers, DIGITS)."""
    workers = keys.shape[0]
    for worker in prange(workers):
        _rank_rows(np.int64(worker), workers, bits, where, keys[worker], spare[worker],
                   starts[worker], real, descending)


@kernel(parallel=True)
def _pick(x, where, y):
    """Gather: y (A, k, B) = x (A, K, B) at `where`."""
    count, lanes = where.shape[1:]
    for task in prange(where.shape[0] * count):
        a, k = task // count, task % count
        for b in range(lanes):
            y[a, k, b] = x[a, where[a, k, b], b]


@kernel(parallel=True)
def _put(g, where, gx):
    """Scatter: gx (A, K, B) = g (A, k, B) at `where`, 0 elsewhere."""
    for a in prange(gx.shape[0]):
        gx[a, :, :] = 0
        for k in range(where.shape[1]):
            for b in range(where.shape[2]):
                gx[a, where[a, k, b], b] = g[a, k, b]


def _rank_now(x: np.ndarray, where: np.ndarray, descending: bool) -> None:
    """`_rank` by NumPy's argsort, for any type."""
    rows = np.moveaxis(x, 1, 2)
    if descending:
        rows = -rows if x.dtype.kind == "f" else ~rows
    order = np.argsort(rows, axis=2, kind="stable")[:, :, :where.shape[1]]
    where[...] = np.moveaxis(order, 2, 1)


def _raw(array: np.ndarray) -> Any:
    """The array as integers of the same width, to move elements whatever their type."""
    return array.view(f"i{array.dtype.itemsize}")


def _compiles(data: Tensor, length: int) -> bool:
    """Whether kernels sort rows of this length, or NumPy; keys have 32 bits for the position."""
    return data.size >= COMPILED_FROM and data.dtype.itemsize <= 4 and length <= 1 << 32


def rank_work(data: Spec, rows: int) -> list[Spec]:
    """The workspace of `ranking`."""
    size = data.size // rows
    if not _compiles(data, size):
        return []
    workers = min(num_threads(), rows)
    narrow = np.dtype(np.float32 if data.dtype == FLOAT16 else np.int32)
    copy = data.size if data.dtype.itemsize < 4 else 0
    return [Spec((copy,), narrow), Spec((workers, size), KEY), Spec((workers, size), KEY),
            Spec((workers, DIGITS), INT64)]


def ranking(x: np.ndarray, where: np.ndarray, descending: bool, work: Sequence[Any]) -> Run:
    """A function that writes `where`, (A, k, B) int64, for x, (A, K, B).

    These are the positions along K of the first k in ascending or descending order.  `work` begins
    with the workspace `rank_work`.
    """
    if not _compiles(x, x.shape[1]):
        return partial(_rank_now, x, where, descending)
    copy, *rest = work[:4]
    real = x.dtype.kind == "f"
    if not copy.size:
        return partial(_rank, _raw(x), where, *rest, real, descending)
    wide = copy.reshape(x.shape)

    def run() -> None:
        np.copyto(wide, x)
        _rank(_raw(wide), where, *rest, real, descending)

    return run


# ---------------------------------------------------------------------------------------------- ops

class _Ordering(Op):
    """Base of topk, sort and argsort; subclasses are dataclasses with these parameters.

    Ops with a gradient have a hidden output `where`, int64.
    """

    axis: int | None
    is_ascend: bool

    @property
    def num_visible(self) -> int:
        return len(self.list_outputs()) - ("where" in self.list_outputs())

    def list_needs(self) -> tuple[str, ...]:
        return ("ograd", "where") if "where" in self.list_outputs() else ()

    def index_type(self) -> np.dtype:
        """The element type of visible positions."""
        return INT64

    def kinds(self) -> tuple[str, ...]:
        """The kind of each output: 'value', 'index', 'where' or 'mask'."""
        raise NotImplementedError

    def count(self, size: int) -> int:
        """How many of `size` elements are selected."""
        return size

    def list_outputs(self) -> tuple[str, ...]:
        kinds = self.kinds()
        if len(kinds) == 1:
            return ("output",)
        return tuple("where" if kind == "where" else f"output{i}" for i, kind in enumerate(kinds))

    def infer_type(self, ins: Types, outs: Types) -> tuple[Types, Types]:
        kinds = self.kinds()
        dtype = common_type([*ins, *(out for out, kind in zip(outs, kinds, strict=True)
                                     if kind in ("value", "mask"))])
        known = {"index": self.index_type(), "where": INT64}
        return [dtype], [known.get(kind, dtype) for kind in kinds]

    def infer_shape(self, ins: Shapes, outs: Shapes) -> tuple[Shapes, Shapes]:
        data = ins[0]
        if data is None:
            return ins, outs
        if self.axis is None:
            size = prod(data)
            shape: Shape = (self._count(size) if size else 0,)
        else:
            axis = normalize_axis(self.axis, len(data))
            count = self._count(data[axis]) if data[axis] else 0
            shape = (*data[:axis], count, *data[axis + 1:])
        shapes = [unify(data if kind == "mask" else shape, out, "computed and wanted output")
                  for kind, out in zip(self.kinds(), outs, strict=True)]
        return ins, shapes

    def _count(self, size: int) -> int:
        count = self.count(size)
        if count > size:
            raise ShapeMismatch(f"k is {count}, expected at most the {size} elements along axis "
                                f"{self.axis}")
        return count

    def threefold(self, tensor: np.ndarray, data: Shape) -> Any:
        """An array as (A, k, B); `data` is the shape of the input."""
        if self.axis is None:
            return tensor.reshape(1, -1, 1)
        axis = self.axis % len(data)
        return tensor.reshape(prod(data[:axis]), -1, prod(data[axis + 1:]))

    def scratch(self, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
        data = ins[0]
        size = data.size if self.axis is None else data.shape[self.axis]
        rows = data.size // size
        return [Spec((rows * self.count(size),), INT64), *rank_work(data, rows)]

    def prepare(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        kinds, shape = self.kinds(), ins[0].shape
        indices = [out for out, kind in zip(outs, kinds, strict=True) if kind == "where"]
        hidden = call.scratch[0] if not indices or indices[0] is None else indices[0]
        x, where = self.threefold(ins[0], shape), self.threefold(hidden, shape)
        rank = ranking(x, where, not self.is_ascend, call.scratch[1:])
        return all_of([rank, *(partial(_write, kind, x, where, self.threefold(out, shape))
                               for kind, out in zip(kinds, outs, strict=True)
                               if out is not None and kind != "where")])

    def prepare_backward(self, ins: Sequence[Any], outs: Sequence[Any], call: Call) -> Run:
        g, where, gx = (self.threefold(tensor, outs[0].shape) for tensor in (*ins, outs[0]))
        if gx.size >= COMPILED_FROM:
            return partial(_put, _raw(g), where, _raw(gx))

        def run() -> None:
            gx.fill(0)
            np.put_along_axis(gx, where, g, axis=1)

        return run


def _write(kind: str, x: np.ndarray, where: np.ndarray, y: np.ndarray) -> None:
    """Write an output of a kind, (A, k, B) or the mask (A, K, B)."""
    if kind == "index":
        np.copyto(y, where, casting="unsafe")
    elif kind == "mask":
        y.fill(0)
        np.put_along_axis(y, where, 1, axis=1)
    elif y.size >= COMPILED_FROM:
        _pick(_raw(x), where, _raw(y))
    else:
        np.copyto(y, np.take_along_axis(x, where, axis=1))


@dataclass(frozen=True)
class TopK(_Ordering, name="topk"):
    """The k largest elements along `axis`, in descending order; the smallest with `is_ascend`.

    data (..., K, ...) -> (..., k, ...), or from data taken flat (k,) with axis None.  k below 1 is
    all.  `ret_typ` selects the outputs: 'indices', 'value', 'both' (values, then indices), or a
    'mask' of data's shape, 1 at the elements chosen.  Indices are of type `dtype`, in which large
    ones are rounded or wrap around.  Values pass their gradient to the elements that they are.
    Equal elements stay in order; NaN comes last.
    """

    axis: int | None = -1
    k: int = 1
    ret_typ: Literal["both", "indices", "mask", "value"] = "indices"
    is_ascend: bool = False
    dtype: IndexType = "float32"

    def index_type(self) -> np.dtype:
        return np.dtype(self.dtype)

    def kinds(self) -> tuple[str, ...]:
        return {"indices": ("index",), "mask": ("mask",), "value": ("value", "where"),
                "both": ("value", "index", "where")}[self.ret_typ]

    def count(self, size: int) -> int:
        return self.k if self.k > 0 else size


@dataclass(frozen=True)
class Sort(_Ordering, name="sort"):
    """data in order along `axis`, of the same shape; all of it, (N,), with axis None.

    The sort is stable; NaN comes last.  The gradient is the inverse permutation.
    """

    axis: int | None = -1
    is_ascend: bool = True

    def kinds(self) -> tuple[str, ...]:
        return ("value", "where")


@dataclass(frozen=True)
class Argsort(_Ordering, name="argsort"):
    """The positions along `axis` of the elements in order, of data's shape; (N,) with axis None.

    Positions are of type `dtype`, in which large ones are rounded or wrap around.  Equal elements
    stay in order; NaN comes last.
    """

    axis: int | None = -1
    is_ascend: bool = True
    dtype: IndexType = "float32"

    def index_type(self) -> np.dtype:
        return np.dtype(self.dtype)

    def kinds(self) -> tuple[str, ...]:
        return ("index",)
