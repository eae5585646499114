"""Zero the halo of a plane: the padding of convolutions."""

from __future__ import annotations

import numpy as np

from .host import lanes
from .ir import IRValue, MicroKernel, Vectors

__all__ = ["zero_halo"]

LANES = lanes("float32")


def _emit(v: Vectors) -> None:
    """The halo is a run of pixels before row 0, one between each two rows, and one after the
    last."""
    a, b = v.args, v.builder
    plane, side = v.at(a.array, a.start), v.mul(a.halo, 2)
    row = v.add(a.width, side)
    ends = v.add(v.mul(row, a.halo), a.halo)
    last = b.sub(v.mul(row, v.add(a.height, side)), ends)

    def clear(first: IRValue | int, count: IRValue) -> None:
        v.loop_if_any(count, [], lambda p, _: v.store(
            v.zero, v.at(plane, v.mul(v.add(first, p), v.width))))

    with b.if_then(b.icmp_signed(">", a.halo, v.int64(0))):
        clear(0, ends)
        v.loop_if_any(b.sub(a.height, v.int64(1)), [], lambda i, _: clear(
            v.add(v.add(ends, a.width), v.mul(i, row)), side))
        clear(last, ends)


def _clear(array: np.ndarray, start: int, height: int, width: int, halo: int) -> None:
    if halo:
        rows, columns = height + 2 * halo, width + 2 * halo
        plane = array[start:start + rows * columns * LANES].reshape(rows, columns, LANES)
        plane[:halo] = plane[-halo:] = plane[:, :halo] = plane[:, -halo:] = 0


zero_halo = MicroKernel(("array", "start", "height", "width", "halo"), _emit, _clear)
"""Zero the halo around (height, width) pixels, a plane that begins at `start` of `array`."""
