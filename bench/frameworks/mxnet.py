"""MXNet 1.9.1."""

from __future__ import annotations

import mxnet as mx

from .network import Built, Network
from .symbolic import bind

__all__ = ["build", "version"]


def version() -> str:
    return mx.__version__


def build(network: Network) -> Built:
    return bind(mx, network)
