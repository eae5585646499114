"""Quantization ranges, scales and rounding on a GPU; see `ops.quantization.ranges`.

The ends of ranges are in device memory.  Every thread computes scales from them, and thread 0 of a
kernel writes the range of the output, so that nothing waits for the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...op import Op, Spec
from ...quantization.ranges import FLOAT, LEVELS, limits
from ..elementwise.formula_op import COPY, run_program
from ..lib.block_reduce import (
    BLOCK_SIZE,
    block_reduce_function,
    block_stride,
    chunk_count,
    each_block,
)
from ..lib.fill import fill
from ..lib.kernel_math import RINTS, maximum, minimum
from ..runtime.device_memory import Array, Outputs
from ..runtime.launch import CudaKernel, Launch, cache, cuda, device_function

__all__ = ["ends_of", "extremes", "extremes_scratch", "fill_range", "keep_range", "magnitude",
           "per_unit_function", "quotient", "round_function", "spare_end"]

real = np.float32


@device_function
def magnitude(low, high):
    """The larger magnitude of a range's ends."""
    return maximum(abs(low), abs(high))


@device_function
def quotient(a, b):
    """a / b, and 0 if b is 0: an empty range contains only zeros."""
    return a / b if b != real(0) else real(0)


@cache
def per_unit_function(dtype: np.dtype) -> Callable:
    """per_unit(end): quantization steps per 1, for a range with this end."""
    levels = LEVELS[dtype]

    @device_function
    def per_unit(end):
        return quotient(levels, end)
    return per_unit


@cache
def round_function(dtype: np.dtype) -> Callable:
    """rounded(x): x rounded and saturated to an 8-bit type, as a float."""
    (low, high), rint = limits(dtype), RINTS[real]

    @device_function
    def rounded(x):
        value = rint(x)
        value = value if value > low else low
        return value if value < high else high
    return rounded


# -- ranges -------------------------------------------------------------------------------------


def spare_end(op: Op, ins: list[Spec], outs: list[Spec]) -> list[Spec]:
    """Scratch for an end of the output's range that is not requested."""
    return [Spec((1,), FLOAT)]


def ends_of(outs: Outputs, spare: Sequence[Array]) -> list[Array]:
    """The arrays for the ends of the output's range: outputs, or scratch in their place."""
    ends = (*outs[1:3], None, None)[:2]
    return [spare[i % len(spare)] if end is None else end for i, end in enumerate(ends)]


def keep_range(ends: Sequence[Array], outs: Outputs) -> list[Launch]:
    """Launches that copy the range of an input to the output."""
    return [launch for end, out in zip(ends, outs[1:3], strict=False) if out is not None
            for launch in run_program(COPY, [end], [out])]


def fill_range(ends: Sequence[np.generic | float | None], outs: Outputs) -> list[Launch]:
    """Launches that write a known range to the output."""
    return [launch for end, out in zip(ends, outs[1:3], strict=False) if out is not None
            for launch in fill(out, np.nan if end is None else end)]


@cache
def _extremes_kernel(dtype: np.dtype) -> CudaKernel:
    kind = dtype.type
    block_min = block_reduce_function(1, combine=minimum)
    block_max = block_reduce_function(1, combine=maximum)

    @block_stride
    def extremes(chunk, x, z, lows, highs, length, terms):
        low = cuda.shared.array((1, BLOCK_SIZE), kind)
        high = cuda.shared.array((1, BLOCK_SIZE), kind)
        tid = cuda.threadIdx.x
        start = chunk * length
        least, most = x[start], z[start]
        for i in range(start + tid, minimum(start + length, terms), BLOCK_SIZE):
            least, most = minimum(x[i], least), maximum(z[i], most)
        low[0, tid], high[0, tid] = least, most
        block_min(low)
        block_max(high)
        if tid == 0:
            lows[chunk], highs[chunk] = low[0, 0], high[0, 0]
        cuda.syncthreads()
    return extremes


def extremes(x: Array, scratch: Sequence[Array]) -> tuple[list[Launch], list[Array]]:
    """Launches that compute minimum and maximum of x, 0 if it is empty, and the arrays that receive
    them; `scratch` from `extremes_scratch`."""
    lows, highs, *ends = scratch
    if not x.size:
        return [*fill(ends[0], 0), *fill(ends[1], 0)], ends
    make, length = _extremes_kernel(x.dtype), -(-x.size // lows.size)
    chunks = -(-x.size // length)
    return [*each_block(make, chunks, x, x, lows, highs, length, x.size),
            *each_block(make, 1, lows, highs, *ends, chunks, chunks)], ends


def extremes_scratch(x: Spec) -> list[Spec]:
    """Scratch for the extremes of chunks, and of all elements."""
    chunks = Spec((chunk_count(1, x.size),), x.dtype)
    return [chunks, chunks, Spec((1,), x.dtype), Spec((1,), x.dtype)]
