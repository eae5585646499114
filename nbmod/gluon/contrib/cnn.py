"""`mx.gluon.contrib.cnn`: names of Gluon's layers (see `nbmod.gluon`)."""

from ..absent import absent_classes

_NAMES = """
    DeformableConvolution ModulatedDeformableConvolution
"""

globals().update(absent_classes(__name__, _NAMES))
__all__ = _NAMES.split()
