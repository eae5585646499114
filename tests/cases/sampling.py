"""Random ops: shapes and types; distributions are in tests/ops/test_random.py."""

from __future__ import annotations

from tests.cases import Sample, array, positive, uniform

ANY = {"random": True, "dtypes": ("float32",)}
LIKE = {"random": True, "grad": ()}
ROWS = {"random": True, "grad": ()}


def drawn(op: str, attrs: dict, **options) -> list[Sample]:
    """An op without inputs, for its default element type and each type it supports."""
    kinds = ("int32", "int64") if "randint" in op else ("float16", "float32", "float64")
    shaped = [Sample(op, {}, {**attrs, "shape": shape}, **ANY, **options)
              for shape in ((2, 3), (1, 2), (300, 400))]  # fmt: skip
    return [*shaped, *[Sample(op, {}, {**attrs, "shape": (4,), "dtype": kind}, **ANY)
                     for kind in kinds]]  # fmt: skip


def per_row(op: str, inputs: dict) -> list[Sample]:
    """An op that draws for every element of its inputs, (2, 2)."""
    return [Sample(op, inputs, {"shape": shape}, **ROWS) for shape in ((), (3,), (2, 3))] + [
        Sample(op, inputs, {"shape": (3,), "dtype": "float16"}, **ROWS)
    ]


POSITIVE = positive((2, 2))
SHARE = uniform(0.2, 0.8, (2, 2))
CHANCES = array([[0.1, 0.2, 0.7], [0.5, 0.5, 0]])

SAMPLES = [
    *drawn("random_uniform", {"low": 2, "high": 3}),
    *drawn("random_normal", {"loc": 2, "scale": 3}),
    *drawn("random_exponential", {"lam": 4}),
    *drawn("random_gamma", {"alpha": 2, "beta": 3}),
    *drawn("random_poisson", {"lam": 4}),
    *drawn("random_negative_binomial", {"k": 3, "p": 0.4}),
    *drawn("random_generalized_negative_binomial", {"mu": 2, "alpha": 0.3}),
    *drawn("random_randint", {"low": 2, "high": 9}),
    Sample("random_uniform", {}, {"shape": (2,), "dtype": "int32"}, error="parameter dtype"),
    Sample("random_gamma", {}, {"alpha": -1, "shape": (2,)}, **ANY, error="shape"),
    Sample("random_randint", {}, {"low": 2, "high": 2, "shape": (2,)}, **ANY, error="high is 2"),
    Sample("random_randint", {}, {"low": 2, "shape": (2,)}, error="parameter high is not given"),
    Sample("_random_uniform_like", {"data": (2, 3)}, {"low": 2, "high": 3}, **LIKE),
    Sample("_random_normal_like", {"data": (2, 3)}, {"loc": 2, "scale": 3}, **LIKE),
    Sample("_random_exponential_like", {"data": (2, 3)}, {"lam": 4}, **LIKE),
    Sample("_random_gamma_like", {"data": (2, 3)}, {"alpha": 2, "beta": 3}, **LIKE),
    Sample("_random_poisson_like", {"data": (2, 3)}, {"lam": 4}, **LIKE),
    Sample("_random_negative_binomial_like", {"data": (2, 3)}, {"k": 3, "p": 0.4}, **LIKE),
    Sample("_random_generalized_negative_binomial_like", {"data": (2, 3)}, {"mu": 2}, **LIKE),
    *per_row("sample_uniform", {"low": (2, 2), "high": uniform(4, 5, (2, 2))}),
    *per_row("sample_normal", {"mu": (2, 2), "sigma": POSITIVE}),
    *per_row("sample_gamma", {"alpha": POSITIVE, "beta": POSITIVE}),
    *per_row("sample_exponential", {"lam": POSITIVE}),
    *per_row("sample_poisson", {"lam": POSITIVE}),
    *per_row("sample_negative_binomial", {"k": POSITIVE, "p": SHARE}),
    *per_row("sample_generalized_negative_binomial", {"mu": POSITIVE, "alpha": POSITIVE}),
    Sample("sample_uniform", {"low": (2, 2), "high": (2, 3)}, error="do not agree"),
    *[Sample("sample_multinomial", {"data": CHANCES}, {"shape": shape}, random=True)
      for shape in ((), (4,), (2, 2))],
    Sample("sample_multinomial", {"data": array([0.1, 0.9])}, random=True),
    Sample("sample_multinomial", {"data": array([0.1, 0.9])}, {"shape": (3,)}, random=True),
    Sample("sample_multinomial", {"data": CHANCES}, {"get_prob": True}, random=True),
    Sample("sample_multinomial", {"data": CHANCES}, {"get_prob": True, "shape": (3,),
                                                     "dtype": "float32"}, random=True),
    Sample("shuffle", {"data": (5, 3)}, **LIKE),
    Sample("shuffle", {"data": (5,)}, **LIKE),
    Sample("_sample_unique_zipfian", {}, {"range_max": 100, "shape": (2, 5)}, **ANY),
    Sample("_sample_unique_zipfian", {}, {"range_max": 4, "shape": (2, 5)}, **ANY,
           error="at most 4 ids"),
]  # fmt: skip
