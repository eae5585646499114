"""Kernels that are installed: the distribution `nbmod-kernels`.

It has a folder for every CPU level, with files as in the compile cache and of the same names: the
digest in a name has the level's instruction sets in it instead of the host's.  A kernel of another
version of nbmod, numba or Python therefore has another name, and is never found.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

from ...core.config import CONFIG
from .levels import supported

__all__ = ["PACKAGE", "folders", "is_below_host", "level"]

PACKAGE = "nbmod_kernels"


@cache
def folders() -> dict[str, Path]:
    """Installed folders by level."""
    if not CONFIG.shipped:
        return {}
    spec = find_spec(PACKAGE)
    places = [] if spec is None else list(spec.submodule_search_locations or ())
    return {folder.name: folder for place in places for folder in Path(place).iterdir()
            if folder.is_dir()}


@cache
def level() -> str:
    """The best level that is installed and that this host supports; "" if there is none."""
    # Without a folder LLVM is not asked, nor imported.
    return next((name for name in supported() if name in folders()), "") if folders() else ""


def is_below_host() -> bool:
    """Whether this host supports a better level than the installed one."""
    return bool(level()) and level() != supported()[0]
