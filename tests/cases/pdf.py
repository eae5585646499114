"""Probability density functions."""

from __future__ import annotations

from typing import Any

from tests.cases import Input, Sample, integers, normal, positive, uniform

PREFIX = "_random_pdf_"
SIZES = [((2, 3), (2,)), ((2, 3, 4), (2,)), ((2, 3), (2, 3)), ((1,), (1,))]


def kinds(sample: tuple[int, ...], shape: tuple[int, ...]) -> dict[str, dict[str, Input]]:
    """The inputs of every op for samples and parameters of these shapes."""
    counts, chance = integers(0, 6, sample), uniform(0.2, 0.8, shape)
    return {
        "uniform": {"sample": uniform(0, 1, sample), "low": uniform(-2, -1, shape),
                    "high": uniform(1, 2, shape)},
        "normal": {"sample": normal(sample), "mu": normal(shape), "sigma": positive(shape)},
        "gamma": {"sample": positive(sample), "alpha": positive(shape), "beta": positive(shape)},
        "exponential": {"sample": positive(sample), "lam": positive(shape)},
        "poisson": {"sample": counts, "lam": positive(shape)},
        "negative_binomial": {"sample": counts, "k": positive(shape), "p": chance},
        "generalized_negative_binomial": {"sample": counts, "mu": positive(shape),
                                          "alpha": positive(shape)},
        "dirichlet": {"sample": uniform(0.1, 0.9, (*sample, 3)), "alpha": positive((*shape, 3))},
    }  # fmt: skip


def wrong(op: str, inputs: dict[str, Any], error: str, **options: Any) -> Sample:
    return Sample(PREFIX + op, inputs, error=error, **options)


LOOSE: dict[str, Any] = {
    "tol": {"float16": 3e-2, "float32": 1e-4, "float64": 1e-5},
    "why": "MXNet computes in the type of its arrays, with constants and digamma of float32",
}
SAMPLES = [
    *(Sample(PREFIX + op, inputs, attrs, **LOOSE) for size in SIZES
      for op, inputs in kinds(*size).items() for attrs in ({}, {"is_log": True})),
    wrong("normal", {"sample": (2, 3), "mu": (3,), "sigma": (3,)}, "sample's leading axes"),
    wrong("normal", {"sample": (2,), "mu": (2, 3), "sigma": (2, 3)}, "the leading axes of"),
    wrong("normal", {"sample": (2,), "mu": (2,), "sigma": (1,)}, "shapes of the parameters"),
    wrong("dirichlet", {"sample": (2, 3), "alpha": (2, 4)}, "sample's leading axes"),
    wrong("poisson", {"sample": (2,), "lam": (2,)}, "has type int32", dtypes=("int32",)),
]  # fmt: skip
