"""Zero the halo of a plane: the padding of convolutions."""

from __future__ import annotations

from typing import Any

from .host import lanes
from .ir import MicroKernel, Vectors

__all__ = ["zero_halo"]

LANES = lanes("float32")


def _emit(v: Vectors) -> None:
    """The halo is a run of pixels before row 0, one between each two rows, and one after the
    last."""
    a, b = v.args, v.builder
    plane = v.at(a.array, a.start)
    row = v.add(a.width, v.mul(a.halo, 2))
    side = v.mul(a.halo, 2)
    ends = v.add(v.mul(row, a.halo), a.halo)
    last = b.sub(v.mul(row, v.add(a.height, side)), ends)

    def clear(first: Any, count: Any) -> None:
        def pixel(p: Any, none: list[Any]) -> list[Any]:
            v.store(v.zero, v.at(plane, v.mul(v.add(first, p), v.width)))
            return none

        v.loop_if_any(count, [], pixel)

    def between(i: Any, none: list[Any]) -> list[Any]:
        clear(v.add(v.add(ends, a.width), v.mul(i, row)), side)
        return none

    def edge() -> list[Any]:
        clear(0, ends)
        v.loop_if_any(b.sub(a.height, v.int64(1)), [], between)
        clear(last, ends)
        return []

    v.if_else(b.icmp_signed(">", a.halo, v.int64(0)), edge, lambda: [])


def _clear(array: Any, start: int, height: int, width: int, halo: int) -> None:
    if halo:
        rows, columns = height + 2 * halo, width + 2 * halo
        plane = array[start:start + rows * columns * LANES].reshape(rows, columns, LANES)
        plane[:halo] = plane[-halo:] = plane[:, :halo] = plane[:, -halo:] = 0


zero_halo = MicroKernel(("array", "start", "height", "width", "halo"), _emit, _clear)
"""Zero the halo around (height, width) pixels, a plane that begins at `start` of `array`."""
