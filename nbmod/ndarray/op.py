"""`mx.nd.op`: every op that `mx.nd` has under its own name, and nothing else."""

from __future__ import annotations

from .functions import is_public, namespace

__getattr__, __dir__ = namespace(__name__, "", is_public)
