"""Cells, sets of numbers that share a statistic, such as a channel of a batch: moments and sums.

A block of threads takes one cell.  Where cells are neighbours in memory it takes as many as a warp
has threads, so that its loads are of whole lines; few cells of many numbers are taken in pieces,
which another kernel merges.  All of that follows from the shape alone, and whatever is added is
added in the order of a fixed tree: two runs give the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ...nn.softmax_kernels import Places
from ...op import Spec
from ...shape import size_of
from ..lib.block_reduce import LANES, MAX_CELLS, each_block, pieces_of
from ..lib.kernel_math import WORDS, maximum, minimum, real_of
from ..runtime.device_memory import Array
from ..runtime.launch import SIMULATED, Launch, cuda, device_function, kernel
from .formula_op import COPY, run_program

__all__ = ["Cells", "deviations", "moments", "two_sums"]

WIDEST = 2 if SIMULATED else 32
"""Neighbouring cells that one block takes."""

sqrt = WORDS["sqrt"]


class Cells(NamedTuple):
    """Number `term` of `cell` is the element

        cell // lanes * outer + cell % lanes + term // run * far + term % run
    """

    number: int
    terms: int
    lanes: int
    outer: int
    run: int
    far: int

    @classmethod
    def channels(cls, shape: Sequence[int], axis: int) -> Cells:
        """A cell for every index of `axis`, whose terms are all that have it."""
        samples, channels, size = size_of(shape[:axis]), shape[axis], size_of(shape[axis + 1:])
        return cls(channels, samples * size, 1, size, size, channels * size)

    @classmethod
    def along(cls, places: Places) -> Cells:
        """A cell for every place of a view along one axis, whose terms lie on that."""
        rows, size, lanes = places.rows, places.size, places.lanes
        return cls(rows * lanes, size, lanes, size * lanes, 1, lanes)

    @property
    def width(self) -> int:
        """How many cells one block takes, a power of two."""
        neighbours = self.number if self.outer == 1 else self.lanes
        return min(1 << (neighbours - 1).bit_length(), WIDEST)

    @property
    def groups(self) -> int:
        """In how many groups of neighbours the blocks take the cells."""
        return -(-self.number // self.width)

    @property
    def pieces(self) -> int:
        """In how many pieces a cell is taken."""
        return pieces_of(self.groups, self.terms, LANES // self.width)

    @property
    def length(self) -> int:
        """Terms of a piece; the last ones may have fewer, or none."""
        return -(-self.terms // self.pieces)

    def spare(self, dtype: Any) -> list[Spec]:
        """Scratch for what is known of pieces, two numbers of each, in the type of sums."""
        shape = (self.pieces, self.number) if self.pieces > 1 else (0,)
        return [Spec(shape, np.dtype(real_of(dtype)))] * 2

    def launch(self, kernel: Any, *args: Any) -> Launch:
        """Start a kernel whose last arguments are the numbers that say which thread takes what."""
        return Launch(kernel, (min(self.groups * self.pieces, MAX_CELLS),), (LANES,),
                      (*args, self.number, self.terms, self.outer, self.far, self.pieces))


class Form(NamedTuple):
    """What kernels over cells are made for."""

    lanes: int
    run: int
    width: int
    real: Any

    @classmethod
    def of(cls, cells: Cells, dtype: Any) -> Form:
        return cls(cells.lanes, cells.run, cells.width, real_of(dtype))


# -- mean and deviation -------------------------------------------------------------------------


@device_function
def _merge(n, mean, squares, n2, mean2, squares2):
    """Count, mean and squared distances from it of two sets taken together (Chan's formula)."""
    both = n + n2
    if both == n:
        return n, mean, squares
    apart, share = mean2 - mean, n2 / both
    return both, mean + apart * share, squares + squares2 + apart * apart * n * share


@cache
def _merge_function(width: int, real: Any) -> Any:
    """merged(n, mean, squares): those of a whole block, for each of its `width` columns."""
    lanes = LANES

    @device_function
    def merged(n, mean, squares):
        counts = cuda.shared.array(lanes, real)
        means = cuda.shared.array(lanes, real)
        distances = cuda.shared.array(lanes, real)
        me, half = cuda.threadIdx.x, lanes // 2
        counts[me], means[me], distances[me] = n, mean, squares
        cuda.syncthreads()
        while half >= width:
            if me < half:
                counts[me], means[me], distances[me] = _merge(
                    counts[me], means[me], distances[me],
                    counts[me + half], means[me + half], distances[me + half])
            cuda.syncthreads()
            half //= 2
        found = counts[me % width], means[me % width], distances[me % width]
        cuda.syncthreads()
        return found
    return merged


@cache
def _moments_kernel(form: Form, whole: bool, inverse: bool) -> Any:
    """Mean and deviation of cells; without `whole`, mean and squares of their pieces."""
    lanes, run, width, real = form
    rows, merged = LANES // width, _merge_function(width, real)

    @kernel
    def moments(x, mean, spread, eps, cells, terms, outer, far, pieces):
        row, groups = cuda.threadIdx.x // width, (cells + width - 1) // width
        length = (terms + pieces - 1) // pieces
        for task in range(cuda.blockIdx.x, groups * pieces, cuda.gridDim.x):
            cell, piece = task % groups * width + cuda.threadIdx.x % width, task // groups
            base = cell // lanes * outer + cell % lanes
            start, stop = piece * length + row, minimum(piece * length + length, terms)
            n, centre, squares = real(0), real(0), real(0)
            if cell < cells and start < stop:
                # Distances from a number of the cell: nothing cancels where the mean is large.
                first = real(x[base + start // run * far + start % run])
                total = real(0)
                for term in range(start, stop, rows):
                    d = real(x[base + term // run * far + term % run]) - first
                    total += d
                    squares += d * d
                n = real((stop - start + rows - 1) // rows)
                centre = first + total / n
                squares -= total * (total / n)
            n, centre, squares = merged(n, centre, squares)
            if row == 0 and cell < cells:
                if whole:
                    mean[cell] = centre
                    deviation = sqrt(maximum(squares / n, real(0)) + eps)
                    spread[cell] = real(1) / deviation if inverse else deviation
                else:
                    mean[piece * cells + cell] = centre
                    spread[piece * cells + cell] = squares
    return moments


@cache
def _merge_kernel(real: Any, inverse: bool) -> Any:
    """Mean and deviation of cells from those of their pieces."""
    lanes, merged = LANES, _merge_function(1, real)

    @kernel
    def merge_moments(means, squares, mean, spread, eps, terms, length, pieces, cells):
        for cell in range(cuda.blockIdx.x, cells, cuda.gridDim.x):
            n, centre, distances = real(0), real(0), real(0)
            for piece in range(cuda.threadIdx.x, pieces, lanes):
                count = maximum(minimum(length, terms - piece * length), 0)
                n, centre, distances = _merge(n, centre, distances, real(count),
                                              means[piece * cells + cell],
                                              squares[piece * cells + cell])
            n, centre, distances = merged(n, centre, distances)
            if cuda.threadIdx.x == 0:
                mean[cell] = centre
                deviation = sqrt(maximum(distances / n, real(0)) + eps)
                spread[cell] = real(1) / deviation if inverse else deviation
    return merge_moments


def moments(x: Array, cells: Cells, mean: Array, spread: Array, spare: Sequence[Array], eps: float,
            inverse: bool = False) -> list[Launch]:
    """Launches that find the mean of every cell and sqrt(variance + eps), or its inverse."""
    form = Form.of(cells, x.dtype)
    if not x.size:
        return []
    if cells.pieces == 1:
        return [cells.launch(_moments_kernel(form, True, inverse), x, mean, spread,
                             form.real(eps))]
    return [cells.launch(_moments_kernel(form, False, inverse), x, *spare[:2], form.real(eps)),
            *each_block(_merge_kernel(form.real, inverse), cells.number, *spare[:2], mean, spread,
                        form.real(eps), cells.terms, cells.length, cells.pieces)]


# -- sums ---------------------------------------------------------------------------------------


@device_function
def deviations(g, x, mean, v, w, cell, term, at):
    """The terms of a channel's gradients: those of its shift, and of its scale times deviation."""
    return g[at], g[at] * (x[at] - mean[cell])


@cache
def _sums_kernel(form: Form, take: Any) -> Any:
    """Sums of both numbers that take(g, x, mean, v, w, cell, term, at) gives for a term."""
    lanes, run, width, real = form
    rows, threads = LANES // width, LANES

    @kernel
    def two_sums(g, x, mean, v, w, first, second, cells, terms, outer, far, pieces):
        ones = cuda.shared.array(threads, real)
        others = cuda.shared.array(threads, real)
        me = cuda.threadIdx.x
        row, groups = me // width, (cells + width - 1) // width
        length = (terms + pieces - 1) // pieces
        for task in range(cuda.blockIdx.x, groups * pieces, cuda.gridDim.x):
            cell, piece = task % groups * width + me % width, task // groups
            base = cell // lanes * outer + cell % lanes
            stop = minimum(piece * length + length, terms) if cell < cells else 0
            one, other = real(0), real(0)
            for term in range(piece * length + row, stop, rows):
                a, b = take(g, x, mean, v, w, cell, term, base + term // run * far + term % run)
                one += real(a)
                other += real(b)
            ones[me], others[me] = one, other
            cuda.syncthreads()
            half = threads // 2
            while half >= width:
                if me < half:
                    ones[me] += ones[me + half]
                    others[me] += others[me + half]
                cuda.syncthreads()
                half //= 2
            if row == 0 and cell < cells:
                first[piece * cells + cell] = ones[me]
                second[piece * cells + cell] = others[me]
            cuda.syncthreads()
    return two_sums


def two_sums(take: Any, arrays: Sequence[Array], cells: Cells, sums: Sequence[Array],
             spare: Sequence[Array]) -> list[Launch]:
    """Launches that add up both numbers that take(g, x, mean, v, w, cell, term, at) gives for every
    term of a cell; `arrays` are as many of the first five as it reads."""
    form = Form.of(cells, arrays[0].dtype)
    arrays = [*arrays, *[arrays[0]] * (5 - len(arrays))]
    if cells.pieces == 1:
        return [cells.launch(_sums_kernel(form, take), *arrays, *sums[:2])]
    launches = [cells.launch(_sums_kernel(form, take), *arrays, *spare[:2])]
    for part, total in zip(spare[:2], sums[:2], strict=True):
        launches += run_program(COPY, [part], [total.reshape(1, -1)])
    return launches
