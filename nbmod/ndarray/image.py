"""`mx.nd.image`: `to_tensor` is the op `_image_to_tensor`, and so on."""

from typing import TYPE_CHECKING

from .functions import namespace

if TYPE_CHECKING:
    from ._op_stubs.image import *  # noqa: F403

_get, __dir__ = namespace(__name__, "_image_")

if not TYPE_CHECKING:  # checkers shall not take every name for one that exists
    __getattr__ = _get
