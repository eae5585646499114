"""Runs in the MXNet worker: small programs that tests compare with the same program in nbmod.

Each is called by name, `oracle.call("mx_scripts.evaluate", ...)`, and takes and returns numbers,
strings, containers and numpy arrays. A subject with many of them has its own `mx_<subject>.py`.
"""

from __future__ import annotations

import importlib
from typing import Any

import mxnet as mx
import numpy as np


def run(module: str, function: str, *args: Any, **kwargs: Any) -> Any:
    """The result of `tests.module.function(mx, ...)`, which tests call with nbmod themselves."""
    programs = importlib.import_module(f"tests.programs.{module}")
    return getattr(programs, function)(mx, *args, **kwargs)


def evaluate(expression: str, arrays: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Outputs of an expression over NDArrays, such as `mx.nd.dot(a, b) + 1`.

    A result that is no list counts as a list of one; what is no NDArray is sent as it is.
    """
    names = {name: mx.nd.array(array, dtype=array.dtype) for name, array in arrays.items()}
    value = eval(expression, {"mx": mx, "np": np, **names})
    values = value if isinstance(value, (list, tuple)) else [value]
    return [v.asnumpy() if isinstance(v, mx.nd.NDArray) else v for v in values]
