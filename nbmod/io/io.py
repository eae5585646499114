"""MXNet's module path of the iterators: scripts import from `mxnet.io.io`."""

from . import *  # noqa: F403
from . import __all__ as __all__
from . import _init_data  # noqa: F401
