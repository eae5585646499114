"""Warnings, once for each op without a sparse form, that it computes on dense arrays."""

from __future__ import annotations

from ...base import warn_user
from ...core.config import CONFIG
from .storage_types import STYPES

__all__ = ["tell"]

_told: set[tuple[str, str, str]] = set()
"""(node, op, letters of its inputs)."""


def tell(op: str, letters: str, node: str = "") -> None:
    """Warn once that an op converts its inputs; `node` is that of a network."""
    if (node, op, letters) in _told or not CONFIG.storage_fallback_log:
        return
    _told.add((node, op, letters))
    kinds = ", ".join(STYPES[letter] for letter in letters)
    where = f"{node} ({op})" if node else op
    warn_user(f"{where}: there is no sparse form for inputs of storage type ({kinds}), so they are "
              "converted to dense arrays; MXNET_STORAGE_FALLBACK_LOG_VERBOSE=0 silences this")
