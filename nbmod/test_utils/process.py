"""The process of a test: environment variables, standard error, retries, devices."""

from __future__ import annotations

import functools
import os
import platform
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..context import num_gpus

__all__ = ["discard_stderr", "environment", "has_tvm_ops", "is_aarch64_run", "is_cd_run",
           "is_op_runnable", "list_gpus", "retry", "set_env_var"]


@contextmanager
def environment(*args: Any) -> Iterator[None]:
    """Context manager that changes environment variables.

    Options that nbmod reads at import do not change.

    Parameters
    ----------
    *args
        (name, value), or a dict of several; the value None removes a variable.

    Examples
    --------
    >>> import os
    >>> with mx.test_utils.environment("NAME_OF_AN_EXAMPLE", "1"):
    ...     os.environ["NAME_OF_AN_EXAMPLE"]
    '1'
    >>> "NAME_OF_AN_EXAMPLE" in os.environ
    False
    """
    changes: Mapping[str, str | None] = dict([args]) if len(args) == 2 else args[0]
    before = {name: os.environ.get(name) for name in changes}
    try:
        for name, value in changes.items():
            set_env_var(name, value)
        yield
    finally:
        for name, value in before.items():
            set_env_var(name, value)


def set_env_var(key: str, val: str | None, default_val: str = "") -> str:
    """Set an environment variable, and return its former value.

    Parameters
    ----------
    key : str
        Name of the variable.
    val : str or None
        Its new value; None removes it.
    default_val : str, default ''
        Value that is returned for a variable that did not exist.
    """
    before = os.environ.get(key, default_val)
    if val is None:
        os.environ.pop(key, None)
    else:
        os.environ[key] = str(val)
    return before


@contextmanager
def discard_stderr() -> Iterator[None]:
    """Context manager that discards standard error, that of compiled code included."""
    sys.stderr.flush()
    saved = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(saved, 2)
        os.close(nowhere)
        os.close(saved)


def retry(n: int) -> Callable[[Callable], Callable]:
    """Decorate a flaky test so that it is tried several times.

    Parameters
    ----------
    n : int
        Largest number of attempts; the failure of the last one is raised.

    Raises
    ------
    AssertionError
        If `n` is less than 1.
    """
    if n < 1:
        raise AssertionError(f"retry: n is {n}, expected at least 1")

    def decorate(function: Callable) -> Callable:
        @functools.wraps(function)
        def attempt(*args: Any, **kwargs: Any) -> Any:
            for _ in range(n - 1):
                try:
                    return function(*args, **kwargs)
                except AssertionError:
                    traceback.print_exc(limit=2)
            return function(*args, **kwargs)

        return attempt

    return decorate


def list_gpus() -> range:
    """Return the indices of the available GPUs."""
    return range(num_gpus())


def is_cd_run() -> bool:
    """Return False: this is not MXNet's continuous delivery."""
    return False


def is_aarch64_run() -> bool:
    """Return whether this is a 64-bit ARM processor."""
    return platform.machine() in ("aarch64", "arm64")


def has_tvm_ops() -> bool:
    """Return False: no operators are compiled by TVM."""
    return False


def is_op_runnable() -> bool:
    """Return True: operators run on the devices of this machine."""
    return True
