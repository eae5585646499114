"""MXNet 1.9.1."""

from __future__ import annotations

import os
import subprocess
import sys

import mxnet as mx

from .network import Built, Network
from .symbolic import bind

__all__ = ["build", "vector_bits", "version"]


def version() -> str:
    return mx.__version__


def vector_bits() -> int:
    """Those of oneDNN, whose first lines of a log name its instruction sets."""
    code = ("import mxnet as mx; x = mx.nd.ones((1, 8, 8, 8)); "
            "mx.nd.Convolution(x, x, no_bias=True, kernel=(8, 8), num_filter=1).wait_to_read()")
    log = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                         env=os.environ | {"DNNL_VERBOSE": "1"}).stdout
    (isa,) = (line for line in log.splitlines() if ",isa:" in line)
    return 512 if "AVX-512" in isa else 256 if "AVX2" in isa else 128


def build(network: Network) -> Built:
    return bind(mx, network)
