"""Reshaping: same elements, same order, another shape."""

from __future__ import annotations

from tests.cases import FLOATS, Sample

ALL = (*FLOATS, "int32", "int64", "uint8", "bool")
X = {"data": (2, 3, 4)}
Y = {"data": (2, 3, 4, 5)}

CODES = [
    (0, -1), (4, 0, 2), (2, 0, 0), (6, 1, -1), (-2,), (2, -2), (-2, 1, 1), (-3, 4), (0, -3),
    (-3, -2), (-4, 1, 2, -2), (2, -4, -1, 3, -2), (-1,), (24,), (1, 24, 1), (-4, 2, -1, 12),
]  # fmt: skip

SAMPLES = [
    *(Sample("Reshape", X, {"shape": codes}) for codes in CODES),
    Sample("reshape", X, {"shape": (-1, 0)}, dtypes=ALL),
    Sample("Reshape", X, {"shape": (-1, 0), "reverse": True}),
    Sample("Reshape", Y, {"shape": (-3, -3)}),
    Sample("Reshape", Y, {"shape": (-3, 0), "reverse": True}, error="reshaped"),
    Sample("Reshape", Y, {"shape": (-1, 0, 0), "reverse": 1}),
    Sample("Reshape", Y, {"shape": (-2, 0), "reverse": 1}),
    *(Sample("Reshape", Y, {"shape": (-2, *pair, -4, 0), "reverse": 1})
      for pair in ((1, 4), (-1, 4), (4, -1), (2, 2))),
    Sample("Reshape", X, {"shape": (-4, 2, 1, -1)}, oracle=False,
           why="MXNet infers 1 here, and crashes"),
    Sample("Reshape", X, {"target_shape": (0, 6)}),
    Sample("Reshape", X, {"target_shape": (2, 0)}),
    Sample("Reshape", X, {"target_shape": (0, 12), "keep_highest": True}),
    Sample("Reshape", X, {"target_shape": (5, 0), "keep_highest": True}),
    Sample("Reshape", X, {"target_shape": (0, 6), "shape": (2, 12)}),
    Sample("Reshape", {"data": (1,)}, {"shape": (1, 1, 1)}),
    Sample("Reshape", X, {}, error="shape is not given"),
    Sample("Reshape", X, {"shape": (7,)},
           error=r"24 element\(s\), which cannot be reshaped to \(7,\)"),
    Sample("Reshape", X, {"shape": (-1, 7)}, error=r"24 element\(s\) cannot have shape \(\?, 7\)"),
    Sample("Reshape", X, {"shape": (-1, -1)}, error="more than one dimension to be inferred"),
    Sample("Reshape", X, {"shape": (-5,)}, error="contains -5"),
    Sample("Reshape", X, {"shape": (0, 0, 0, 0)}, error="data has 0 dimension"),
    Sample("Reshape", X, {"shape": (0, 0, -3)}, error="data has 1 dimension.* expected 2"),
    Sample("Reshape", X, {"shape": (-4, 1)}, error="must be followed by two sizes"),
    Sample("Reshape", X, {"shape": (-4, -1, -1, 0, 0)}, error="must be followed by two sizes"),
    Sample("Reshape", X, {"shape": (0, -4, 2, 2, 0)}, error="cannot split 3 into 2 x 2"),
    Sample("Flatten", X, dtypes=ALL),
    Sample("Flatten", {"data": (3,)}),
    Sample("flatten", {"data": (1, 5)}),
    *(Sample("expand_dims", X, {"axis": axis}) for axis in (0, 1, 3, -1, -4)),
    Sample("expand_dims", {"data": (3,)}, {"axis": 0}, dtypes=ALL),
    Sample("expand_dims", X, {"axis": 4}, error=r"axis is 4, expected a value in \[-4, 4\)"),
    *(Sample("squeeze", {"data": (2, 1, 3, 1)}, {"axis": axis}) for axis in (None, (), 1, (1, -1))),
    Sample("squeeze", {"data": (1, 1)}),
    Sample("squeeze", {"data": (1, 1)}, {"axis": (0, 1)}, dtypes=ALL),
    Sample("squeeze", {"data": (2, 1)}, {"axis": 0}, error="axis 0 of data .* has size 2"),
    Sample("squeeze", {"data": (2, 1)}, {"axis": 2}, error="axis is 2"),
    Sample("reshape_like", {"lhs": (2, 3), "rhs": (3, 2)}, grad=("lhs", "rhs")),
    Sample("reshape_like", {"lhs": (30, 7), "rhs": (15, 2, 4)},
           {"lhs_begin": 0, "lhs_end": 1, "rhs_begin": None, "rhs_end": 2}),
    Sample("reshape_like", {"lhs": (30, 7), "rhs": (15, 2, 4)},
           {"lhs_begin": -2, "lhs_end": -1, "rhs_begin": -3, "rhs_end": -1}),
    Sample("reshape_like", {"lhs": (2, 12), "rhs": (5, 3, 4)}, {"lhs_begin": 1, "rhs_begin": 1}),
    Sample("reshape_like", {"lhs": (2, 3), "rhs": (3, 3)}, error="cannot be reshaped"),
    Sample("reshape_like", {"lhs": (2, 3), "rhs": (3, 2)}, {"lhs_begin": 1, "lhs_end": 5},
           error="lhs_end is 5"),
    Sample("shape_array", X, grad=("data",), dtypes=("float32", "int32")),
    Sample("shape_array", {"data": (7,)}, grad=()),
    Sample("size_array", X, grad=("data",), dtypes=("float32", "int32")),
]  # fmt: skip
