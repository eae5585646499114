"""Runs in the MXNet worker: the functions of `tests.training`, with MXNet."""

from __future__ import annotations

from typing import Any

import mxnet as mx

from tests import training


def run(function: str, *args: Any, **kwargs: Any) -> Any:
    """The result of a function of `tests.training`."""
    return getattr(training, function)(mx, *args, **kwargs)
