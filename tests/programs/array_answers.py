"""Expressions on arrays and their results, in a form that both packages share.

`mx` is nbmod in the tests and MXNet in the oracle's worker; this file imports neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def names(mx: Any) -> dict[str, Any]:
    """The arrays in expressions, fresh for each."""
    nd = mx.nd
    return {
        "mx": mx,
        "nd": nd,
        "np": np,
        "a": nd.array(np.arange(24).reshape(2, 3, 4)),
        "b": nd.array([[1.0, 2, 3], [4, 5, 6]]),
        "f": nd.array([1.5, 2.5, -3.5]),
        "i": nd.array([1, 2, 3], dtype="int32"),
        "l": nd.array([1, 2, 3], dtype="int64"),
        "u": nd.array([1, 2, 250], dtype="uint8"),
        "h": nd.array([1, 2, 3], dtype="float16"),
        "d": nd.array([1, 2, 3], dtype="float64"),
        "t": nd.array([1, 0, 1], dtype="bool"),
        "s": nd.array([7]),
        "o": nd.zeros((2, 3)),
    }


def answers(mx: Any, expressions: Sequence[str]) -> list[Any]:
    """The result of each expression, or `{"error": type name}`."""
    return [_answer(mx, expression) for expression in expressions]


def _answer(mx: Any, expression: str) -> Any:
    scope = names(mx)
    try:
        if ";" in expression:
            before, _, expression = expression.rpartition(";")
            exec(before, scope)
        return _plain(mx, eval(expression.strip(), scope))
    except Exception as error:
        return {"error": type(error).__name__}


def _plain(mx: Any, value: Any) -> Any:
    if isinstance(value, mx.nd.NDArray):
        return {"array": value.asnumpy(), "context": str(value.context)}
    if isinstance(value, (list, tuple)):
        return [_plain(mx, part) for part in value]
    if isinstance(value, dict):
        return {str(key): _plain(mx, part) for key, part in value.items()}
    if isinstance(value, np.generic):
        return {"scalar": np.asarray(value).reshape(1)}
    if value is None or isinstance(value, (bool, int, float, str, bytes, np.ndarray)):
        return value
    return getattr(value, "__name__", type(value).__name__)
