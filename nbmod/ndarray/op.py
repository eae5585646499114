"""`mx.nd.op`: every op that `mx.nd` has under its own name, and nothing else."""

from typing import TYPE_CHECKING

from .functions import is_public, namespace

if TYPE_CHECKING:
    from ._op_stubs.op import *  # noqa: F403

_get, __dir__ = namespace(__name__, "", is_public)

if not TYPE_CHECKING:  # checkers shall not take every name for one that exists
    __getattr__ = _get
