"""`mx.nd.linalg`: `gemm` is the op `_linalg_gemm`, and so on."""

from typing import TYPE_CHECKING

from .functions import namespace

if TYPE_CHECKING:
    from ._op_stubs.linalg import *  # noqa: F403

_get, __dir__ = namespace(__name__, "_linalg_")

if not TYPE_CHECKING:  # checkers shall not take every name for one that exists
    __getattr__ = _get
