"""Elementwise operators of two tensors with broadcasting."""

from __future__ import annotations

from tests.cases import FLOATS, Sample, array, distinct, integers, nonzero, positive, uniform

ONE_SIDED = ("float32", "float16")
# Equal shapes, a vector, a column, both at once, alternating dimensions, single elements.
PAIRS = [
    ((2, 3), (2, 3)), ((2, 3), (3,)), ((4, 3, 5), (3, 1)), ((2, 1), (1, 3)), ((1,), (2, 3)),
    ((2, 1, 4, 1), (3, 1, 5)), ((2, 3, 4), (2, 1, 4)), ((3, 1, 2), (1, 1, 1)), ((1, 1), (1,)),
    ((2, 1, 3, 1, 2), (1, 4, 3, 2, 1)),
]  # fmt: skip
SOME = [PAIRS[1], PAIRS[3]]
COMPARISONS = ("equal", "not_equal", "greater", "greater_equal", "lesser", "lesser_equal")
LOGIC = ("logical_and", "logical_or", "logical_xor")


def pair(a, b):
    return {"lhs": a, "rhs": b}


SAMPLES = [
    *(Sample(f"broadcast_{op}", pair(a, nonzero(b))) for op in ("mul", "div") for a, b in PAIRS),
    *(Sample(f"broadcast_{op}", pair(a, b)) for op in ("add", "sub") for a, b in SOME),
    *(Sample(f"broadcast_{op}", pair(a, b)) for op in ("plus", "minus", "hypot") for a, b in SOME),
    *(Sample("broadcast_power", pair(positive(a), b)) for a, b in SOME),
    *(Sample("broadcast_mod", pair(uniform(0.1, 0.9, a), uniform(1.1, 4.0, b))) for a, b in SOME),
    *(Sample("broadcast_mod", pair(array([[5, -7, 3], [2, 0, 9]]), array(b)), grad=("lhs", "rhs"),
             dtypes=("float32", "int32", "int64", "int8", "uint8"), note="by zero")
      for b in ([0, 4, 0], [[0], [3]])),
    *(Sample(f"broadcast_{op}", pair(distinct(a), uniform(0.03, 0.04, b)))
      for op in ("maximum", "minimum") for a, b in SOME),
    Sample("broadcast_maximum", pair(array([[1, 2], [3, 2]]), array([2, 2])), grad=("lhs", "rhs"),
           dtypes=ONE_SIDED, note="ties"),
    *(Sample(f"broadcast_{op}", pair(integers(-1, 2, a), integers(-1, 2, b)),
             dtypes=(*FLOATS, "int32")) for op in (*COMPARISONS, *LOGIC) for a, b in SOME),
    *(Sample(f"broadcast_{op}", pair((2, 3), nonzero((3,))), dtypes=("int32", "int8", "uint8"))
      for op in ("add", "sub", "mul", "div", "mod", "maximum")),
    Sample("broadcast_mul", pair((700, 33), (33,)), note="many rows"),
    Sample("broadcast_mul", pair((6, 8, 150), (8, 1)), note="rows of a matrix"),
    Sample("broadcast_add", pair((2, 3), (2,)), error=r"\(2, 3\) and \(2,\) cannot be broadcast"),
    Sample("broadcast_add", pair((2, 3), integers(0, 2, (3,), "int32")), error="insert a Cast"),
]  # fmt: skip
