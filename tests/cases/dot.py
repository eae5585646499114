"""Matrix products."""

from __future__ import annotations

from itertools import product

from tests.cases import FLOATS, Sample

FLAGS = list(product((False, True), repeat=2))
INTEGERS = {"dtypes": ("int32", "uint8"), "oracle": False, "why": "MXNet multiplies floats only"}


def matrix(rows: int, columns: int, transposed: bool) -> tuple[int, int]:
    return (columns, rows) if transposed else (rows, columns)


def dot(lhs: tuple[int, ...], rhs: tuple[int, ...], attrs: dict | None = None, op: str = "dot",
        **more) -> Sample:
    return Sample(op, {"lhs": lhs, "rhs": rhs}, attrs or {}, **more)


def flags(a: bool, b: bool) -> dict[str, bool]:
    return {"transpose_a": a, "transpose_b": b}


SAMPLES = [
    *(dot(matrix(2, 3, a), matrix(3, 4, b), flags(a, b)) for a, b in FLAGS),
    dot((3,), (3,)),
    dot((3,), (3, 4)),
    dot((3,), (4, 3), {"transpose_b": True}),
    dot((2, 3), (3,)),
    dot((3, 2), (3,), {"transpose_a": True}),
    dot((2, 3, 4), (4, 5)),
    dot((2, 3, 4), (4, 5, 2)),
    dot((4, 2, 3), (4, 5, 2), {"transpose_a": True}),
    dot((2, 3, 4), (5, 2, 4), {"transpose_b": True}),
    dot((4, 2, 3), (5, 2, 4), flags(True, True)),
    dot((1, 1), (1, 1)),
    dot((20, 200), (200, 30), dtypes=("float32", "float64")),
    dot((2, 3), (3, 4), **INTEGERS),
    dot((2, 3), (3, 4), {"forward_stype": "default"}),
    dot((2, 3), (4, 4), error="3 and 4 elements along the axes"),
    dot((3,), (3,), {"transpose_a": True}, error="nothing to transpose"),
    *(dot((5, *matrix(2, 3, a)), (5, *matrix(3, 4, b)), flags(a, b), "batch_dot") for a,
      b in FLAGS),
    dot((2, 5, 2, 3), (2, 5, 3, 4), op="batch_dot"),
    dot((5, 2, 3), (5, 3, 4), op="batch_dot", **INTEGERS),
    dot((2, 3), (3, 4), op="batch_dot", error="expected at least 3"),
    dot((5, 2, 3), (4, 3, 4), op="batch_dot", error="stacks .* do not agree"),
    dot((5, 2, 3), (5, 4, 4), op="batch_dot", error="inner sizes 3 and 4"),
    dot((5, 2, 3), (2, 5, 3, 4), op="batch_dot", error="same number of dimensions"),
    *(Sample("_linalg_gemm2", {"A": (5, *matrix(2, 3, a)), "B": (5, *matrix(3, 4, b))},
             {**flags(a, b), "alpha": 2.5}) for a, b in FLAGS),
    Sample("_linalg_gemm2", {"A": (2, 3), "B": (3, 4)}),
    Sample("_linalg_gemm2", {"A": (2, 5, 3), "B": (3, 5, 4)}, {"axis": 0}),
    Sample("_linalg_gemm2", {"A": (2, 3, 5, 2), "B": (2, 4, 5, 2)},
           {"axis": 1, "transpose_b": True}),
    Sample("_linalg_gemm2", {"A": (2, 3), "B": (5, 3, 4)}, error="same number of dimensions"),
    Sample("_linalg_gemm2", {"A": (2, 5, 3), "B": (3, 5, 4)}, {"axis": 2},
           error="expected another one than the last"),
    Sample("_linalg_gemm", {"A": (2, 3), "B": (3, 4), "C": (2, 4)}, {"alpha": 2, "beta": 3}),
    *(Sample("_linalg_gemm", {"A": (5, *matrix(2, 3, a)), "B": (5, *matrix(3, 4, b)),
                              "C": (5, 2, 4)}, flags(a, b)) for a, b in FLAGS),
    Sample("_linalg_gemm", {"A": (2, 5, 3), "B": (3, 5, 4), "C": (2, 5, 4)},
           {"axis": -3, "beta": -0.5}, dtypes=FLOATS),
    Sample("_linalg_gemm", {"A": (2, 3), "B": (3, 4), "C": (2, 5)}, error="C"),
]  # fmt: skip
