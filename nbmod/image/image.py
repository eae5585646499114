"""MXNet's module path of `mx.image`: scripts import from `mxnet.image.image`."""

from . import *  # noqa: F403
from . import __all__ as __all__
