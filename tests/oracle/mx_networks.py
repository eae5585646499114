"""Runs in the MXNet worker: the functions of `tests.networks`, with MXNet."""

from __future__ import annotations

from typing import Any

import mxnet as mx

from tests import networks


def run(function: str, *args: Any, **kwargs: Any) -> Any:
    """The result of a function of `tests.networks`."""
    return getattr(networks, function)(mx, *args, **kwargs)
