"""`mxnet.notebook`: see `callback`."""

from . import callback

__all__ = ["callback"]
__dir__ = __all__.copy
