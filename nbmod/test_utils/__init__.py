"""Utilities for users' own tests: random arrays, comparisons, checks of symbols.

Random arrays come from NumPy's global generator, so that its seed repeats them.

    tolerance.py      default context, element type and tolerances
    arrays.py         random arrays and shapes
    sparse_arrays.py  random csr and row_sparse arrays
    compare.py        comparisons of arrays, which report the worst element, and of symbols
    symbol_checks.py  outputs and gradients against expected values or finite differences
    consistency.py    one computation across contexts, element types and optimizers
    generators.py     statistical tests of random generators
    datasets.py       MNIST, CIFAR-10 and others, from files that are there or downloaded
    process.py        environment variables, standard error, retries, devices
    borrowed.py       names that scripts take by `from mxnet.test_utils import *`

Begin with `tolerance.py`.  Imports `base`, `bench.foreign`, `compat.util`, `context`, `core`,
`gluon`, `graph`, `io`, `ndarray`, `ops` and `symbol`.
"""

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
