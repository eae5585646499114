"""`mxnet.rtc`: CUDA code compiled at run time, which nbmod has not."""

from .core.refusal import refuse_names

__getattr__ = refuse_names(__name__, (
    "nbmod has no CUDA code compiled at run time; mx.register_op registers operators with GPU "
    "kernels written in Python"))
