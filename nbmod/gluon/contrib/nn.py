"""`mx.gluon.contrib.nn`: names of Gluon's layers (see `nbmod.gluon`)."""

from ..absent import absent_classes

_NAMES = """
    Concurrent HybridConcurrent Identity PixelShuffle1D PixelShuffle2D PixelShuffle3D
    SparseEmbedding SyncBatchNorm
"""

globals().update(absent_classes(__name__, _NAMES))
__all__ = _NAMES.split()
