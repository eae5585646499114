"""Permutation, repetition and padding."""

from __future__ import annotations

import math

from tests.cases import FLOATS, Sample

ALL = (*FLOATS, "int32", "int64", "uint8")
X = {"data": (2, 3, 4)}
IMAGE = {"data": (1, 2, 3, 4)}
BORDER = (0, 0, 0, 0, 1, 2, 2, 1)
WIDER = "MXNet pads 4-D and 5-D floating tensors only, and not their first two axes"

SAMPLES = [
    Sample("transpose", X, dtypes=ALL),
    Sample("transpose", X, {"axes": (1, 0, 2)}, dtypes=ALL),
    Sample("transpose", X, {"axes": (2, 0, 1)}),
    Sample("transpose", {"data": (5,)}),
    Sample("transpose", {"data": (1, 2, 1, 3, 2, 2)}, {"axes": (3, 5, 0, 4, 1, 2)}),
    Sample("transpose", {"data": (70, 3, 45, 41)}, {"axes": (0, 3, 1, 2)},
           dtypes=("float32", "float16"), note="in tiles"),
    Sample("transpose", {"data": (300, 301)}, dtypes=("float32", "float64", "uint8"),
           mx_dtypes=("float32",), why="once is enough", note="in tiles"),
    Sample("transpose", {"data": (2, 1, 2, 1, 2, 1, 3)}, oracle=False, why="MXNet stops at 6 axes"),
    Sample("transpose", X, {"axes": (1, -1, 0)}, oracle=False, why="MXNet takes no negative axes"),
    Sample("transpose", X, {"axes": (1, 0)}, error="expected a permutation of 3 axes"),
    Sample("transpose", X, {"axes": (1, 0, 0)}, error="names a dimension twice"),
    Sample("transpose", X, {"axes": (1, 0, 3)}, error="axes is 3"),
    Sample("SwapAxis", X, {"dim1": 0, "dim2": 2}, dtypes=ALL),
    Sample("swapaxes", X, {"dim1": 1, "dim2": -1}),
    Sample("SwapAxis", X),
    Sample("SwapAxis", X, {"dim1": 0, "dim2": 3}, error="dim2 is 3"),
    Sample("reverse", X, {"axis": 1}, dtypes=ALL),
    Sample("flip", X, {"axis": (0, 2)}),
    Sample("reverse", X, {"axis": ()}),
    Sample("reverse", X, {"axis": -1}, oracle=False, why="MXNet takes no negative axes"),
    Sample("reverse", X, {"axis": 3}, error="axis is 3"),
    Sample("depth_to_space", {"data": (2, 8, 3, 2)}, {"block_size": 2}, dtypes=ALL),
    Sample("depth_to_space", {"data": (1, 18, 1, 2)}, {"block_size": 3}),
    Sample("depth_to_space", {"data": (1, 6, 2, 2)}, {"block_size": 2}, error="does not fit"),
    Sample("depth_to_space", {"data": (8, 2, 2)}, {"block_size": 2}, error="expected .N, C, H, W."),
    Sample("space_to_depth", {"data": (2, 3, 4, 6)}, {"block_size": 2}, dtypes=ALL),
    Sample("space_to_depth", {"data": (1, 2, 3, 3)}, {"block_size": 3}),
    Sample("space_to_depth", {"data": (1, 2, 4, 5)}, {"block_size": 2}, error="does not fit"),
    *(Sample("tile", {"data": (2, 3)}, {"reps": reps}) for reps in (2, (2, 3), (2, 1, 2), (),
                                                                    (1,))),
    Sample("tile", {"data": (3,)}, {"reps": (2, 2)}, dtypes=(*ALL, "bool")),
    Sample("tile", {"data": (2, 3)}, {"reps": (0, 1)}, error="expected positive"),
    Sample("tile", {"data": (4, 4)}, {"reps": (2 ** 40, 2 ** 40)}, error="more elements"),
    *(Sample("repeat", X, {"repeats": 3, "axis": axis}) for axis in (None, 0, 1, -1)),
    Sample("repeat", {"data": (3,)}, {"repeats": 2}, dtypes=ALL),
    Sample("repeat", X, {"repeats": 1, "axis": 1}),
    Sample("repeat", X, {"repeats": 0, "axis": 1}, error="expected at least 1"),
    Sample("repeat", X, {"repeats": 2, "axis": 3}, error="axis is 3"),
    *(Sample("Pad", IMAGE, {"mode": mode, "pad_width": BORDER})
      for mode in ("constant", "edge", "reflect")),
    Sample("pad", IMAGE, {"mode": "constant", "pad_width": BORDER, "constant_value": -math.inf},
           grad=()),
    Sample("Pad", IMAGE, {"mode": "constant", "pad_width": (0,) * 8, "constant_value": 7}),
    Sample("Pad", IMAGE, {"mode": "reflect", "pad_width": (0, 0, 0, 0, 2, 2, 3, 3)}),
    *(Sample("Pad", {"data": (2, 1, 2, 3, 4)},
             {"mode": mode, "pad_width": (0, 0, 0, 0, 1, 0, 0, 2, 1, 1)})
        for mode in ("constant", "edge", "reflect")),
    Sample("Pad", {"data": (2, 3)}, {"mode": "edge", "pad_width": (1, 2, 0, 1)}, oracle=False,
           why=WIDER),
    Sample("Pad", IMAGE, {"mode": "constant", "pad_width": BORDER, "constant_value": 3},
           dtypes=("int32", "uint8"), oracle=False, why=WIDER),
    Sample("Pad", IMAGE, {"mode": "reflect", "pad_width": (0, 0, 0, 0, 3, 0, 0, 0)},
           error="too wide to reflect 3"),
    Sample("Pad", IMAGE, {"mode": "edge", "pad_width": (0, 0, 1, 1)},
           error="for each of the 4 axes"),
    Sample("Pad", IMAGE, {"mode": "wrap", "pad_width": BORDER},
           error="one of 'constant', 'edge', 'reflect'"),
    *(Sample("diag", {"data": (3, 4)}, {"k": k}) for k in (0, 2, -1)),
    *(Sample("diag", {"data": (3,)}, {"k": k}) for k in (0, 1, -2)),
    Sample("diag", {"data": (3, 4, 5)}, {"k": 1, "axis1": 0, "axis2": 2}, dtypes=ALL),
    Sample("diag", {"data": (3, 4, 5)}, {"k": 1, "axis1": -1, "axis2": -2}),
    Sample("diag", {"data": (3, 4)}, {"k": 4}, error="has no diagonal 4"),
    Sample("diag", {"data": (3, 4, 5)}, {"axis1": 1, "axis2": 1}, error="names a dimension twice"),
]  # fmt: skip
