"""Slicing, splitting and concatenating tensors."""

from __future__ import annotations

from tests.cases import FLOATS, Sample, integers

ALL = (*FLOATS, "int32", "int64", "uint8")
X = {"data": (4, 3, 5)}
PAIR = ((2, 3), (2, 4))
IMAGE = (1, 2, 5, 6)
# MXNet treats an input of unknown rank as one of size 0 along the axis.
PARTIAL = {"inference": False, "why": "MXNet infers the size of the known inputs alone"}
NO_GRADIENT = "MXNet has no gradient here"

SLICES = [
    ((0, 1), (1, 3)), ((None, 1), (None, 3)), ((-1, -2), (None, None)), ((0,), (9,)),
    ((1, 0, 2), (3, 1, 5)), ((3, None), (0, None), (-2, -1)), ((0, 0), (4, 3), (None, 2)),
    ((None, 9), (None, 0), (1, -1)), ((None, None, None), (None, None, None), (-1, -1, -3)),
]  # fmt: skip

CROPS = [
    ((IMAGE,), {"num_args": 1, "h_w": (2, 3)}),
    ((IMAGE,), {"num_args": 1, "h_w": (2, 3), "offset": (3, 1)}),
    ((IMAGE,), {"num_args": 1, "h_w": (2, 3), "offset": (3, 1), "center_crop": True}),
    ((IMAGE, (3, 4, 2, 3)), {"num_args": 2}),
    ((IMAGE, (3, 4, 2, 3)), {"offset": (1, 2), "num_args": 2}),
    ((IMAGE, (3, 4, 4, 4)), {"center_crop": True, "num_args": 2}),
]  # fmt: skip

