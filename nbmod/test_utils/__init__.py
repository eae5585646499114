"""Utilities for users' own tests: random arrays, comparisons, checks of symbols.

    tolerance    default context, type and tolerances    arrays      random arrays and shapes
    compare      comparison of arrays and symbols        check       outputs and gradients
    consistency  across contexts and optimizers          generators  tests of random generators
    datasets     existing data files                     process     environment, stderr, retries
    sparse_arrays    random csr and row_sparse arrays
    borrowed     names that scripts take by `from mxnet.test_utils import *`
"""

from __future__ import annotations

from . import (
               arrays,
               borrowed,
               compare,
               consistency,
               datasets,
               generators,
               process,
               sparse_arrays,
               symbol_checks,
               tolerance,
)
from .arrays import *  # noqa: F403
from .borrowed import *  # noqa: F403
from .compare import *  # noqa: F403
from .consistency import *  # noqa: F403
from .datasets import *  # noqa: F403
from .generators import *  # noqa: F403
from .process import *  # noqa: F403
from .sparse_arrays import *  # noqa: F403
from .symbol_checks import *  # noqa: F403
from .tolerance import *  # noqa: F403

__all__ = (arrays.__all__ + borrowed.__all__ + symbol_checks.__all__ + compare.__all__
           + consistency.__all__ + datasets.__all__ + generators.__all__ + process.__all__
           + sparse_arrays.__all__ + tolerance.__all__)
__dir__ = __all__.copy
