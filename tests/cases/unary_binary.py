"""Elementwise operators of one tensor, and of two of equal shape."""

from __future__ import annotations

import math

from tests.cases import FLOATS, Input, Sample, array, distinct, nonzero, normal, positive, uniform

SHAPE = (3, 7)
INTEGERS = ("int32", "int64", "int8", "uint8")
NAN, INF = math.nan, math.inf
# No float64: that is the type of the finite differences, which need a derivative.
ONE_SIDED = ("float32", "float16")
# MXNet computes with constants stored in float32, whatever the type of the tensor.
SINGLE_CONSTANTS = {"tol": {"float64": 1e-6}, "why": "MXNet's constants are of type float32"}

SMALL, ABOVE_ONE = uniform(-0.9, 0.9, SHAPE), uniform(1.1, 4.0, SHAPE)
DOMAIN: dict[str, Input] = {
    **dict.fromkeys(("abs", "sign", "relu", "cbrt", "rcbrt", "reciprocal"), nonzero(SHAPE)),
    **dict.fromkeys(("sqrt", "rsqrt", "log", "log2", "log10", "gamma", "gammaln", "log1p"),
                    positive(SHAPE)),
    **dict.fromkeys(("arcsin", "arccos", "arctanh", "erfinv"), SMALL),
    "arccosh": ABOVE_ONE,
    "tan": uniform(-1.2, 1.2, SHAPE),
    **dict.fromkeys(
        ("round", "rint", "ceil", "floor", "trunc", "fix", "square", "exp", "expm1", "sin", "cos",
         "arctan", "sinh", "cosh", "tanh", "arcsinh", "degrees", "radians", "negative", "sigmoid",
         "softsign", "erf"), normal(SHAPE)),
}  # fmt: skip
CONSTANTS = ("degrees", "radians", "erf", "erfinv", "gamma", "gammaln")
WHOLE = ("abs", "sign", "round", "rint", "ceil", "floor", "trunc", "fix", "square", "negative",
         "relu", "logical_not")  # fmt: skip
CUT_OFF = {"sqrt": (0, 1, 2, 15, 16, 100), "cbrt": (-8, -1, 0, 26, 27), "exp": (0, 1, 2, 4),
           "log2": (1, 7, 8, 100), "log10": (1, 99, 100), "gamma": (1, 2, 3, 5, 6),
           "reciprocal": (-2, -1, 1, 2), "degrees": (-1, 0, 1, 2), "arctan": (-9, 0, 9)}

