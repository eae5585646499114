"""`mx.gluon.contrib.data`: names of Gluon's samplers and texts (see `nbmod.gluon`)."""

from ..absent import absent_classes

_NAMES = """
    IntervalSampler
"""

globals().update(absent_classes(__name__, _NAMES))
globals().update(absent_classes(__name__, "WikiText103 WikiText2"))  # of its module text
__all__ = _NAMES.split()
