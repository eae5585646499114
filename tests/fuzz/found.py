"""Programs that were found to fail, minimized; each notes what was wrong."""

from __future__ import annotations

from tests.fuzz.program import Line, Program

FOUND: dict[str, Program] = {
    # A view between equal slices of two storages was wrongly elided.
    "a function of every step between two cells": Program(((8, 6, 16),), (
        Line("stacked", (0,), {"cells": (("lstm", 8), ("lstm", 8)), "steps": 6,
                               "between": ("double", "double"), "merge": True}),
    ), (1,)),
    "two directions at batch 1": Program(((1, 5, 8),), (
        Line("unroll", (0,), {"cell": ("two", ("tanh", 8), ("tanh", 8)), "layout": "NTC",
                              "steps": 5, "merge": True, "states": False}),
    ), (1,)),
    # Initial states of equal cells over batches of two sizes were merged: shapes were not compared.
    "cells over two batch sizes": Program(((3, 6, 4),), (
        Line("unroll", (0,), {"cell": ("relu", 4), "layout": "NTC", "steps": 6, "merge": True,
                              "states": False}),
        Line("unroll", (1,), {"cell": ("lstm", 4), "layout": "TNC", "steps": 3, "merge": False,
                              "states": False}, 3),
    ), (4,), request="null"),
    # An activation in place of a concatenation, whose inputs another step still read.
    "a join that is overwritten in place": Program(((1, 6, 1),), (
        Line("unroll", (0,), {"cell": ("two", ("tanh", 8), ("gru", 8)), "layout": "NTC",
                              "steps": 6, "merge": False, "states": False}, 6),
        Line("each", (2, 3, 4, 5, 6), {"op": "act_relu"}, 5),
        Line("concat", (10,), {"axis": -2}),
        Line("unroll_steps", (10, 11, 12), {"cell": ("tanh", 4), "layout": "NTC", "steps": 3,
                                            "merge": True, "states": True}, 2),
    ), (14,), request="null"),
    # A bias per channel was added to the pixels of a window as if they were channels.
    "a deconvolution to a single window": Program(((1, 4, 1, 1),), (
        Line("deconvolution", (0,), {"kernel": (2, 2), "stride": (1, 1), "num_filter": 3,
                                     "no_bias": False}),
    ), (1,)),
    # NumPy computed `where` of two literals in float64, so a chain was rounded late.
    "a minimum in a chain": Program(((24, 2), (3, 8), (24, 2)), (
        Line("transpose", (2,), {"axes": (0, 1)}),
        Line("extreme", (2,), {"op": "min", "axis": 1}),
        Line("binary", (4, 4), {"op": "maximum"}),
    ), (3, 1, 0, 5, 2)),
    # NumPy stores `where` of literals in bytes, whose tanh it rounds to float16.
    "signs in a chain": Program(((2, 1),), (
        Line("table", (0,), {"sample": "sign-0", "into": "data"}),
        Line("unary", (1,), {"op": "tanh"}),
    ), (2,), request="null"),
    # Recomputed nodes of a gradient that is not requested: a fused node without outputs.
    "mirrored nodes that nobody reads": Program(((3, 1), (3, 1)), (
        Line("each", (0, 1), {"op": "softsign"}, 2),
        Line("residual", (0,), {"num_hidden": 1, "op": "abs"}),
        Line("binary", (4, 2), {"op": "elemwise_mul"}),
    ), (5,), request="mixed", mirror=True),
    # A false alarm of NBMOD_CHECK=1: adjacent rows of a concatenation were not taken for the whole.
    "a join of one blocked tensor": Program(((2, 17, 8, 4),), (
        Line("convolution", (0,), {"kernel": (3, 3), "pad": (1, 1), "dilate": (2, 2),
                                   "stride": (1, 2), "num_filter": 32, "no_bias": True}),
        Line("concat", (1,), {"axis": 1}),
    ), (2,), request="null"),
    # A false alarm of the judge: the gradient cancels to zero except for rounding of its terms.
    "a gradient that cancels": Program(((4, 5, 1, 4),), (
        Line("tile", (0,), {"reps": (1, 2, 2, 2)}),
        Line("split", (1,), {"axis": 2, "num_outputs": 2, "squeeze_axis": True}, 2),
        Line("reshape", (2,), {"shape": (-1, 0), "reverse": True}),
        Line("binary", (3, 2), {"op": "elemwise_sub"}),
    ), (5,)),
    # A false alarm of the judge: head gradients of float16 are rounded, those of float64 were not.
    "heads of another type": Program(((4, 5, 1), (4, 5, 1), (4, 1, 5), (4, 5, 1)), (
        Line("dense", (0,), {"num_hidden": 1, "no_bias": False, "flatten": False, "act": None}),
    ), (2, 1, 4, 3)),
    # A false alarm of the judge: the gradient is zero, and float64 leaves 1e-14 of its terms.
    "a layer norm of equal elements": Program(((1, 1, 1, 5),), (
        Line("repeat", (0,), {"axis": 2}),
        Line("stack", (1, 1, 1, 1), {"axis": 4}),
        Line("slice", (2,), {"axis": 3, "begin": 2, "end": 5}),
        Line("softmax", (3,), {"axis": 2, "op": "softmax"}),
        Line("chain", (4,), {"ops": ("clip", "identity", "abs", "rminus")}),
        Line("layer_norm", (5,), {}),
    ), (6,)),
    # A dropout in place of a concatenation overwrote a label that was a view of one of its inputs.
    "a view of a piece that is overwritten": Program(((2,), (6, 1), (2,)), (
        Line("binary", (0, 0), {"op": "minimum"}),
        Line("regression", (0, 3), {"op": "elemwise_sub"}),
        Line("concat", (3, 0, 0), {"axis": -1}),
        Line("dropout", (5,), {"p": 0.0}),
        Line("empty", (6,), {"axis": 0}),
        Line("regression", (7, 6), {"op": "minimum"}),
    ), (4, 2, 8, 1)),
    # A false alarm of the judge: NaN times the zeros of a padding.
    "the norm of a difference that is zero": Program(((4, 8, 1, 4),), (
        Line("inverted", (0,), {"wide": 8, "out": 8, "stride": 1, "norm": True}),
        Line("binary", (1, 1), {"op": "elemwise_sub"}),
        Line("reduce", (2,), {"op": "norm", "axis": 1, "keepdims": True}),
    ), (3,)),
    # A false alarm of the judge: probabilities sum to one, times 1.5, except for their rounding.
    "the mean of probabilities is rounded": Program(((4, 2),), (
        Line("softmax_output", (0,), {}),
        Line("transpose", (1,), {"axes": (1, 0)}),
        Line("reduce", (2,), {"op": "mean", "axis": 0, "keepdims": False}),
        Line("rough", (3,), {"op": "round"}),
    ), (4,), request="null"),
    # A false alarm of the judge: finite differences at the kink of elu.
    "elu of zero": Program(((1,),), (
        Line("table", (0,), {"sample": "_minimum-0", "into": "rhs"}),
        Line("split_join", (1,), {"axis": 0, "num_outputs": 3, "squeeze_axis": False,
                                  "order": (0, 2, 1), "ops": ("elu", "square", "elu")}),
    ), (2,)),
    # A false alarm of the judge: Winograd's rounding moved a sum across the kink of leaky relu.
    "a layer with a kink": Program(((16, 16, 36, 36),), (
        Line("block", (0,), {"filters": 16, "norm": True, "op": "leaky", "kernel": 3,
                             "depthwise": False, "shortcut": True}),
    ), (1,)),
    # NumPy went on in float32 after a cast to float64 at the begin of a chain.
    "a chain that begins with a cast": Program(((4, 1, 8, 1),), (
        Line("typed", (0,), {"dtypes": ("float64", "float64"), "scale": 3, "op": "square"}),
    ), (1,), request="null"),
    "a chain that begins with a cast of integers": Program(((1,),), (
        Line("typed", (0,), {"dtypes": ("int8",), "scale": 1, "op": "double"}),
        Line("unary", (1,), {"op": "softrelu"}),
    ), (2,), request="null"),
    # A false alarm of NBMOD_CHECK=3: what a chain makes of integers was taken for integers.
    "gradients of integers in a chain": Program(((1, 8, 7),), (
        Line("typed", (0,), {"dtypes": ("float32", "int8"), "scale": 1, "op": "itself"}),
    ), (1,)),
    # A false alarm of NBMOD_CHECK=3: an op from elsewhere, whose formula is fused, was unknown.
    "a formula from elsewhere in a chain": Program(((2, 2, 2),), (
        Line("table", (0,), {"sample": "_contrib_BroadcastScale-2", "into": "data"}),
    ), (1,), request="null"),
    # NumPy went on in int8 after a cast to float32 in a chain whose result is float16.
    "a chain of integers that is written as float16": Program(((2, 180),), (
        Line("typed", (0,), {"dtypes": ("int8", "float32"), "scale": 3, "op": "itself"}),
    ), (1,), request="null"),
}
