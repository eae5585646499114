"""States of the global random generators of Python and NumPy, as plain data.

Scripts draw from them, and so do the augmenters of `mx.image`, as in MXNet.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["get_states", "set_states"]


def get_states() -> dict[str, Any]:
    """Return the states of `random` and `numpy.random`."""
    version, words, gauss = random.getstate()
    return {"numpy": np.random.get_state(),
            "python": (version, np.array(words, np.uint32), gauss)}


def set_states(states: Mapping[str, Any]) -> None:
    """Continue from the states that `get_states` returned.

    Parameters
    ----------
    states : mapping
        Result of `get_states`.
    """
    version, words, gauss = states["python"]
    random.setstate((version, tuple(words.tolist()), gauss))
    np.random.set_state(states["numpy"])
