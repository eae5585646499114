"""What programs of random calls have in common: how calls are drawn, and how answers are compared.

Imports neither nbmod nor MXNet.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any


def draw_names(rng: random.Random, table: Mapping[str, tuple[float, Any]], count: int
               ) -> list[str]:
    """Names of a table, with the weights that are the first part of its values."""
    return rng.choices(list(table), [weight for weight, _ in table.values()], k=count)


def plain(value: Any) -> Any:
    """Arrays as NumPy arrays, in lists and dicts."""
    if hasattr(value, "asnumpy"):
        return value.asnumpy()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def attempt(function: Callable[[], Any]) -> Any:
    """What a function returns, or "error"."""
    try:
        return plain(function())
    except Exception:
        return "error"


def call(target: Any, name: str, arguments: Mapping[str, Any]) -> Any:
    """What a method returns, or "error"."""
    return attempt(partial(getattr(target, name), **arguments))
