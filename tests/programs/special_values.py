"""Operators on NaN, infinities, both zeros and extreme numbers; runs in MXNet and in nbmod."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

NAN, INF = float("nan"), float("inf")
VALUES = (NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3e38, -3e38, 1e-38, 1e-45)

UNARY = (
    "abs", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "cbrt", "ceil", "cos",
    "cosh", "degrees", "erf", "exp", "expm1", "fix", "floor", "gamma", "gammaln", "hard_sigmoid",
    "log", "log10", "log1p", "log2", "logical_not", "negative", "radians", "rcbrt", "reciprocal",
    "relu", "rint", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "softsign", "sqrt",
    "square", "tan", "tanh", "trunc")
BINARY = (
    "broadcast_add", "broadcast_div", "broadcast_equal", "broadcast_greater",
    "broadcast_greater_equal", "broadcast_hypot", "broadcast_lesser", "broadcast_lesser_equal",
    "broadcast_logical_and", "broadcast_logical_or", "broadcast_logical_xor", "broadcast_maximum",
    "broadcast_minimum", "broadcast_mod", "broadcast_mul", "broadcast_not_equal",
    "broadcast_power", "broadcast_sub")
ROWS = ("argmax", "argmin", "log_softmax", "max", "mean", "min", "nanprod", "nansum", "norm",
        "prod", "softmax", "softmin", "sum")
"""Over the last axis of rows of two special values beside a common one."""
SIMPLE = (
    ("Activation", {"act_type": "softrelu"}), ("LeakyReLU", {"act_type": "leaky"}),
    ("LeakyReLU", {"act_type": "elu"}), ("LeakyReLU", {"act_type": "selu"}),
    ("LeakyReLU", {"act_type": "gelu"}), ("clip", {"a_min": -1, "a_max": 1}),
    ("smooth_l1", {"scalar": 1.0}))


def pairs() -> np.ndarray:
    """All pairs of values, in two columns."""
    return np.array(list(itertools.product(VALUES, VALUES)), np.float32)


def rows() -> np.ndarray:
    """The pairs, each beside a common value."""
    return np.concatenate([pairs(), np.full((len(VALUES) ** 2, 1), 0.25, np.float32)], axis=1)


def answers(mx: Any) -> dict[str, np.ndarray]:
    """The results of every operator, by its name and parameters."""
    nd, single = mx.nd, np.array(VALUES, np.float32)
    left, right = pairs().T.copy()
    found = {name: getattr(nd, name)(nd.array(single)) for name in UNARY}
    found |= {name: getattr(nd, name)(nd.array(left), nd.array(right)) for name in BINARY}
    found |= {f"{name} of rows": getattr(nd, name)(nd.array(rows()), axis=1) for name in ROWS}
    found |= {f"{name} {params}": getattr(nd, name)(nd.array(single), **params)
              for name, params in SIMPLE}
    return {name: array.asnumpy() for name, array in found.items()}
