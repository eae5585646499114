"""Values of metrics as numbers and as text.

Metrics of users return what they like: a float, an array of one element, an NDArray, text.  All
that prints or records a value goes through here, so that none of them ends training.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import numpy as np

__all__ = ["as_number", "as_text", "numbers"]


def as_number(value: object) -> float | None:
    """Return a metric's value as a float.

    Parameters
    ----------
    value : object
        A number, or an array of one element.

    Returns
    -------
    float or None
        The number; None if `value` is anything else.

    Examples
    --------
    >>> import numpy as np
    >>> as_number(np.array([0.5])), as_number("none yet")
    (0.5, None)
    """
    with suppress(TypeError, ValueError, OverflowError):
        array = _plain(value)
        return float(array.item() if isinstance(array, np.ndarray) else array)  # type: ignore[arg-type]
    return None


def as_text(value: object, spec: str = "f") -> str:
    """Format a metric's value on one line.

    Parameters
    ----------
    value : object
        A number, or anything else.
    spec : str, default 'f'
        Format of numbers.

    Returns
    -------
    str
        The formatted number; for other values their own text, with single spaces.

    Examples
    --------
    >>> import numpy as np
    >>> as_text(np.array([0.5])), as_text(np.array([0.25, 0.5])), as_text("none yet")
    ('0.500000', '[0.25 0.5 ]', 'none yet')
    """
    number = as_number(value)
    return " ".join(str(_plain(value)).split()) if number is None else format(number, spec)


def numbers(pairs: Iterable[tuple[str, object]]) -> dict[str, float]:
    """Return the metrics whose values are numbers.

    Parameters
    ----------
    pairs : iterable of (str, object)
        Names and values, as from ``metric.get_name_value()``.

    Returns
    -------
    dict of str to float
        Numbers by name.
    """
    found = {name: as_number(value) for name, value in pairs}
    return {name: number for name, number in found.items() if number is not None}


def _plain(value: object) -> object:
    return value.asnumpy() if hasattr(value, "asnumpy") else value
