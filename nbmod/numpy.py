"""`mxnet.numpy`: MXNet's NumPy interface, which nbmod has not."""

from .core.refusal import refuse_names

__getattr__ = refuse_names(__name__, (
    "the NumPy interface of MXNet is not part of nbmod; use mx.nd, or NumPy itself"))
