"""Inverted dropout: training keeps each element with probability 1 - p and scales by its inverse.

Element i of the mask is kept if word i of a stream of `rng` is below a limit.  The kernel generates
the words in tiles of 4 x 256: a Philox block (Salmon et al. 2011) gives four words, for elements
256 apart, so that consecutive blocks fill consecutive elements.  `_mask` is its NumPy equivalent,
for eager calls and broadcast masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from ...base import MXNetError
from ...graph import Entry, Node
from ..elementwise.float_op import FloatOp
from ..elementwise.kernel_cache import COMPILED_FROM
from ..jit import inlined, kernel, prange
from ..op import _TABLE, Call, Op, Run, Spec
from ..random.rng import ROUNDS, Stream, next_stream, philox_round, words
from ..shape import normalize_axes, unify

__all__ = ["Dropout"]

LANE = 256
TILE = 4 * LANE


@inlined
def _fill(mask, tile, limit, scale, draw, key):
    """Compute the mask of one whole tile."""
    zero, high = mask.dtype.type(0), np.uint64(32)
    first, above = np.uint32(tile * LANE), np.uint32((tile * LANE) >> 32)
    for i in range(LANE):
        a, b = np.uint32(first + np.uint32(i)), above
        c, d = np.uint32(draw), np.uint32(draw >> high)
        k0, k1 = np.uint32(key), np.uint32(key >> high)
        for _ in range(ROUNDS):
            a, b, c, d = philox_round(a, b, c, d, k0, k1)
            k0, k1 = np.uint32(k0 + np.uint32(0x9E3779B9)), np.uint32(k1 + np.uint32(0xBB67AE85))
        mask[i] = scale if a < limit else zero
        mask[i + LANE] = scale if b < limit else zero
        mask[i + 2 * LANE] = scale if c < limit else zero
        mask[i + 3 * LANE] = scale if d < limit else zero


@kernel(parallel=True)
def _drop(x, mask, y, spare, limit, scale, draw, key):
    """mask = scale where the element's word is below `limit`, else 0; y = x mask; all flat.

    `spare` has the size of a tile, for the last one.
    """
    for tile in prange((x.size + TILE - 1) // TILE):
        start = tile * TILE
        stop = start + TILE
        source, factors, target = x[start:stop], mask[start:stop], y[start:stop]
        if factors.size == TILE:
            _fill(factors, tile, limit, scale, draw, key)
        else:
            _fill(spare, tile, limit, scale, draw, key)
            for i in range(factors.size):
                factors[i] = spare[i]
        for i in range(factors.size):
            target[i] = source[i] * factors[i]


def _mask(mask: np.ndarray, limit: int, scale: np.floating, stream: Stream) -> None:
    """Compute the mask of `_drop`."""
    tiles = (mask.size + TILE - 1) // TILE
    drawn = words(stream, tiles * LANE).reshape(4, tiles, LANE).transpose(1, 0, 2)
    survivors = drawn.reshape(-1)[:mask.size].reshape(mask.shape) < limit
    np.multiply(survivors, scale, out=mask)


@dataclass(frozen=True)
class Dropout(FloatOp, name="Dropout"):
    """y = data mask, where mask is 1 / (1 - p) with probability 1 - p, else 0.

    In inference y = data, unless `mode` is "always".  The mask is the same along `axes`.  Hidden
    output 1 is the mask that was used; gradients are multiplied by it.
    """

    p: float = 0.5
    mode: Literal["always", "training"] = "training"
    axes: tuple[int, ...] = ()
    cudnn_off: bool | None = False

    shapes: ClassVar = "data, output and mask have one shape; the mask is of size 1 along `axes`"
    numbers: ClassVar = ("p",)
    outputs: ClassVar = ("output", "mask")
    num_visible: ClassVar = 1
    inplace: ClassVar = (("data", "output"),)
    random: ClassVar = True

    def __post_init__(self):
        if not 0 <= self.p <= 1:
            raise MXNetError(f"Dropout: parameter p is {self.p}, expected a number from 0 to 1")

    def is_identity(self, ins, outs):
        return self.mode == "training" or self.p == 0

    def infer_shape(self, ins, outs):
        data = unify(ins[0], outs[0], "data and output")
        if data is None:
            return [data], [data, None]
        same = normalize_axes(self.axes, len(data), "axes")
        return [data], [data, tuple(1 if i in same else dim for i, dim in enumerate(data))]

    def gradient(self, node, ograds):
        op: type[Op] = _TABLE["broadcast_mul" if self.axes else "elemwise_mul"]
        return [Entry(Node(op(), f"{node.name}_backward", [ograds[0], Entry(node, 1)]))]

    def scratch(self, ins, outs):
        return [outs[1], Spec((TILE,), ins[0].dtype)]

    def forward(self, ins, outs, call):
        self._run(ins, outs, call, False)()

    def prepare(self, ins, outs, call):
        return self._run(ins, outs, call, not self.axes and ins[0].size >= COMPILED_FROM)

    def _run(self, ins: Sequence[np.ndarray], outs: Sequence[Any], call: Call,
             with_kernel: bool) -> Run:
        x, y = ins[0], outs[0]
        mask = call.scratch[0] if outs[1] is None else outs[1]
        spare, limit = call.scratch[1], min(round((1 - self.p) * 2 ** 32), 2 ** 32 - 1)
        scale = x.dtype.type(1 / (1 - self.p) if self.p < 1 else 0)
        flat = [array.reshape(-1) for array in (x, mask, y)]

        def run() -> None:
            if not (call.is_train or self.mode == "always") or self.p == 0:
                np.copyto(y, x)
                if outs[1] is not None:
                    mask.fill(1)
                return
            stream = next_stream()
            if with_kernel:
                _drop(*flat, spare, np.uint32(limit), scale, np.uint64(stream.draw),
                      np.uint64(stream.key))
            else:
                _mask(mask, limit, scale, stream)
                np.multiply(x, mask, out=y)

        return run
