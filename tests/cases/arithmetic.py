"""Elementwise ops with parameters or operands of their own, identities and conversions."""

from __future__ import annotations

import math

from tests.cases import FLOATS, Sample, array, integers, normal

X = {"data": (3, 7)}
NAN, INF = math.nan, math.inf
ONE_SIDED = ("float32", "float16")
BOUNDS = array([-2, -1, -0.5, 0, 1, 1.5])
WIDE = array([-300.7, -1.5, -0.5, 0, 0.7, 1.5, 255.9, 256.5, 300])
ONE_DNN = {"oracle": False, "why": "its oneDNN build fails on float16: unknown type for MKLDNN"}
HALF_SUM = {"tol": {"float32": 3e-5}, "why": "three terms that cancel"}


def where(condition, shape, **attrs):
    return Sample("where", {"condition": condition, "x": shape, "y": shape}, **attrs)


SAMPLES = [
    Sample("clip", X, {"a_min": -0.5, "a_max": 0.75}),
    Sample("clip", {"data": BOUNDS}, {"a_min": -1, "a_max": 1}, grad=("data",), dtypes=ONE_SIDED,
           note="bounds"),
    Sample("clip", {"data": BOUNDS}, {"a_min": 1.5, "a_max": -1.5}, note="crossed"),
    Sample("clip", {"data": array([NAN, INF, -INF])}, {"a_min": -1, "a_max": 1}, note="nan"),
    Sample("clip", {"data": BOUNDS}, {"a_min": -1.5, "a_max": 1.5}, dtypes=("int32", "int8")),
    Sample("clip", {"data": array([0, 3, 200])}, {"a_min": -5, "a_max": 5}, dtypes=("uint8",)),
    Sample("clip", X, {"a_min": 0}, error="required parameter a_max"),
    Sample("hard_sigmoid", X),
    Sample("hard_sigmoid", {"data": array([-0.2, 1.8, 1, 5, -3, 0])}, {"alpha": 0.5, "beta": 0.1},
           grad=("data",), dtypes=("float32",), note="bounds"),
    Sample("hard_sigmoid", X, dtypes=("int32",), error="floating point arrays only, not int32"),
    Sample("_contrib_quadratic", X, {"a": 1.5, "b": -0.3, "c": 2}, **HALF_SUM),
    Sample("_contrib_quadratic", {"data": integers(-3, 4, (5,))}, {"a": 2, "b": 3, "c": 1},
           dtypes=("int32",)),
    Sample("_contrib_quadratic", {"data": array([-3, -1, 0, 1, 2, 7, 100])},
           {"a": -1.5, "b": 2.5, "c": -0.5}, dtypes=("int8", "uint8", "int32", "int64"),
           note="cut off"),
    Sample("_contrib_div_sqrt_dim", {"data": (2, 3, 5)}),
    Sample("_contrib_div_sqrt_dim", {"data": array([[-7, 7, 0, 120, 3]])}, dtypes=("int8", "int32"),
           oracle=False, why="MXNet divides whole numbers by the whole part of the root"),
    where(integers(0, 2, (3, 4)), (3, 4)),
    where(integers(0, 2, (3,)), (3, 4)),
    where(integers(0, 2, (3, 1), "int32"), (3, 1)),
    where(integers(0, 2, (5,), "uint8"), (5, 2, 3)),
    where(array([0, -1, NAN, 0.5], "float32"), (4,)),
    where(integers(0, 2, (3, 4), "float64"), (3, 4), dtypes=("int32", "uint8")),
    where((2,), (3, 4), error=r"condition \(2,\) must have one element for each of the 3 rows"),
    where((3, 1), (3, 4), error=r"\(3, 1\) and \(3, 4\) do not agree"),
    Sample("add_n", ((2, 3), (2, 3), (2, 3)), dtypes=(*FLOATS, "int32", "uint8")),
    Sample("add_n", ((2, 3),)),
    Sample("ElementWiseSum", ((5,), (5,))),
    Sample("add_n", ((2, 3), (3,)), error="different numbers of dimensions"),

    *(Sample(op, X, dtypes=(*FLOATS, "int32", "uint8", "bool")) for op in ("_copy", "identity")),
    Sample("BlockGrad", X, loss=True),
    Sample("make_loss", X, loss=True),
    Sample("_identity_with_attr_like_rhs", {"lhs": (2, 3), "rhs": (2, 3)}),
    *(Sample(op, X, dtypes=(*FLOATS, "int32", "bool")) for op in ("zeros_like", "ones_like")),

    *(Sample("Cast", X, {"dtype": dtype}) for dtype in ("float64", "float32")),
    Sample("cast", X, {"dtype": "float16"}, dtypes=("float32", "float16")),
    *(Sample("Cast", {"data": WIDE}, {"dtype": dtype}, dtypes=("float32", "float64", "int32"))
      for dtype in ("uint8", "int8", "int32", "int64", "bool", "float16")),
    *(Sample("Cast", {"data": array([0, 1, 200, 255])}, {"dtype": dtype}, dtypes=("uint8", "bool"))
      for dtype in ("int8", "float32", "int64", "bool")),
    Sample("Cast", X, {"dtype": "bfloat16"}, error="bfloat16 is not supported"),
    Sample("Cast", X, {"dtype": "complex64"}, error="parameter dtype is 'complex64'"),
    *(Sample("amp_cast", X, {"dtype": dtype}, dtypes=("float32", "float16", "int32"))
      for dtype in ("float16", "float32")),
    *(Sample("amp_multicast", (normal((2,), a), normal((3,), b)),
             {"num_outputs": 2, "cast_narrow": narrow}, dtypes=("float32",), **ONE_DNN)
      for a, b in (("float16", "float32"), ("float16", "float16"), ("float32", "float32"),
                   ("float16", "float64")) for narrow in (False, True)),
]  # fmt: skip
