"""A square of numbers turned over in registers: rows become columns.

    target[j, i] = source[i, j],  i, j < lanes; rows lie `steps[0]` and `steps[1]` numbers apart

Where steps has a third number the source has only so many rows: the last stands for the others.

In the turn of size s two rows that are s apart exchange their off-diagonal blocks of s numbers;
after log2(LANES) turns the square is transposed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .host import lanes
from .ir import Micro, Vectors

__all__ = ["transpose"]

def _emit(v: Vectors) -> None:
    source, target = (v.at(getattr(v.args, name), start)
                      for name, start in zip(("source", "target"), v.args.at, strict=True))
    near, far, *count = v.args.steps
    places = [v.least(i, v.add(count[0], -1)) if count else i for i in range(v.width)]
    rows = [v.load(v.at(source, v.mul(near, place))) for place in places]
    size = v.width // 2
    while size:
        for i in (i for i in range(v.width) if not i & size):
            a, b = rows[i], rows[i + size]
            lanes_of = range(v.width)
            rows[i] = v.chosen(a, b, [v.width + j - size if j & size else j for j in lanes_of])
            rows[i + size] = v.chosen(a, b, [v.width + j if j & size else j + size
                                             for j in lanes_of])
        size //= 2
    for j, row in enumerate(rows):
        v.store(row, v.at(target, v.mul(far, j)))


def _twin(source: Any, target: Any, at: Any, steps: Any) -> None:
    near, far, *count = steps
    width = lanes(source.dtype)
    for i, j in np.ndindex(width, width):
        row = min(i, count[0] - 1) if count else i
        target[at[1] + j * far + i] = source[at[0] + row * near + j]


transpose = Micro(("source", "target", "at", "steps"), _emit, _twin)
