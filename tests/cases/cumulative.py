"""Cumulative sums."""

from __future__ import annotations

from typing import Any

from tests.cases import FLOATS, Sample, normal

X = (2, 3, 4)
INTEGERS = ("int8", "uint8", "int32", "int64")
HALF = {"mx_dtypes": ("float32", "float64", *INTEGERS), "why": "MXNet adds up in float16"}


def cumsum(shape: tuple[int, ...], attrs: dict | None = None, **options: Any) -> Sample:
    return Sample("cumsum", {"a": normal(shape)}, attrs or {}, **options)


SAMPLES = [
    *(cumsum(X, attrs, dtypes=(*FLOATS, *INTEGERS))
      for attrs in ({}, *({"axis": axis} for axis in (0, 1, 2)))),
    *(cumsum(X, {"axis": axis}, dtypes=("float32",), oracle=False,
             why="MXNet takes no negative axes") for axis in (-1, -3)),
    *(cumsum(X, {"axis": 1, "dtype": dtype}) for dtype in ("float32", "float64")),
    cumsum(X, {"axis": 1, "dtype": "float16"}, dtypes=("float16", "int8")),
    cumsum(X, {"axis": 1, "dtype": "int32"}, dtypes=("uint8", "int8")),
    cumsum(X, {"axis": 1}, dtypes=("bool",), mx_dtypes=(), why="MXNet's nd.array makes no bool"),
    cumsum((1,)),
    cumsum((5, 1), {"axis": 1}),
    cumsum((300, 70), {"axis": 0}, **HALF),
    cumsum(X, {"axis": 3}, error="axis is 3"),
]  # fmt: skip
