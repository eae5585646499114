"""`mx.initializer`: the first values of parameters.

    base_initializer.py  `Initializer` and its subclasses

Begin with `base_initializer.py`.  Imports `base`, `core.registry`, `ndarray`, `ops.rnn` and
`random`.
"""

from __future__ import annotations

from . import base_initializer
from .base_initializer import *  # noqa: F403

__all__ = base_initializer.__all__.copy()
__dir__ = __all__.copy

for _name in __all__:
    if isinstance(globals()[_name], type):
        globals()[_name].__module__ = __name__  # as in MXNet; pickles name it
