"""Operators of a tensor and a scalar."""

from __future__ import annotations

from tests.cases import FLOATS, Sample, array, nonzero, normal, positive

X = {"data": (3, 7)}
WHOLE = {"data": array([1, -2, 3, 5, -9, 8])}
KINK = {"data": array([1, -2, 2.5, 3, -2.5])}
TWO_AND_A_HALF = {"scalar": 2.5}
ONE_SIDED = ("float32", "float16")

ARITHMETIC = ("_plus_scalar", "_minus_scalar", "_rminus_scalar", "_mul_scalar", "_div_scalar")
EXTREMES = ("_maximum_scalar", "_minimum_scalar")
COMPARISONS = ("_equal_scalar", "_not_equal_scalar", "_greater_scalar", "_greater_equal_scalar",
               "_lesser_scalar", "_lesser_equal_scalar")  # fmt: skip
LOGIC = ("_logical_and_scalar", "_logical_or_scalar", "_logical_xor_scalar")
RDIV = ("int32", "int64")

SAMPLES = [
    *(Sample(op, X, TWO_AND_A_HALF) for op in (*ARITHMETIC, "_hypot_scalar", "_scatter_plus_scalar",
                                               "_scatter_minus_scalar", "_MulScalar")),
    *(Sample(op, X, {"scalar": -1}) for op in ARITHMETIC),
    *(Sample(op, X) for op in ("_plus_scalar", "_rminus_scalar")),
    *(Sample(op, WHOLE, TWO_AND_A_HALF, dtypes=("int32", "int64", "int8"))
      for op in (*ARITHMETIC, *EXTREMES, *COMPARISONS, *LOGIC, "_rdiv_scalar", "_mod_scalar",
                 "_rmod_scalar", "_power_scalar", "_hypot_scalar")),
    *(Sample(op, {"data": array([1, 2, 250])}, {"scalar": 7}, dtypes=("uint8",))
      for op in (*ARITHMETIC, *EXTREMES)),
    *(Sample(op, {"data": array([1, 2, 3])}, {"scalar": 2.5, "is_int": False}, dtypes=("int32",))
      for op in (*ARITHMETIC, "_rdiv_scalar", "_power_scalar", "_greater_scalar")),
    *(Sample(op, {"data": normal((4,), "bool")}, {"scalar": 3}, dtypes=("bool",))
      for op in ("_plus_scalar", "_minus_scalar", "_equal_scalar")),
    Sample("_rdiv_scalar", {"data": nonzero((3, 7))}, TWO_AND_A_HALF),
    Sample("_mod_scalar", {"data": array([-7.5, -2, 0.3, 3, 7])}, TWO_AND_A_HALF, grad=("data",),
           dtypes=ONE_SIDED),
    Sample("_mod_scalar", WHOLE, {"scalar": 0}, grad=("data",), dtypes=(*ONE_SIDED, "int32")),
    *(Sample("_rmod_scalar", {"data": array([0, 4, -3])}, {"scalar": s}, grad=("data",),
             dtypes=("float32", "int32", "int64", "int8"), note="by zero") for s in (7, -7)),
    Sample("_mod_scalar", WHOLE, {"scalar": 3}, grad=("data",), dtypes=("int32", "int64", "int8")),
    Sample("_rmod_scalar", {"data": array([-7.5, -2, 0.3, 3, 7])}, {"scalar": -2},
           grad=("data",), dtypes=ONE_SIDED),
    *(Sample("_power_scalar", {"data": positive((3, 7))}, {"scalar": s})
      for s in (-1, 0.5, 1, 2, 3, 2.5, -0.5)),
    Sample("_power_scalar", WHOLE, {"scalar": 0.5}, dtypes=("int32",)),
    Sample("_rpower_scalar", X, TWO_AND_A_HALF),
    *(Sample(op, KINK, TWO_AND_A_HALF, grad=("data",), dtypes=ONE_SIDED, note="ties")
      for op in EXTREMES),
    *(Sample(op, {"data": nonzero((3, 7))}, {"scalar": 0.05}) for op in EXTREMES),
    *(Sample(op, KINK, TWO_AND_A_HALF, dtypes=FLOATS) for op in COMPARISONS),
    *(Sample(op, {"data": array([0, -1, 2])}, {"scalar": s}, dtypes=FLOATS)
      for op in LOGIC for s in (0, 3)),
    *(Sample("smooth_l1", X, {"scalar": s}) for s in (1, 2, 0.5, 0)),
    Sample("smooth_l1", {"data": array([-1, 1, 0.25, -4, 4, 0])}, {"scalar": 2}, grad=("data",),
           dtypes=ONE_SIDED, note="bounds"),
    Sample("_contrib_gradientmultiplier", X, {"scalar": -0.5}, dtypes=ONE_SIDED),
    Sample("_plus_scalar", X, {"scalar": "two"}, error="parameter scalar is 'two'"),
]  # fmt: skip
