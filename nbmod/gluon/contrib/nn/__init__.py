"""`mx.gluon.contrib.nn`: layers side by side, shuffled pixels, embeddings with sparse weights."""

from . import basic_layers
from .basic_layers import *  # noqa: F403

__all__ = basic_layers.__all__.copy()
__dir__ = [*__all__, "basic_layers"].copy
