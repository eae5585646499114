"""PyTorch compiled by `torch.compile`, which needs a C++ compiler."""

from __future__ import annotations

import torch
from torch._inductor.cpu_vec_isa import pick_vec_isa

from . import pytorch
from .network import Built, Network
from .pytorch import version

__all__ = ["build", "vector_bits", "version"]


def vector_bits() -> int:
    """The wider of those of its own kernels and of the library's."""
    return max(pick_vec_isa().bit_width(), pytorch.vector_bits())


def build(network: Network) -> Built:
    """The faster of two layouts for images, each compiled for these shapes."""
    return pytorch.build(network, lambda forward: torch.compile(forward, dynamic=False))
