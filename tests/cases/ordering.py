"""Sorting. Equal elements and NaN have no order in MXNet: samples with them are nbmod's own."""

from __future__ import annotations

from tests.cases import Sample, array, distinct

X = {"data": distinct((3, 4, 5))}
TYPES = ("float32", "float64", "float16", "int32", "uint8", "int8", "int64")
KINDS = ("indices", "value", "both", "mask")
AXES = (-1, 0, 1, -2, None)
TIES = {"data": array([[3, 1, 2, 1], [5, 5, 0, 5]])}
NAN = {"data": array([[float("nan"), 1, float("inf"), float("-inf"), -0.0, float("nan"), 0.0]])}
# Backward of sort without axis in its attributes ends in an error in MXNet.
BORN_BROKEN = {"grad": ()}
LONG = {"dtypes": ("float32", "float64")}  # numbers of float16 would be equal

SAMPLES = [
    *(Sample("topk", X, {"k": 2, "ret_typ": kind, "axis": axis}) for kind in KINDS
      for axis in AXES),
    *(Sample("topk", X, {"k": k, "ret_typ": "both", "is_ascend": ascend})
      for k in (-1, 0, 1, 5) for ascend in (False, True)),
    *(Sample("topk", X, {"ret_typ": kind}, dtypes=TYPES) for kind in KINDS),
    *(Sample("topk", X, {"k": 3, "dtype": dtype}, dtypes=("float32",))
      for dtype in ("float16", "float64", "int32", "int64", "uint8")),
    Sample("topk", X, {"k": 2, "ret_typ": "both", "dtype": "int32"}, dtypes=("float32",)),
    Sample("topk", {"data": (1,)}),
    Sample("topk", TIES, {"k": 3, "ret_typ": "both"}, ("data",)),
    Sample("topk", TIES, {"k": 3, "ret_typ": "mask", "is_ascend": True}),
    Sample("topk", {"data": distinct((300,))}, {"k": 2, "dtype": "uint8"}, note="wraps"),
    Sample("topk", {"data": distinct((7, 999))}, {"k": 5, "ret_typ": "both"}, note="heap",
           **LONG),
    Sample("topk", {"data": distinct((7, 999))}, {"k": 600, "ret_typ": "both", "is_ascend": True},
           note="digits", **LONG),
    Sample("topk", {"data": distinct((999, 7))}, {"k": 50, "ret_typ": "value", "axis": 0},
           note="digits", **LONG),
    Sample("topk", NAN, {"k": 5, "ret_typ": "both"}, (), oracle=False, why="NaN comes last"),
    Sample("topk", X, {"k": 6}, error="k is 6, expected at most the 5"),
    Sample("topk", X, {"axis": 3}, error="axis is 3"),
    Sample("topk", X, {"dtype": "int8"}, error="parameter dtype"),
    *(Sample("sort", X, {"axis": axis, "is_ascend": ascend}) for axis in AXES
      for ascend in (False, True)),
    Sample("sort", X, dtypes=TYPES, **BORN_BROKEN),
    Sample("sort", {"data": (1,)}, **BORN_BROKEN),
    Sample("sort", {"data": (50, 99)}, {"axis": 1}, (), dtypes=TYPES, note="digits"),
    Sample("sort", {"data": distinct((300, 20))}, {"axis": 1, "is_ascend": False},
           note="insertion", **LONG),
    Sample("sort", NAN, {"is_ascend": False}, (), oracle=False, why="NaN comes last"),
    Sample("sort", X, {"axis": -4}, error="axis is -4"),
    *(Sample("argsort", X, {"axis": axis, "is_ascend": ascend}) for axis in AXES
      for ascend in (False, True)),
    Sample("argsort", X, dtypes=TYPES),
    *(Sample("argsort", X, {"dtype": dtype}, dtypes=("float32",))
      for dtype in ("float16", "float64", "int32", "int64", "uint8")),
    Sample("argsort", {"data": (1,)}),
    Sample("argsort", TIES, {"is_ascend": False, "axis": 1}),
    Sample("argsort", {"data": distinct((5000,))}, {"is_ascend": False, "dtype": "int32"},
           note="digits", **LONG),
    Sample("argsort", NAN, {}, (), oracle=False, why="NaN comes last"),
]  # fmt: skip
