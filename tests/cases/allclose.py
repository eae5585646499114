"""Comparison of tensors with tolerances; there is no gradient."""

from __future__ import annotations

from typing import Any

from tests.cases import FLOATS, Sample, array

NAN, INF = float("nan"), float("inf")


def close(a: list[float], b: list[float], attrs: dict | None = None, **options: Any) -> Sample:
    return Sample("_contrib_allclose", {"a": array(a), "b": array(b)}, attrs or {},
                  **({"grad": ()} | options))


SAMPLES = [
    close([1, 2, 3], [1, 2, 3], dtypes=(*FLOATS, "int8", "uint8", "int32", "int64")),
    close([1, 2, 3], [1, 2, 4], dtypes=(*FLOATS, "int8", "uint8", "int32", "int64")),
    close([1, 2, 3], [1, 2, 4], {"atol": 1}),
    close([9, 1, 7], [10, 1, 8], {"rtol": .125}),
    close([1], [1.00001], dtypes=("float32", "float64")),
    close([1], [1.00002]),
    close([NAN, INF, -INF], [NAN, INF, -INF]),
    close([NAN], [NAN], {"equal_nan": False}),
    close([INF], [INF], {"equal_nan": False}),
    close([NAN], [1]),
    close([INF], [1]),
    close([1, INF], [INF, -INF], oracle=False, why="everything is close to infinity in MXNet"),
    Sample("_contrib_allclose", {"a": (2, 3), "b": (2, 1)}, error="do not agree"),
]  # fmt: skip
