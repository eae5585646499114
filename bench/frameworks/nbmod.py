"""nbmod, in a process of its own like its peers."""

from __future__ import annotations

import nbmod as mx
from nbmod.core.config import CONFIG

from .network import Built, Network
from .symbolic import bind

__all__ = ["build", "version"]


def version() -> str:
    return mx.__version__


def build(network: Network) -> Built:
    CONFIG.cuda_graphs = network.graphs
    if network.tf32:
        CONFIG.gpu_products = "tf32"
    return bind(mx, network)
