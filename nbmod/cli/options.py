"""Options that several commands have: the network, its shapes, modules with a user's own operators.

Modules are imported before files that have their operators are read.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module

from ..base import MXNetError

__all__ = ["add_model_options", "add_network_options", "import_hint", "import_modules",
           "symbol_file"]


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add --epoch, and those of `add_network_options`."""
    parser.add_argument("--epoch", type=int, help="of a checkpoint; default: the newest")
    add_network_options(parser)


def add_network_options(parser: argparse.ArgumentParser) -> None:
    """Add --shape and --import, which may be repeated."""
    parser.add_argument("--shape", action="append", default=[], type=_parse_shape,
                        metavar="NAME=N,...",
                        help="the shape of an input, such as data=16,3,224,224; once for each")
    parser.add_argument("--import", metavar="MODULE", dest="modules", action="append", default=[],
                        help="a module with operators of your own; it is imported first")


def symbol_file(text: str) -> str:
    """Return the file of a network that a file or the prefix of a checkpoint names.

    Parameters
    ----------
    text : str
        As it is given.
    """
    path = f"{text}-symbol.json"
    return path if not os.path.exists(text) and os.path.exists(path) else text


def _parse_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """data=16,3,224,224 as a name and a shape."""
    name, equals, shape = text.partition("=")
    sizes = shape.split(",")
    if not (name and equals and all(size.strip().isdigit() for size in sizes)):
        raise argparse.ArgumentTypeError(f"{text!r} is not like data=16,3,224,224")
    return name, tuple(map(int, sizes))


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
