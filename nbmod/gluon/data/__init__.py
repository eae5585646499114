"""`mx.gluon.data`: names of Gluon's data sets and loaders (see `nbmod.gluon`)."""

from ..absent import absent_classes

_NAMES = """
    ArrayDataset BatchSampler DataLoader Dataset FilterSampler RandomSampler RecordFileDataset
    Sampler SequentialSampler SimpleDataset
"""

globals().update(absent_classes(__name__, _NAMES))
globals().update(absent_classes(__name__, "default_batchify_fn default_mp_batchify_fn"))
__all__ = _NAMES.split()