SAMPLES = [
    *(Sample("slice", X, dict(zip(("begin", "end", "step"), part, strict=False)))
      for part in SLICES),
    Sample("slice", X, {"begin": (1,), "end": (3,)}, dtypes=ALL),
    Sample("crop", X, {"begin": (0, 1), "end": (2, 2)}),
    Sample("slice", X, {"begin": (0, 0), "end": (2,)}, error="differ in length"),
    Sample("slice", X, {"begin": (0,), "end": (2,), "step": (0,)}, error="expected no 0"),
    Sample("slice", {"data": (3,)}, {"begin": (0, 0), "end": (1, 1)}, error="expected 1 to 1 axes"),
    Sample("slice", X, {"begin": (2,), "end": (2,)}, error="select nothing along axis 0"),
    *(Sample("slice_axis", X, {"axis": a, "begin": b, "end": e}) for a, b,
      e in ((1, 0, 2), (-1, -2, None), (0, 1, -1), (2, 4, 5))),
    Sample("slice_axis", X, {"axis": 0, "begin": 1, "end": None}, dtypes=ALL),
    *(Sample("slice_axis", X, {"axis": 1, "begin": b, "end": e},
             error="expected a range within the 3 indices") for b,
        e in ((0, 5), (-5, 2), (2, 2), (0, -3), (3, None))),
    Sample("slice_axis", X, {"axis": 3, "begin": 0, "end": 1}, error="axis is 3"),
    Sample("slice_like", {"data": (3, 4), "shape_like": (2, 3)}, grad=("data", "shape_like")),
    Sample("slice_like", {"data": (3, 4), "shape_like": (2, 3, 4)}, {"axes": (1,)}),
    Sample("slice_like", {"data": (3, 4), "shape_like": (2, 3, 4)}, {"axes": (-1,)}),
    Sample("slice_like", {"data": (3, 4, 5), "shape_like": (3, 4)}, {"axes": (-1,)},
           error="axes is 2"),
    Sample("slice_like", {"data": (3, 4), "shape_like": integers(0, 2, (2,), "int32")},
           {"axes": (0,)}),
    Sample("slice_like", {"data": (3, 4), "shape_like": (2, 3, 4)}, error="differ in rank"),
    Sample("slice_like", {"data": (3, 4), "shape_like": (5, 4)}, error="smaller along axis 0"),
    *(Sample("Crop", inputs, attrs, mx_dtypes=("float32",), why="MXNet has it in float32 only")
      for inputs, attrs in CROPS),
    Sample("Crop", (IMAGE,), {"num_args": 1, "h_w": (6, 3)},
           error="a window of 6 at 0 does not fit axis 2"),
    Sample("Crop", (IMAGE,), {"num_args": 1, "h_w": (2, 3), "offset": (0, 4)},
           error="does not fit axis 3"),
    Sample("Crop", (IMAGE,), {"num_args": 1}, error="two sizes of at least 1"),
    Sample("Crop", ((2, 5, 6),), {"num_args": 1, "h_w": (2, 3)}, error="expected .N, C, H, W."),
    Sample("_slice_assign", {"lhs": (4, 3), "rhs": (1, 2)}, {"begin": (0, 1), "end": (1, 3)},
           grad=(), dtypes=ALL),
    Sample("_slice_assign", {"lhs": (4, 3), "rhs": (2, 3)}, {"begin": (3, None), "end": (0, None),
                                                             "step": (-2, -1)}, oracle=False,
        why=NO_GRADIENT),
    Sample("_slice_assign", {"lhs": (4, 3), "rhs": (2, 2)}, {"begin": (0, 1), "end": (1, 3)},
           error="rhs"),
    Sample("_slice_assign_scalar", {"data": (4, 3)}, {"scalar": 9.7, "begin": (0, 1),
                                                      "end": (1, 3)}, grad=(), dtypes=ALL),
    Sample("_slice_assign_scalar", {"data": (4, 3)}, {"begin": (3, None), "end": (None, 1),
                                                      "step": (-2, 1)}, oracle=False,
        why=NO_GRADIENT),
    Sample("Concat", PAIR, {"num_args": 2}, dtypes=ALL, **PARTIAL),
    Sample("concat", PAIR, {"num_args": 2, "dim": -1}, **PARTIAL),
    Sample("Concat", ((2, 3), (1, 3), (4, 3)), {"num_args": 3, "dim": 0}, **PARTIAL),
    Sample("Concat", ((2, 1, 3), (2, 2, 3)), {"num_args": 2, "dim": -2}, **PARTIAL),
    Sample("Concat", ((5, 4),), {"num_args": 1}),
    Sample("Concat", ((3,), (1,)), {"num_args": 2, "dim": 0}, **PARTIAL),
    Sample("Concat", ((2, 3), (2, 3)), {"num_args": 2, "dim": 2}, error="dim is 2"),
    Sample("Concat", ((2, 3), (3, 4)), {"num_args": 2}, error="arg1"),
    Sample("Concat", ((2, 3), (2, 3, 4)), {"num_args": 2}, error="arg1"),
    Sample("_rnn_param_concat", ((15,), (12,)), {"num_args": 2, "dim": 0}, **PARTIAL),
    Sample("stack", ((2, 3), (2, 3), (2, 3)), {"num_args": 3}, dtypes=ALL),
    *(Sample("stack", ((2, 3), (2, 3)), {"num_args": 2, "axis": axis}) for axis in (1, 2, -1, -3)),
    Sample("stack", ((2, 3), (3, 3)), {"num_args": 2}, error="do not agree"),
    Sample("stack", ((2, 3), (2, 3)), {"num_args": 2, "axis": 3}, error="axis is 3"),
    Sample("SliceChannel", X, {"num_outputs": 3}, dtypes=ALL),
    Sample("split", X, {"num_outputs": 2, "axis": 0}),
    Sample("SliceChannel", X, {"num_outputs": 5, "axis": -1, "squeeze_axis": True}),
    Sample("SliceChannel", X, {"num_outputs": 3, "squeeze_axis": 1}, outputs=(1,),
           note="one output used"),
    Sample("SliceChannel", {"data": (2, 1)}, {"num_outputs": 1}),
    Sample("SliceChannel", X, {"num_outputs": 2},
           error="axis 1 has size 3, which num_outputs 2 does not divide"),
    Sample("SliceChannel", X, {"num_outputs": 2, "axis": 0, "squeeze_axis": True},
           error="squeeze_axis needs"),
    Sample("SliceChannel", X, {"num_outputs": 2, "axis": 3}, error="axis is 3"),
    Sample("_split_v2", X, {"indices": (0, 2, 3), "axis": 2}),
    Sample("_split_v2", X, {"indices": (0, 1), "axis": -2}, dtypes=ALL),
    Sample("_split_v2", X, {"indices": (0,), "sections": 3, "axis": 2}),
    Sample("_split_v2", X, {"indices": (), "sections": 3, "axis": 1, "squeeze_axis": True}),
    Sample("_split_v2", X, {"indices": (0, 4)}, error="cannot be cut"),
    Sample("_split_v2", X, {"indices": (0, 2, 1)}, error="cannot be cut"),
    Sample("_split_v2", X, {"indices": (1, 2)}, error="cannot be cut"),
]  # fmt: skip
