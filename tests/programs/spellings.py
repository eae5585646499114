"""Graphs with attributes in every spelling of files, for either package.

`mx` is nbmod in the tests and MXNet in the oracle's worker; this file imports neither.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

TUPLES = ("(3, 3)", "(3,3)", "[3, 3]", "(3L, 3L)", "( 3 , 3 )", "(3, 3,)", "3, 3", "3", "(3)",
          "(3,)", "[3]", "()", "[]", "", "None", "(None, 3)", "(3.0, 3)", "(3, 3", "[3, 3)",
          "((3, 3))", "(+3, 3)", "(-1, 3)", "(0, 3)", "(3 3)", "(3,,3)", "(a, 3)", "(3, 3, 3)",
          "(1, 2)", "(03, 3)", " (3, 3) ", "(3, 3)x", "(99999999999, 3)")  # fmt: skip
INTS = ("4", "4L", " 4", "4 ", "4.0", "+4", "04", "0x4", "-4", "0", "4e0", "None", "", "4_0",
        "99999999999", "four", "1")  # fmt: skip
BOOLS = ("True", "true", "TRUE", "1", "0", "False", "false", "FALSE", "yes", "2", "None", "", "T",
         " True", "1.0", "-1")  # fmt: skip
FLOATS = ("0.5", ".5", "5.", "1", "1e-3", "1E-3", "-0.5", "+0.5", "nan", "inf", "-inf", "0.5f",
          "None", "", " 0.5", "0.5 ", "1L", "0x1p-1", "1e99", "1e-99", "half", "0,5")  # fmt: skip
WORDS = ("relu", "Relu", "RELU", " relu", "relu ", "'relu'", "sigmoid", "", "None", "0")
OPTIONAL = ("None", "none", "1", "-1", "(1,)", "(0, 1)", "[0, 1]", "()", "", "5", "1L")

CONVOLUTION = {"kernel": "(3, 3)", "num_filter": "4"}
CASES = [
    ("Convolution", CONVOLUTION, "kernel", TUPLES),
    ("Convolution", CONVOLUTION, "stride", TUPLES),
    ("Convolution", CONVOLUTION, "pad", TUPLES),
    ("Convolution", CONVOLUTION, "num_filter", INTS),
    ("Convolution", CONVOLUTION, "no_bias", BOOLS),
    ("Convolution", CONVOLUTION, "num_group", INTS[:9] + INTS[10:]),  # MXNet divides by 0
    ("Convolution", CONVOLUTION, "workspace", INTS),
    ("Convolution", CONVOLUTION, "layout", ("None", "NCHW", "NHWC", "nchw", "", "NCDHW")),
    ("Convolution", CONVOLUTION, "cudnn_tune", ("None", "off", "fastest", "limited_workspace", "")),
    ("Pooling", {"kernel": "(2, 2)"}, "kernel", TUPLES),
    ("Pooling", {"kernel": "(2, 2)"}, "global_pool", BOOLS),
    ("Pooling", {"kernel": "(2, 2)"}, "pool_type", ("max", "avg", "sum", "lp", "Max", "")),
    ("FullyConnected", {"num_hidden": "4"}, "num_hidden", INTS),
    ("FullyConnected", {"num_hidden": "4"}, "flatten", BOOLS),
    ("Activation", {}, "act_type", WORDS),
    ("BatchNorm", {}, "eps", FLOATS),
    ("BatchNorm", {}, "fix_gamma", BOOLS),
    ("BatchNorm", {}, "axis", INTS),
    ("Dropout", {}, "p", FLOATS),
    ("LeakyReLU", {}, "slope", FLOATS),
    ("Reshape", {}, "shape", ("(0, -1)", "(-1, 0)", "[0,-1]", "(0L,-1L)", "-1", "(-1)",
                              "(0, 0, -2)", "(-3, -2)", "(0,-4,1,-1,-2)", "()", "", "None",
                              "(-1, -1)", "(7,)")),
    ("transpose", {}, "axes", ("()", "(0,2,3,1)", "[0, 2, 3, 1]", "(0,2)", "None", "",
                               "(0,1,2,-1)", "(0,1,1,2)")),
    ("sum", {}, "axis", OPTIONAL),
    ("mean", {}, "axis", OPTIONAL),
    ("argmax", {}, "axis", OPTIONAL),
    ("squeeze", {}, "axis", OPTIONAL),
    ("Concat", {"num_args": "1"}, "dim", INTS),
    ("slice_axis", {"axis": "1", "begin": "0"}, "end", (*OPTIONAL, "2", "-2", "0")),
    ("slice", {"end": "(2, 2)"}, "begin", ("(0, 0)", "(None, None)", "(None, 1)", "[0, 1]", "0",
                                           "(0,)", "()", "None", "(0, -2)", "(1L, 0L)")),
    ("clip", {"a_min": "0"}, "a_max", FLOATS),
    ("_mul_scalar", {}, "scalar", FLOATS),
    ("Cast", {}, "dtype", ("float32", "float16", "float64", "int32", "int64", "uint8", "int8",
                           "bool", "float", "double", "Float32", "0", "2", "None", "",
                           "<class 'numpy.float32'>")),
    ("_zeros", {}, "shape", TUPLES),
    ("_arange", {"start": "0"}, "stop", FLOATS),
    ("UpSampling", {"sample_type": "nearest", "num_args": "1"}, "scale", INTS),
    ("SliceChannel", {"axis": "1"}, "num_outputs", INTS),
    ("Pad", {"mode": "constant"}, "pad_width", ("(0,0,0,0,1,1,1,1)", "[0,0,0,0,1,1,1,1]",
                                                "(0,0,0,0,1,1)", "(1,1,0,0,1,1,1,1)", "()", "0")),
    ("_contrib_MultiBoxPrior", {}, "sizes", ("(0.5,)", "0.5", "(0.5, .25)", "[0.5,0.25]", "()",
                                             "(1,)", "(0.5,0.25", "None", "(1e-1,)")),
]  # fmt: skip

INPUTS = {"Convolution": 2, "FullyConnected": 2, "BatchNorm": 5, "_zeros": 0, "_arange": 0}
SHAPES = ((1, 6, 8, 8), (1, 6, 8))


def graph(op: str, attrs: dict[str, str]) -> str:
    """One node over as many variables as it has inputs."""
    count = INPUTS.get(op, 1)
    if op in ("Convolution", "FullyConnected") and attrs.get("no_bias", "") not in (
            "True", "true", "TRUE", "1"):
        count += 1
    nodes: list[dict[str, Any]] = [{"op": "null", "name": f"x{i}", "inputs": []}
                                   for i in range(count)]
    nodes.append({"op": op, "name": "op", "attrs": attrs,
                  "inputs": [[i, 0, 0] for i in range(count)]})
    return json.dumps({"nodes": nodes, "arg_nodes": list(range(count)), "heads": [[count, 0, 0]],
                       "attrs": {"mxnet_version": ["int", 10901]}})


def read(mx: Any, number: int) -> list[Any]:
    """For each spelling of a case: output shapes and types for 4 and 3 axes, or "refused"."""
    op, attrs, name, spellings = CASES[number]
    return [_facts(mx, op, {**attrs, name: spelling}) for spelling in spellings]


def _facts(mx: Any, op: str, attrs: dict[str, str]) -> Any:
    try:
        symbol = mx.sym.load_json(graph(op, attrs))
    except mx.MXNetError:
        return "refused"
    found = [_inferred(mx, symbol, shape) for shape in SHAPES]
    return "refused" if found == ["refused"] * len(SHAPES) else found


def _inferred(mx: Any, symbol: Any, shape: tuple[int, ...]) -> Any:
    known = {name: shape for name in symbol.list_arguments()[:1]}
    try:
        _, shapes, _ = symbol.infer_shape_partial(**known)
        _, types, _ = symbol.infer_type_partial(**dict.fromkeys(known, "float32"))
    except mx.MXNetError:
        return "refused"
    return [list(shape) for shape in shapes], [np.dtype(kind).name for kind in types]
