"""Hawkes processes. MXNet's logarithms and exponentials are float32 in every type."""

from __future__ import annotations

from typing import Any

from tests.cases import Sample, array, integers, positive, uniform

TOL = {"tol": {"float32": 3e-5, "float64": 1e-6}, "why": "MXNet's exp and log are float32"}
OWN = ("lda", "alpha", "beta")
ALL = (*OWN, "state", "lags", "max_time")
TRUE = {"oracle": False, "why": "MXNet has no such gradients"}


def hawkes(
    n: int, t: int, k: int, lengths: list[float], until: float = 3, **options: Any
) -> Sample:
    inputs = {
        "lda": positive((n, k)), "alpha": uniform(.1, .5, (k,)), "beta": positive((k,)),
        "state": uniform(0, 1, (n, k)), "lags": uniform(.1, .6, (n, t)),
        "marks": integers(0, k, (n, t), "int32"), "valid_length": array(lengths),
        "max_time": array([until] * n),
    }  # fmt: skip
    return Sample("_contrib_hawkesll", inputs, **({**TOL, "grad": ()} | options))


SAMPLES = [
    hawkes(2, 4, 3, [4, 2]),
    hawkes(2, 4, 3, [4, 2], grad=OWN, outputs=(0,)),
    hawkes(3, 5, 1, [1, 5, 0], grad=OWN, outputs=(0,)),
    hawkes(1, 1, 2, [1], grad=OWN, outputs=(0,)),
    hawkes(2, 4, 3, [4, 4], .5, grad=OWN, outputs=(0,), note="ends before its events"),
    hawkes(2, 4, 3, [4, 2], grad=ALL, note="all gradients", **TRUE),
    hawkes(2, 4, 3, [5, -1], grad=ALL, oracle=False, why="MXNet reads other memory"),
    Sample("_contrib_hawkesll", hawkes(2, 4, 3, [4, 2]).specs | {
        "marks": array([[0, 1, 3, 0], [0, 0, 0, 0]], "int32")}, error="marks.0, 2. is 3, expected"),
    Sample("_contrib_hawkesll", hawkes(2, 4, 3, [4, 2]).specs | {"alpha": (4,)},
           error="do not agree"),
    Sample("_contrib_hawkesll", hawkes(2, 4, 3, [4, 2]).specs | {"beta": (3, 1)},
           error="beta has shape"),
]  # fmt: skip
