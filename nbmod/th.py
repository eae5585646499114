"""`mxnet.th`: functions of Lua Torch, which nbmod has not."""

from .core.refusal import refuse_names

__getattr__ = refuse_names(__name__, (
    "nbmod has no functions of Lua Torch; mx.operator.CustomOp calls Python code, that of PyTorch "
    "included"))
