"""Statistics of groups of elements, such as the channels of a batch: moments, and pairs of sums.

A block of threads computes a group.  Groups that are adjacent in memory are computed up to a warp's
width at a time, so that loads coalesce; few large groups are split into chunks, whose results
another kernel merges.  All of that depends on the shape alone, and additions follow a fixed tree:
two runs give the same bits.

Variance is computed in one pass over the data: from distances to an element of the group, so that
nothing cancels where the mean is large, merged by the parallel formula of Chan, Golub and LeVeque
("Updating formulae and a pairwise algorithm for computing sample variances", 1979).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from ...nn.softmax_kernels import AxisView
from ...op import Spec
from ...shape import size_of
from ..lib.block_reduce import BLOCK_SIZE, MAX_GRID, block_reduce_function, chunk_count, each_block
from ..lib.kernel_math import MATH, cuda, kernel, maximum, minimum, real_of
from ..runtime.device_memory import Array
from ..runtime.launch import SIMULATED, Argument, CudaKernel, Launch, cache, device_function
from .formula_op import COPY, run_program

__all__ = ["Groups", "centered_terms", "moments", "paired_sums"]

MAX_WIDTH = 2 if SIMULATED else 32
"""Adjacent groups that one block computes."""

sqrt = MATH["sqrt"]


class Groups(NamedTuple):
    """`num_groups` groups of `size` elements; element `term` of `group` is at

        group // inner * outer_stride + group % inner + term // run * run_stride + term % run
    """

    num_groups: int
    size: int
    inner: int
    outer_stride: int
    run: int
    run_stride: int

    @classmethod
    def channels(cls, shape: Sequence[int], axis: int) -> Groups:
        """A group for every index of `axis`, of all elements that have it."""
        samples, channels, size = size_of(shape[:axis]), shape[axis], size_of(shape[axis + 1:])
        return cls(channels, samples * size, 1, size, size, channels * size)

    @classmethod
    def along(cls, view: AxisView) -> Groups:
        """A group for every position outside the axis of a view, of all elements along the axis."""
        outer, size, inner = view.rows, view.size, view.lanes
        return cls(outer * inner, size, inner, size * inner, 1, inner)

    @property
    def width(self) -> int:
        """The number of groups that one block computes, a power of two."""
        adjacent = self.num_groups if self.outer_stride == 1 else self.inner
        return min(1 << (adjacent - 1).bit_length(), MAX_WIDTH)

    @property
    def tiles(self) -> int:
        """The number of sets of `width` groups."""
        return -(-self.num_groups // self.width)

    @property
    def chunks(self) -> int:
        """The number of chunks of a group."""
        return chunk_count(self.tiles, self.size, BLOCK_SIZE // self.width)

    @property
    def chunk_size(self) -> int:
        """Elements of a chunk; the last ones may have fewer, or none."""
        return -(-self.size // self.chunks)

    def scratch(self, dtype: DTypeLike) -> list[Spec]:
        """Scratch for two statistics of every chunk, in the type of sums."""
        shape = (self.chunks, self.num_groups) if self.chunks > 1 else (0,)
        return [Spec(shape, np.dtype(real_of(dtype)))] * 2

    def launch(self, kernel: CudaKernel, *args: Argument) -> Launch:
        """Launch a kernel (*args, groups, size, outer_stride, run_stride, chunks)."""
        return Launch(kernel, (min(self.tiles * self.chunks, MAX_GRID),), (BLOCK_SIZE,),
                      (*args, self.num_groups, self.size, self.outer_stride, self.run_stride,
                       self.chunks))


class GroupSpec(NamedTuple):
    """Constants of kernels over groups."""

    inner: int
    run: int
    width: int
    real: type[np.floating]

    @classmethod
    def of(cls, groups: Groups, dtype: DTypeLike) -> GroupSpec:
        return cls(groups.inner, groups.run, groups.width, real_of(dtype))


# -- mean and deviation -------------------------------------------------------------------------


@device_function
def _merge(n, mean, squares, n2, mean2, squares2):
    """Count, mean and sum of squared deviations of the union of two sets."""
    both = n + n2
    if both == n:
        return n, mean, squares
    delta, share = mean2 - mean, n2 / both
    return both, mean + delta * share, squares + squares2 + delta * delta * n * share


@cache
def _merge_function(width: int, real: type[np.floating]) -> Callable:
    """merge_block(n, mean, squares): the statistics of all threads of a block merged, for each of
    its `width` columns."""

    @device_function
    def merge_block(n, mean, squares):
        counts = cuda.shared.array(BLOCK_SIZE, real)
        means = cuda.shared.array(BLOCK_SIZE, real)
        distances = cuda.shared.array(BLOCK_SIZE, real)
        tid, half = cuda.threadIdx.x, BLOCK_SIZE // 2
        counts[tid], means[tid], distances[tid] = n, mean, squares
        cuda.syncthreads()
        while half >= width:
            if tid < half:
                counts[tid], means[tid], distances[tid] = _merge(
                    counts[tid], means[tid], distances[tid],
                    counts[tid + half], means[tid + half], distances[tid + half])
            cuda.syncthreads()
            half //= 2
        statistics = counts[tid % width], means[tid % width], distances[tid % width]
        cuda.syncthreads()
        return statistics
    return merge_block


@cache
def _moments_kernel(spec: GroupSpec, whole: bool, inverse: bool) -> CudaKernel:
    """Mean and deviation of groups; without `whole`, mean and sum of squares of their chunks."""
    inner, run, width, real = spec
    rows, merge_block = BLOCK_SIZE // width, _merge_function(width, real)

    @kernel
    def moments(x, mean, spread, eps, groups, size, outer_stride, run_stride, chunks):
        row, tiles = cuda.threadIdx.x // width, (groups + width - 1) // width
        chunk_size = (size + chunks - 1) // chunks
        for task in range(cuda.blockIdx.x, tiles * chunks, cuda.gridDim.x):
            group, chunk = task % tiles * width + cuda.threadIdx.x % width, task // tiles
            base = group // inner * outer_stride + group % inner
            start = chunk * chunk_size + row
            stop = minimum(chunk * chunk_size + chunk_size, size)
            # Each thread: sums of distances to its first element, and of their squares.
            n, centre, squares = real(0), real(0), real(0)
            if group < groups and start < stop:
                first = real(x[base + start // run * run_stride + start % run])
                total = real(0)
                for term in range(start, stop, rows):
                    d = real(x[base + term // run * run_stride + term % run]) - first
                    total += d
                    squares += d * d
                n = real((stop - start + rows - 1) // rows)
                centre = first + total / n
                squares -= total * (total / n)
            n, centre, squares = merge_block(n, centre, squares)
            if row == 0 and group < groups:
                if whole:
                    mean[group] = centre
                    deviation = sqrt(maximum(squares / n, real(0)) + eps)
                    spread[group] = real(1) / deviation if inverse else deviation
                else:
                    mean[chunk * groups + group] = centre
                    spread[chunk * groups + group] = squares
    return moments


@cache
def _merge_kernel(real: type[np.floating], inverse: bool) -> CudaKernel:
    """Mean and deviation of groups from those of their chunks."""
    merge_block = _merge_function(1, real)

    @kernel
    def merge_moments(means, squares, mean, spread, eps, size, chunk_size, chunks, groups):
        for group in range(cuda.blockIdx.x, groups, cuda.gridDim.x):
            n, centre, distances = real(0), real(0), real(0)
            for chunk in range(cuda.threadIdx.x, chunks, BLOCK_SIZE):
                count = maximum(minimum(chunk_size, size - chunk * chunk_size), 0)
                n, centre, distances = _merge(n, centre, distances, real(count),
                                              means[chunk * groups + group],
                                              squares[chunk * groups + group])
            n, centre, distances = merge_block(n, centre, distances)
            if cuda.threadIdx.x == 0:
                mean[group] = centre
                deviation = sqrt(maximum(distances / n, real(0)) + eps)
                spread[group] = real(1) / deviation if inverse else deviation
    return merge_moments


def moments(x: Array, groups: Groups, mean: Array, spread: Array, scratch: Sequence[Array],
            eps: float, inverse: bool = False) -> list[Launch]:
    """Launches that write the mean of every group and sqrt(variance + eps), or its inverse."""
    spec = GroupSpec.of(groups, x.dtype)
    if not x.size:
        return []
    if groups.chunks == 1:
        return [groups.launch(_moments_kernel(spec, True, inverse), x, mean, spread,
                              spec.real(eps))]
    return [groups.launch(_moments_kernel(spec, False, inverse), x, *scratch[:2], spec.real(eps)),
            *each_block(_merge_kernel(spec.real, inverse), groups.num_groups, *scratch[:2], mean,
                        spread, spec.real(eps), groups.size, groups.chunk_size, groups.chunks)]


# -- sums ---------------------------------------------------------------------------------------


@device_function
def centered_terms(g, x, mean, v, w, group, term, at):
    """The terms g and g (x - mean), whose sums are the gradients of beta and, but for the
    deviation, of gamma."""
    return g[at], g[at] * (x[at] - mean[group])


@cache
def _sums_kernel(spec: GroupSpec, terms: Callable) -> CudaKernel:
    """Sums of both values of terms(g, x, mean, v, w, group, term, at)."""
    inner, run, width, real = spec
    rows, block_sum = BLOCK_SIZE // width, block_reduce_function(2, width)

    @kernel
    def paired_sums(g, x, mean, v, w, first, second, groups, size, outer_stride, run_stride,
                    chunks):
        sums = cuda.shared.array((2, BLOCK_SIZE), real)
        tid = cuda.threadIdx.x
        row, tiles = tid // width, (groups + width - 1) // width
        chunk_size = (size + chunks - 1) // chunks
        for task in range(cuda.blockIdx.x, tiles * chunks, cuda.gridDim.x):
            group, chunk = task % tiles * width + tid % width, task // tiles
            base = group // inner * outer_stride + group % inner
            stop = minimum(chunk * chunk_size + chunk_size, size) if group < groups else 0
            one, other = real(0), real(0)
            for term in range(chunk * chunk_size + row, stop, rows):
                a, b = terms(g, x, mean, v, w, group, term,
                             base + term // run * run_stride + term % run)
                one += real(a)
                other += real(b)
            sums[0, tid], sums[1, tid] = one, other
            block_sum(sums)
            if row == 0 and group < groups:
                first[chunk * groups + group] = sums[0, tid]
                second[chunk * groups + group] = sums[1, tid]
            cuda.syncthreads()
    return paired_sums


def paired_sums(terms: Callable, arrays: Sequence[Array], groups: Groups, sums: Sequence[Array],
                scratch: Sequence[Array]) -> list[Launch]:
    """Launches that sum both values of terms(g, x, mean, v, w, group, term, at) over every group;
    `arrays` are those of its first five arguments that it reads."""
    spec = GroupSpec.of(groups, arrays[0].dtype)
    arrays = [*arrays, *[arrays[0]] * (5 - len(arrays))]
    if groups.chunks == 1:
        return [groups.launch(_sums_kernel(spec, terms), *arrays, *sums[:2])]
    launches = [groups.launch(_sums_kernel(spec, terms), *arrays, *scratch[:2])]
    for part, total in zip(scratch[:2], sums[:2], strict=True):
        launches += run_program(COPY, [part], [total.reshape(1, -1)])
    return launches
