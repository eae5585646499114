"""Histograms."""

from __future__ import annotations

from typing import Any

from tests.cases import FLOATS, Sample, array, normal

NUMBERS = array([0, 1, 1.5, 2, 3, -1, 9, 2])


def histogram(data: Any, attrs: dict | None = None, **options: Any) -> Sample:
    inputs = {"data": data, **({"bins": options.pop("bins")} if "bins" in options else {})}
    options = {"dtypes": ("float32", "float64", "int32", "int64"), **options}
    return Sample("_histogram", inputs, attrs or {}, grad=(), **options)


SAMPLES = [
    histogram(NUMBERS, {"bin_cnt": 3, "range": (0, 3)}),
    histogram(normal((5, 7, 3)), {"bin_cnt": 10, "range": (-2, 2)}, dtypes=FLOATS[:2]),
    histogram(normal((5, 7, 3)), {"bin_cnt": 10, "range": (-2, 2)}, dtypes=("int32",),
              oracle=False, why="MXNet compares integers with edges cut off to integers"),
    histogram((1,), {"bin_cnt": 1, "range": (-9, 9)}),
    histogram(NUMBERS, bins=array([0, 1, 2, 3])),
    histogram(normal((5, 7)), bins=array([-1, 0, 3]), dtypes=FLOATS[:2]),
    histogram(NUMBERS, {"bin_cnt": 3}, error="both bin_cnt and range"),
    histogram(NUMBERS, {"bin_cnt": 0, "range": (0, 1)}, error="bin_cnt is 0"),
    histogram(NUMBERS, {"bin_cnt": 3, "range": (1, 0)}, error="from < to"),
    histogram(NUMBERS, bins=array([[0, 1]]), error="bins has shape"),
]  # fmt: skip
