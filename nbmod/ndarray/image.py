"""`mx.nd.image`: `to_tensor` is the op `_image_to_tensor`, and so on."""

from __future__ import annotations

from .functions import namespace

__getattr__, __dir__ = namespace(__name__, "_image_")
