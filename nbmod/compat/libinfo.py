"""`mxnet.libinfo`: nbmod has no shared library to find."""

from __future__ import annotations

from typing import NoReturn

from .mxnet_name import MXNET_VERSION as __version__  # noqa: F401 - the version of the API

__all__ = ["find_conf_path", "find_include_path", "find_lib_path"]
__dir__ = __all__.copy


def find_lib_path(prefix: str = "libmxnet") -> NoReturn:
    """Refuse to find MXNet's library, by a RuntimeError as in MXNet where it is missing.

    Parameters
    ----------
    prefix : str, default 'libmxnet'
        Its name.
    """
    raise RuntimeError(f"Cannot find {prefix}: nbmod is written in Python and has no C library")


def find_include_path() -> NoReturn:
    """Refuse to find the headers of MXNet's C interface, by a RuntimeError: there are none."""
    raise RuntimeError("Cannot find the headers: nbmod has no C interface")


def find_conf_path(prefix: str = "tvmop") -> NoReturn:
    """Refuse to find the configuration of TVM's operators, by a RuntimeError: there is none.

    Parameters
    ----------
    prefix : str, default 'tvmop'
        Its name.
    """
    raise RuntimeError(f"Cannot find the configuration of {prefix}: nbmod does not use TVM")
