"""`mx.gluon.contrib.cnn`: deformable convolutions."""

from . import conv_layers
from .conv_layers import *  # noqa: F403

__all__ = conv_layers.__all__.copy()
__dir__ = [*__all__, "conv_layers"].copy
