"""`mxnet.notebook`: see `callback`."""

from . import callback

__all__ = ["callback"]