HALVES = array([-2.5, -1.5, -0.5, -0.0, 0.49, 0.5, 1.5, 2.5])
AT_ZERO = array([-1, 0, 1])
PAIR = {"lhs": SHAPE, "rhs": SHAPE}
APART = {"lhs": distinct(SHAPE), "rhs": uniform(0.03, 0.04, SHAPE)}
TIES = {"lhs": array([1, 2, 2, -3]), "rhs": array([2, 1, 2, -3])}
WITH_NAN = {"lhs": array([NAN, 1, NAN, 2]), "rhs": array([1, NAN, NAN, 2])}
DIVISION = {"lhs": array([-7, 7, -3, 5, 0, 9]), "rhs": array([2, -2, -2, 5, 5, 4])}
REMAINDER = {"lhs": array([-7.5, 7.5, -3, 5, 0, 4]), "rhs": array([2, -2, -2, 0, 0, 4])}
COMPARISONS = ("_equal", "_not_equal", "_greater", "_greater_equal", "_lesser", "_lesser_equal")
LOGIC = ("_logical_and", "_logical_or", "_logical_xor")
SAMPLES = [
    *(Sample(op, {"data": x}, **(SINGLE_CONSTANTS if op in CONSTANTS else {}))
      for op, x in DOMAIN.items()),
    *(Sample(op, {"data": array([-3, -1, 0, 1, 2, 8])}, dtypes=("int32", "int64", "int8"))
      for op in WHOLE),
    Sample("square", {"data": array([3, 200])}, dtypes=("uint8",), note="wraps"),
    *(Sample(op, {"data": array(x)}, dtypes=("int32", "int64", "int8"), note="cut off")
      for op, x in CUT_OFF.items()),
    *(Sample(op, {"data": HALVES}, note="halves") for op in ("round", "rint", "fix", "ceil")),
    *(Sample(op, {"data": AT_ZERO}, grad=("data",), dtypes=ONE_SIDED, note="at 0")
      for op in ("abs", "sign", "relu", "sqrt", "rsqrt", "cbrt", "reciprocal", "log")),
    Sample("relu", {"data": array([NAN, INF, -INF, -1, 0, 2])}, grad=("data",), dtypes=ONE_SIDED,
           note="gradient at nan"),
    *(Sample(op, {"data": array([NAN, INF, -INF, 0])}, note="not finite")
      for op in ("abs", "sign", "relu", "exp", "log", "tanh", "sigmoid", "logical_not", "erf",
                 "square")),
    Sample("logical_not", {"data": AT_ZERO}),
    Sample("gamma", {"data": array([-2.5, -0.3, 0.2, 20.5])}, grad=("data",), **SINGLE_CONSTANTS),
    Sample("gammaln", {"data": array([-2.5, -0.3, 0.2, 20.5])}, grad=("data",), **SINGLE_CONSTANTS),
    Sample("erfinv", {"data": array([-1, 1, -1.5, 1.5, NAN, INF, -INF, 0])}, grad=("data",),
           dtypes=ONE_SIDED, note="out of range"),
    Sample("_sparse_tanh", {"data": (2, 3)}),
    Sample("_contrib_round_ste", {"data": SHAPE}, dtypes=ONE_SIDED),
    Sample("_contrib_sign_ste", {"data": SHAPE}, dtypes=ONE_SIDED),
    Sample("exp", {"data": normal((2, 3), "bool")}, dtypes=("float32",),
           error="op .exp.*does not take arrays of type bool"),

    *(Sample(op, PAIR) for op in ("elemwise_sub", "elemwise_mul", "_hypot", "_plus")),
    Sample("_grad_add", PAIR, grad=()),
    Sample("elemwise_div", {"lhs": SHAPE, "rhs": nonzero(SHAPE)}),
    Sample("_scatter_elemwise_div", {"lhs": SHAPE, "rhs": nonzero(SHAPE)}),
    Sample("_power", {"lhs": positive(SHAPE), "rhs": SHAPE}),
    Sample("_mod", {"lhs": uniform(0.1, 0.9, SHAPE), "rhs": ABOVE_ONE}),
    Sample("_mod", {"lhs": uniform(-0.9, -0.1, SHAPE), "rhs": ABOVE_ONE}),
    *(Sample(op, APART) for op in ("_maximum", "_minimum")),
    *(Sample(op, TIES, grad=("lhs", "rhs"), dtypes=ONE_SIDED, note="ties")
      for op in ("_maximum", "_minimum")),
    *(Sample(op, WITH_NAN, grad=("lhs", "rhs"), dtypes=ONE_SIDED, note="nan")
      for op in ("_maximum", "_minimum", "_equal", "_not_equal")),
    *(Sample(op, PAIR, dtypes=INTEGERS) for op in ("elemwise_sub", "elemwise_mul", "_maximum")),
    *(Sample(op, DIVISION, dtypes=("int32", "int64", "int8"))
      for op in ("elemwise_div", "_mod", "_hypot")),
    Sample("_mod", REMAINDER, dtypes=(*FLOATS, "int32")),
    Sample("_mod", {"lhs": array([5, -7, 0, 9]), "rhs": array([0, 0, 0, 4])},
           grad=("lhs", "rhs"), dtypes=(*ONE_SIDED, "int32", "int64", "int8", "uint8"),
           note="by zero"),
    Sample("_power", {"lhs": array([-2, 3, 7, 0]), "rhs": array([3, 2, -1, 0])}, dtypes=("int32",)),
    *(Sample(op, TIES, dtypes=(*FLOATS, "int32")) for op in COMPARISONS),
    *(Sample(op, {"lhs": array([0, 0, 1, -2]), "rhs": array([0, 3, 0, 1])},
             dtypes=(*FLOATS, "int32")) for op in LOGIC),
    Sample("elemwise_mul", {"lhs": (2, 3), "rhs": (1, 3)},
           error=r"\(2, 3\).*\(1, 3\).*does not broadcast"),
    Sample("_grad_add", {"lhs": (2, 3), "rhs": (2, 4)}, error=r"lhs \(2, 3\), rhs \(2, 4\)"),
    Sample("elemwise_add", {"lhs": SHAPE, "rhs": normal(SHAPE, "int32")},
           error="float32 and int32 do not agree; insert a Cast"),
]  # fmt: skip
