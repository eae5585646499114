"""`mx.gluon.model_zoo`: networks for images, as symbols (see `vision`)."""

from . import model_store, vision

__all__ = ["model_store", "vision"]
