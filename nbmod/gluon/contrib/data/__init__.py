"""`mx.gluon.contrib.data`: a sampler at intervals, and texts.

    sampler.py  `IntervalSampler`
    text.py     WikiText as sequences of tokens

Begin with `sampler.py`.  Imports `base`, `contrib.text`, `gluon.data.published_files`,
`gluon.data.sampler` and `ndarray`.
"""

from . import sampler
from . import text as text
from .sampler import *  # noqa: F403

__all__ = sampler.__all__.copy()
__dir__ = [*__all__, "sampler", "text"].copy
