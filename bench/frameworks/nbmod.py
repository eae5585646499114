"""nbmod, in a process of its own like its peers."""

from __future__ import annotations

import nbmod as mx
from nbmod.core.config import CONFIG
from nbmod.ops.simd.host import registers

from .network import Built, Network
from .symbolic import bind

__all__ = ["build", "vector_bits", "version"]


def version() -> str:
    return mx.__version__


def vector_bits() -> int:
    return 8 * registers().nbytes


def build(network: Network) -> Built:
    CONFIG.cuda_graphs = network.graphs
    if network.tf32:
        CONFIG.gpu_products = "tf32"
    return bind(mx, network)
