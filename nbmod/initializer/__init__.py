"""`mx.initializer`: the first values of parameters.

    base_initializer.py  `Initializer`, and the rules for endings of names
    distributions.py     fixed values and distributions: `Constant`, `Normal`, `Xavier` and others
    composite.py         `FusedRNN`, `Load` and `Mixed`, which pass arrays on to others

Begin with `base_initializer.py`.  Imports `base`, `core.registry`, `ndarray`, `ops.rnn` and
`random`.
"""

from . import base_initializer, composite, distributions
from .base_initializer import *  # noqa: F403
from .composite import *  # noqa: F403
from .distributions import *  # noqa: F403

__all__ = base_initializer.__all__ + composite.__all__ + distributions.__all__
__dir__ = __all__.copy
