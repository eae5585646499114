"""`mx.gluon.contrib.data`: names of Gluon's samplers (see `nbmod.gluon`)."""

from ..absent import absent_classes

_NAMES = """
    IntervalSampler
"""

globals().update(absent_classes(__name__, _NAMES))
__all__ = _NAMES.split()
