"""Factorizations, determinants, diagonals and triangles."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.cases import Input, Sample, array, normal

BOTH = ("float32", "float64")
# LAPACK's rounding errors grow with the condition, here below 100.
LOOSE: dict[str, Any] = {"dtypes": BOTH, "tol": {"float32": 1e-3, "float64": 1e-9},
                         "why": "errors grow with the condition of the matrix"}  # fmt: skip


def well(*shape: int) -> Input:
    """Well conditioned matrices, differentiable."""
    rng = np.random.default_rng(shape[-1])
    return array(rng.uniform(-1, 1, shape) + 3 * np.eye(shape[-1])[: shape[-2]])


def definite(*shape: int) -> Input:
    """Symmetric, positive definite matrices with separated eigenvalues."""
    rng = np.random.default_rng(shape[-1])
    factor = np.linalg.qr(rng.standard_normal(shape))[0]
    return array(factor @ (np.arange(1, shape[-1] + 1)[:, None] * factor.swapaxes(-1, -2)))


def alone(op: str, a: Input, attrs: dict | None = None, **options: Any) -> Sample:
    return Sample(f"_linalg_{op}", {"A": a}, attrs or {}, **{"grad": ("A",), **LOOSE, **options})


def pair(op: str, attrs: dict, *shape: int, columns: int = 2) -> Sample:
    rest = (columns, shape[-1]) if attrs.get("rightside") else (shape[-1], columns)
    return Sample(f"_linalg_{op}", {"A": well(*shape), "B": normal((*shape[:-2], *rest))}, attrs,
                  grad=("A", "B"), **LOOSE)  # fmt: skip


def wrong(op: str, shape: tuple[int, ...], error: str, attrs: dict | None = None,
          **options: Any) -> Sample:  # fmt: skip
    return Sample(f"_linalg_{op}", {"A": shape}, attrs or {}, error=error, dtypes=BOTH, **options)


STACKS = ((3, 3), (1, 1), (2, 3, 3), (2, 1, 4, 4))
# Finite differences, in float64, would change one of two symmetric elements: MXNet alone is used.
ONE_SIDED: dict[str, Any] = {"dtypes": ("float32",)}
UPPER = {"lower": False}
FLAGS = [{}, {"transpose": True}, {"rightside": True}, {"lower": False}, {"alpha": -0.5},
         {"transpose": True, "rightside": True, "lower": False, "alpha": 2.0}]  # fmt: skip

SAMPLES = [
    *(alone(op, definite(*s), **ONE_SIDED) for op in ("potrf", "syevd") for s in STACKS),
    *(alone(op, definite(*s), grad=()) for op in ("potrf", "syevd") for s in STACKS),
    *(alone("potrf", definite(*s), UPPER, **ONE_SIDED) for s in STACKS),
    *(alone("potrf", definite(*s), UPPER, grad=()) for s in STACKS),
    alone("potrf", array([[4, 9], [1, 3]]), **ONE_SIDED, note="the lower triangle is read"),
    alone("potrf", array([[4, 1], [9, 3]]), UPPER, **ONE_SIDED, note="the upper triangle is read"),
    alone("syevd", array([[4, 9], [1, 3]]), **ONE_SIDED, note="the lower triangle is read"),
    *(alone(op, well(*s)) for op in ("potri", "inverse", "det", "slogdet", "sumlogdiag")
      for s in STACKS),
    *(alone("potri", well(*s), UPPER) for s in STACKS),
    *(pair(op, attrs, 2, 3, 3) for op in ("trmm", "trsm") for attrs in FLAGS),
    *(pair(op, {}, *s, columns=n) for op in ("trmm", "trsm")
      for s, n in (((3, 3), 1), ((1, 1), 4))),
    *(alone("syrk", normal(s), attrs) for s in ((3, 4), (2, 3, 2), (1, 1))
      for attrs in ({}, {"transpose": True, "alpha": 2.5})),
    *(alone("gelqf", well(*s)) for s in ((3, 4), (2, 3, 3), (1, 1), (2, 2, 5))),
    *(alone(op, array(np.ones((2, 2))), dtypes=("float32",)) for op in ("det", "slogdet")),
    *(alone(f"extract{part}", normal((2, 4, 4)), {"offset": k})
      for part in ("diag", "trian") for k in (0, 1, -2, 3)),
    *(alone(f"make{part}", normal((2, 3)), {"offset": k})
      for part in ("diag", "trian") for k in (0, 1, -2)),
    alone("extractdiag", normal((3, 3))),
    alone("makediag", normal((1,))),
    *(alone(op, normal(s), {"lower": False, "offset": k}) for k in (0, 1, -1)
      for op, s in (("extracttrian", (3, 3)), ("maketrian", (6,)))),
    *(wrong(op, (2, 3), "square matrices") for op in ("potrf", "det", "extractdiag", "sumlogdiag")),
    wrong("gelqf", (4, 3), "M <= N"),
    wrong("extractdiag", (3, 3), "offset is 3", {"offset": 3}),
    wrong("maketrian", (5,), "A holds 5 elements"),
    Sample("_linalg_potrf", {"A": array([[1, 2], [2, 1]])}, dtypes=BOTH, error="positive definite"),
    Sample("_linalg_potrf", {"A": array([[1, 2], [0, 1]])}, UPPER, dtypes=BOTH,
           error="positive definite"),
    Sample("_linalg_potri", {"A": array([[1, 2], [3, 0]])}, UPPER, dtypes=BOTH, error="diagonal"),
    Sample("_linalg_inverse", {"A": array(np.ones((2, 2)))}, dtypes=BOTH, error="invertible"),
    Sample("_linalg_trmm", {"A": (3, 3), "B": (2, 3)}, error="A and its size for B"),
    Sample("_linalg_potrf", {"A": (3, 3)}, dtypes=("int32", "float16"), error="expected float32"),
]  # fmt: skip
