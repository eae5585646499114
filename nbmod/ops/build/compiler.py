"""The compiler: numba, if it can be imported."""

from __future__ import annotations

import logging
import pathlib
import re
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from ...base import MXNetError
from ...core.fork import prepare
from ...core.interrupts import deferred

__all__ = ["compiler_trouble", "has_compiler", "lacks_compiler", "numba_package", "pays_off",
           "require_compiler"]

LOG = logging.getLogger("nbmod")


def pays_off(elements: int, least: int) -> bool:
    """Whether a kernel is worth its call: for `least` elements and more, if it is compiled."""
    return elements >= least and has_compiler()


@cache
@deferred()
def _compiler() -> Any:
    """numba, or the error of its import, which comes to its end once it has begun.

    A numba that does not know this NumPy or Python may raise anything.
    """
    prepare()
    try:
        import numba  # which imports llvmlite
    except Exception as error:
        return error
    return numba


def numba_package() -> Any:
    """The compiler; MXNetError where there is none."""
    require_compiler("kernels")
    return _compiler()


@cache
def has_compiler() -> bool:
    """Whether kernels can be compiled; else NumPy computes everything (`ops.numpy_forms`)."""
    if trouble := compiler_trouble():
        LOG.warning("No kernel can be compiled (%s); NumPy computes, slower", trouble)
    return not trouble


def lacks_compiler() -> bool:
    """Whether it is known that no kernel can be compiled; numba is imported only where that is
    likely."""
    return (_compiler.cache_info().currsize > 0 or _looks_unusable()) and not has_compiler()


@cache
@deferred()
def _looks_unusable() -> bool:
    """Whether a package of the compiler is not installed, or numba is for older NumPy."""
    try:
        specs = [find_spec(name) for name in ("numba", "llvmlite")]
    except ImportError:     # something refuses them
        return True
    if not all(spec and spec.submodule_search_locations for spec in specs):
        return True         # what stands in for one is no package
    assert specs[0] is not None and specs[0].submodule_search_locations is not None
    folder = pathlib.Path(next(iter(specs[0].submodule_search_locations))).parent
    version = tuple(map(int, np.__version__.split(".")[:2]))
    for metadata in folder.glob("numba-*.dist-info/METADATA"):
        limit = re.search(r"^Requires-Dist: numpy.*<(\d+)\.(\d+)",
                          metadata.read_text(encoding="utf-8"), re.MULTILINE)
        return limit is not None and version >= tuple(map(int, limit.groups()))
    return False


def compiler_trouble() -> str:
    """Why numba cannot be imported; '' if it can."""
    outcome = _compiler()
    return f"{type(outcome).__name__}: {outcome}" if isinstance(outcome, Exception) else ""


def require_compiler(purpose: str) -> None:
    """MXNetError where there is no compiler for what has this `purpose`."""
    if not has_compiler():
        raise MXNetError(f"{purpose}: there is no compiler ({compiler_trouble()}); "
                         "install a numba that knows this Python and this NumPy")
