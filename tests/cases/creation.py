"""Constants and ranges."""

from __future__ import annotations

import math

from tests.cases import Sample, integers

ONE = ("float32",)
NUMBERS = ("float32", "float64", "float16", "int32", "int64", "int8", "uint8")


def made(op: str, attrs: dict, **more) -> Sample:
    """An op without inputs: the type under test is its `dtype`."""
    return Sample(op, {}, attrs, dtypes=ONE, **more)


SAMPLES = [
    *(made(op, {"shape": (2, 3), "dtype": dtype}) for op in ("_zeros", "_ones")
      for dtype in (*NUMBERS, "bool")),
    made("_zeros", {"shape": (3,)}),
    made("_ones", {"shape": 4}),
    *(made("_zeros_without_dtype", {"shape": (2,), "dtype": flag}, oracle=False,
           why="in MXNet only graphs that it makes itself have it") for flag in (0, 4)),
    made("_zeros", {"shape": (2, -3)}, error="no negative sizes"),
    made("_zeros", {"shape": (2,), "dtype": "bfloat16"}, error="does not support"),
    made("_zeros", {"shape": (2 ** 33, 2 ** 33)}, error="more elements"),
    *(made("_full", {"shape": (2, 3), "value": value, "dtype": dtype}) for value, dtype in (
        (3.5, "float32"), (3.7, "int32"), (-3.7, "uint8"), (300, "uint8"), (-1.5, "float16"),
        (3, "bool"), (math.inf, "float64"))),
    made("_full", {"shape": (2,)}, error="required parameter value"),
    *(made("_arange", attrs) for attrs in (
        {"start": 0, "stop": 5}, {"start": 5}, {"start": 0, "stop": 5, "step": 2},
        {"start": 5, "stop": 0, "step": -2},
        {"start": 0, "stop": 1, "step": 0.1}, {"start": 0, "stop": 0.3, "step": 0.1},
        {"start": 0, "stop": 0.7, "step": 0.1},
        {"start": 1, "stop": 4, "repeat": 2, "dtype": "int32"},
        {"start": 0.5, "stop": 4, "dtype": "int32"},
        {"start": 0, "stop": 3, "step": 0.5, "dtype": "int32"},
        {"start": 0, "stop": 1, "step": 0.1, "dtype": "float64"},
        {"start": 5, "dtype": "float16"}, {"start": -3, "stop": 4, "dtype": "int8"},
        {"start": 250, "stop": 260, "dtype": "uint8"})),
    made("_arange", {"start": 3, "stop": 4}, note="one"),
    made("_arange", {"start": 0, "stop": 200000, "step": 1.5}, note="large"),
    made("_arange", {"start": 0, "stop": 2, "step": 0.75, "dtype": "float16"}, oracle=False,
         why="MXNet cuts the step to 0"),
    made("_arange", {"start": 0, "stop": 5, "step": -2}, error="no values from 0.0 to 5.0"),
    made("_arange", {"start": 0, "stop": 0}, error="no values"),
    made("_arange", {"start": 0, "stop": math.inf}, error="no values"),
    made("_arange", {"start": 0, "stop": 5, "step": 0}, error="step is 0.0"),
    made("_arange", {"stop": 5}, error="required parameter start"),
    *(made("_linspace", attrs) for attrs in (
        {"start": 0, "stop": 1, "num": 4}, {"start": 0, "stop": 1, "num": 1},
        {"start": 0, "stop": 10, "num": 4, "dtype": "int32"},
        {"start": 0, "stop": 10, "num": 4, "endpoint": False, "dtype": "float16"},
        {"start": 5, "stop": -5, "num": 11})),
    made("_linspace", {"start": 0, "stop": 1, "num": 0}, error="num is 0"),
    *(made("_eye", attrs) for attrs in (
        {"N": 3}, {"N": 3, "M": 4, "k": 1}, {"N": 4, "M": 3, "k": -2}, {"N": 2, "k": 5},
        {"N": 2, "k": -5}, {"N": 3, "k": 1, "dtype": "int32"})),
    made("_eye", {"N": 0}, error="N is 0"),
    *(Sample("_contrib_arange_like", {"data": (2, 4)}, attrs, grad=()) for attrs in (
        {}, {"axis": 1}, {"axis": -1, "start": 1, "step": 2}, {"repeat": 2},
        {"axis": 1, "repeat": 2})),
    Sample("_contrib_arange_like", {"data": integers(0, 9, (2, 3))}, {"axis": 1},
           dtypes=("int32",)),
    Sample("_contrib_arange_like", {"data": (2, 3)}, {"axis": 2}, error="axis is 2"),
]  # fmt: skip
