"""`mx.nd.linalg`: `gemm` is the op `_linalg_gemm`, and so on."""

from __future__ import annotations

from .functions import namespace

__getattr__, __dir__ = namespace(__name__, "_linalg_")
