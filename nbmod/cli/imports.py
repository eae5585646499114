"""`--import MODULE`: modules with a user's own operators, imported before files that have them."""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module

from ..base import MXNetError

__all__ = ["add_import_option", "import_hint", "import_modules"]


def add_import_option(parser: argparse.ArgumentParser) -> None:
    """Add --import, which may be repeated."""
    parser.add_argument("--import", metavar="MODULE", dest="modules", action="append", default=[],
                        help="a module with operators of your own; it is imported first")


def import_modules(options: argparse.Namespace) -> None:
    """Import the modules of --import, from the current folder first."""
    if options.modules and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    for name in options.modules:
        try:
            import_module(name)
        except Exception as error:
            raise MXNetError(f"--import {name}: {_reason(name, error)}") from error


def _reason(name: str, error: Exception) -> str:
    """Why a module cannot be imported."""
    if ".tar" in name:
        return "expected a module; an archive of kernels is for: nbmod warmup --install"
    stem, suffix = os.path.splitext(name)
    if suffix == ".py":
        return f"expected the name of a module, not of its file: --import {stem}"
    if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
        return f"there is no module {error.name!r}, neither installed nor in {os.getcwd()}"
    return f"its import fails by {type(error).__name__}: {error}"


def import_hint(options: argparse.Namespace, error: str) -> str:
    """A hint for errors about unknown operators, in commands that have the option."""
    unknown = "unknown operator" in error and hasattr(options, "modules")
    return "; --import MODULE imports a module that registers it" if unknown else ""
