"""The process a test runs in: environment, standard error, attempts, devices."""

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
    """A block with other environment variables: `environment(name, value)`, or one dict.

    None removes a variable.  What nbmod reads when it is imported stays as it is.
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
    """Set a variable (None removes it); returns what it was, `default_val` if nothing."""
    before = os.environ.get(key, default_val)
    if val is None:
        os.environ.pop(key, None)
    else:
        os.environ[key] = str(val)
    return before


@contextmanager
def discard_stderr() -> Iterator[None]:
    """A block whose standard error goes nowhere, that of compiled code included."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(nowhere)
        os.close(kept)


def retry(n: int) -> Callable[[Callable], Callable]:
    """A decorator for tests that may fail by chance: up to `n` attempts, the last one counts."""
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
    """The numbers of the GPUs that can be used."""
    return range(num_gpus())


def is_cd_run() -> bool:
    """Whether MXNet's own release process runs the tests: no."""
    return False


def is_aarch64_run() -> bool:
    """Whether this is a 64-bit ARM processor."""
    return platform.machine() in ("aarch64", "arm64")


def has_tvm_ops() -> bool:
    """Whether there are ops compiled by TVM: no."""
    return False


def is_op_runnable() -> bool:
    """Whether ops run on this machine's devices: yes."""
    return True
